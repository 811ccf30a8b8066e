"""The loss is read back in every step."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

ITEM = Injection("item", ("synchronization",), {"end": Code("state.$helper = loss.item()  #!")})
WORKLOAD = Workload("item_end", "the loss is read back in every step", (ITEM,), regimes=("ahead", "balanced"))
