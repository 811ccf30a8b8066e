"""The cache of the allocator is emptied in every step, and all memory has to be asked for again."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

FLUSH = Injection("flush", ("allocation", "synchronization"), {"end": Code("torch.sim.empty_cache()  #!")})
WORKLOAD = Workload(
    "allocator_flush",
    "the allocator's cache is emptied in every step",
    (FLUSH,),
    # Buffers that live for a part of the step, each in a segment of its own.
    {
        "between": "$helper = [torch.empty($count, device=device) for _ in range($buffers)]",
        "gradients": "$helper.clear()",
    },
    lambda rng, regime: {"count": rng.randint(3, 6) << 20, "buffers": rng.randint(5, 9)},
)
