"""The garbage collector is called in every step, with many objects alive."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

COLLECT = Injection("collect", ("gc",), {"end": Code("gc.collect()  #!")})
WORKLOAD = Workload(
    "garbage_collection",
    "the garbage collector is called in every step",
    (COLLECT,),
    {"module": "gc.freeze()\n$helper = [[number] for number in range($objects)]\n"},
    lambda rng, regime: {"objects": rng.randint(60_000, 120_000)},
)
