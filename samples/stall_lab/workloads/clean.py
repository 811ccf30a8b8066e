"""Nothing is wrong."""

from __future__ import annotations

from ..workload import Workload

WORKLOAD = Workload("clean", "nothing is wrong", regimes=("ahead",))
