"""One worker process loads batches, and takes longer for one than a step lasts; several would keep up."""

from __future__ import annotations

from ..workload import Injection, Workload, delay_ms

FEW = Injection(
    "few", ("input",), {}, switched={"workers": (1, 6), "loop_mark": ("  #! few", "")},
)  # fmt: skip
WORKLOAD = Workload(
    "too_few_workers",
    "one worker process cannot keep up",
    (FEW,),
    {"item": "time.sleep($read_ms / 1000)"},
    lambda rng, regime: {"read_ms": 8 + delay_ms(rng, regime)},
    regimes=("balanced", "sync"),
)
