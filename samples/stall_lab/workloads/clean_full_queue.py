"""The launch queue is short and always full: launches wait, the device never does."""

from __future__ import annotations

from ..workload import Workload

WORKLOAD = Workload(
    "clean_full_queue", "the launch queue is always full", settings={"launch_limit": 24}, regimes=("ahead",)
)
