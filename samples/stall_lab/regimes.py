"""How host and device stand to each other in a run."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

HOST_MS = 2.4
"""What one step costs the host alone, about, while it is recorded (two slow cores): only used to draw durations."""


@dataclass(frozen=True, slots=True)
class Regime:
    """One of the three.

    Attributes:
        name: ``ahead``, ``balanced`` or ``sync``.
        kernel_us: What a layer of the model takes on the device, about; each run draws its own around it.
        synchronizes: Each step ends with a wait for the device, as some loops have for their timing.
        slack_ms: How much longer the device needs for a step than the host, about: a smaller delay in every step
            costs nothing.
    """

    name: str
    kernel_us: int
    synchronizes: bool
    slack_ms: float


REGIMES = {
    regime.name: regime
    for regime in (
        Regime("ahead", 100, False, 5.0),
        Regime("balanced", 40, False, 0.6),
        Regime("sync", 100, True, 0.0),
    )
}


def set_up_device(sim: Any, regime: Regime, rng: random.Random, elements: int, flops: int) -> None:
    """Sets the speeds of the simulated accelerator.

    Args:
        sim: The package ``simulated_accelerator``, loaded.
        regime: The regime.
        rng: Where the run's own deviation comes from.
        elements: Numbers in an activation.
        flops: Floating-point operations of a layer.
    """
    kernel_s = regime.kernel_us * rng.uniform(0.85, 1.15) * 1e-6
    # An operation on a whole activation takes about as long as a layer; one on a single number only the overhead.
    sim.set_speed("tensor", flops / kernel_s, overhead_ns=3_000)
    sim.set_speed("vector", 8 * elements / kernel_s, overhead_ns=3_000)
