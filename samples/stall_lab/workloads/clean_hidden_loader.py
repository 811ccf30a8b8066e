"""A loader that takes its time, all of it while the device is busy."""

from __future__ import annotations

from ..workload import Workload

WORKLOAD = Workload(
    "clean_hidden_loader", "the loader is slow, and hidden behind the device", (),
    {"item": "time.sleep($read_ms / 1000)"},
    lambda rng, regime: {"read_ms": regime.slack_ms * rng.uniform(0.3, 0.5)}, regimes=("ahead",),
)  # fmt: skip
