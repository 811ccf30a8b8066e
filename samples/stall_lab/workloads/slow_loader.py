"""The data set takes too long for a batch, in the process that trains."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, delay_ms

LOADER = Injection(
    "loader",
    ("input",),
    {"item": Code("time.sleep($read_ms / 1000)  #!")},
    lambda rng, regime: {"read_ms": delay_ms(rng, regime)},
)
WORKLOAD = Workload("slow_loader", "the data set is slow and nothing loads ahead", (LOADER,))
