"""One rank of two loads its batches more slowly than the other, which waits for it in every step."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, delay_ms
from .no_overlap import AVERAGED, MODULE

SLOW = Injection(
    "slow",
    ("wait_for_peer",),
    {"item": Code("if dist.get_rank() == 1:\n    time.sleep($read_ms / 1000)  #!")},
    lambda rng, regime: {"read_ms": delay_ms(rng, regime), "bucket_mb": 1},
)
WORKLOAD = Workload(
    "slow_rank",
    "one rank of two loads its batches slowly",
    (SLOW,),
    {"module": MODULE, "data_module": MODULE, "prepare": AVERAGED},
    regimes=("ahead", "sync"),
    ranks=2,
)
