"""The cache of the allocator is emptied in every step, and all memory has to be asked for again."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

FLUSH = Injection("flush", ("allocation",), {"end": Code("torch.sim.empty_cache()  #!")})
WORKLOAD = Workload("allocator_flush", "the allocator's cache is emptied in every step", (FLUSH,))
