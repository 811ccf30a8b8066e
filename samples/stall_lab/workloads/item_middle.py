"""A number is read back in the middle of the forward pass, and again before the optimizer runs."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

ITEM = Injection(
    "item",
    ("synchronization",),
    {
        "forward": Code("if place == $position and x.max().item() > $limit:  #!\n    x = x.clamp(max=$limit)"),
        "gradients": Code("if loss.item() > $limit:  #!\n    continue"),
    },
    lambda rng, regime: {"limit": rng.randint(1000, 9000)},
)
WORKLOAD = Workload("item_middle", "a number is read back within the step, twice", (ITEM,))
