"""Two mistakes: a slow loader, and the loss read back in every step."""

from __future__ import annotations

from ..workload import Workload
from .item_middle import ITEM
from .slow_loader import LOADER

WORKLOAD = Workload("loader_and_item", "a slow loader, and numbers read back", (LOADER, ITEM))
