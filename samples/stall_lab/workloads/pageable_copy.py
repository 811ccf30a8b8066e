"""A large table is copied from pageable memory in every step, though it never changes."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

COPY = Injection(
    "copy",
    ("copy", "synchronization"),
    {
        "prepare": Code("self.$helper = torch.zeros($numbers)", "self.$helper = torch.zeros($numbers, device=device)"),
        "copy": Code("table = state.$helper.to(device)  #!", "table = state.$helper"),
    },
    lambda rng, regime: {"numbers": rng.randint(2, 5) * 1_000_000},
)
WORKLOAD = Workload("pageable_copy", "pageable memory is copied in every step", (COPY,))
