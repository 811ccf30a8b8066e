"""Two mistakes: plain Python in every step, and an op without a kernel."""

from __future__ import annotations

from ..workload import Workload
from .fallback_forward import FALLBACK
from .python_loop import LOOP

WORKLOAD = Workload("python_and_fallback", "plain Python in every step, and an op without a kernel", (LOOP, FALLBACK))
