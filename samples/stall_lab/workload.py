"""What a workload is: a script, and the mistakes that it can have."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .regimes import Regime

Values = Mapping[str, Any]

SLOTS = ("module", "data_module", "prepare", "item", "copy", "forward", "between", "gradients", "end")
"""Where a script has room for code, see ``script``: at the level of the two modules, before the first step, while a
batch is loaded, where it is copied, after a layer, after the forward pass, after the backward pass, after the step."""


@dataclass(frozen=True, slots=True)
class Code:
    """Code of one slot with a mistake and without. ``$name`` stands for a drawn value.

    Attributes:
        on: With it. Lines that end in ``#!`` are the lines to blame; the mark is not in the script.
        off: Without it: what a careful author would have written, often nothing.
    """

    on: str
    off: str = ""


@dataclass(frozen=True, slots=True)
class Injection:
    """One mistake.

    Attributes:
        name: Short.
        causes: The causes that are right for it, as ``stallscope.analysis.causes`` names them.
        slots: The code, by slot.
        draw: Draws the values that its code needs.
        settings: Of the simulated accelerator while it is on.
        switched: Drawn values that it overrides, as (with it, without).
    """

    name: str
    causes: tuple[str, ...]
    slots: Mapping[str, Code]
    draw: Callable[[random.Random, Regime], dict[str, Any]] = lambda rng, regime: {}
    settings: Mapping[str, int] = field(default_factory=dict)
    switched: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """A training script with one mistake, two, or none.

    Attributes:
        name: As on the command line.
        meaning: What is wrong with it, as half a sentence.
        injections: The mistakes; none: the script is clean and nothing must be found.
        slots: Code that it has in any case, by slot.
        draw: Draws the values that this code needs.
        settings: Of the simulated accelerator in any case.
        regimes: Those that it makes sense in.
        steps: Steps that are measured.
        detail: Of the recording: where Python stacks would cost more than the mistake, ``low``.
        ranks: Processes that train together; what is measured is what rank 0 loses.
    """

    name: str
    meaning: str
    injections: tuple[Injection, ...] = ()
    slots: Mapping[str, str] = field(default_factory=dict)
    draw: Callable[[random.Random, Regime], dict[str, Any]] = lambda rng, regime: {}
    settings: Mapping[str, int] = field(default_factory=dict)
    regimes: tuple[str, ...] = ("ahead", "balanced", "sync")
    steps: int = 12
    detail: str = "normal"
    ranks: int = 1


def delay_ms(rng: random.Random, regime: Regime) -> float:
    """A delay of the host in every step that costs the device 3 to 8 ms, about."""
    return regime.slack_ms + rng.uniform(3, 8)


def gated(op: str) -> str:
    """Code after a layer that scales it by ``op`` of a small ``gate``: one number for each row of the batch."""
    return f"if place >= $position:\n    gate = x.mean(1, keepdim=True)\n    gate = {op}\n    x = x * (1 + gate)"
