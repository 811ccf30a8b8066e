"""Two mistakes: a table copied from pageable memory, and plain Python in every step."""

from __future__ import annotations

from ..workload import Workload
from .pageable_copy import COPY
from .python_loop import LOOP

WORKLOAD = Workload("copy_and_loop", "pageable memory is copied, and plain Python works", (COPY, LOOP))
