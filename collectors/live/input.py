"""Waiting for input: each ``next`` of a DataLoader, how many workers it has, and how many batches lay ready."""

from __future__ import annotations

import json
from typing import Any

from ...profiler.recording.captured_rows import OpenSlice
from ...profiler.recording.collector import CaptureContext
from .patching import Patches

STACK_FROM_NS = 1_000_000
"""A wait this long is recorded with its stack."""


class InputCollector:
    """A slice for each wait; a counter of batches that were ready when the wait began."""

    name = "input"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self) -> None:
        self._patches: Patches | None = None

    def available(self) -> str | None:
        """Always."""
        return None

    def start(self, context: CaptureContext) -> None:
        """Wraps what every kind of loader iterates with."""
        from torch.utils.data import dataloader

        self._context = context
        self._patches = Patches(context, self.name)
        self._patches.around(dataloader._BaseDataLoaderIter, "__next__", self._wait_begins, self._wait_ends)

    def stop(self) -> None:
        """Takes the wrapper off."""
        if self._patches is not None:
            self._patches.remove()

    def _wait_begins(self, arguments: tuple[Any, ...], _named: dict[str, Any]) -> tuple[OpenSlice, int, int | None]:
        rows = self._context.rows
        workers = int(getattr(arguments[0], "_num_workers", 0))
        ready = ready_batches(arguments[0]) if workers else None
        if ready is not None:
            rows.counter(rows.counter_track("DataLoader: batches ready", "batches"), rows.now(), ready)
        return rows.begin("DataLoader.__next__", "input"), workers, ready

    def _wait_ends(self, token: tuple[OpenSlice, int, int | None], _result: Any, error: BaseException | None) -> None:
        opened, workers, ready = token
        rows = self._context.rows
        end = rows.leave(opened)
        if end - opened.ts >= STACK_FROM_NS:
            opened.stack_id = rows.stack_here(2)
        told: dict[str, Any] = {"workers": workers, "ready": ready}
        if isinstance(error, StopIteration):
            told["end"] = True
        rows.write(opened, end, args=json.dumps({key: value for key, value in told.items() if value is not None}))


def ready_batches(iterator: Any) -> int | None:
    """How many batches a multi-process loader's iterator has at hand; None where it does not tell."""
    waiting_in_order = [task for task in getattr(iterator, "_task_info", {}).values() if len(task) > 1]
    queue = getattr(iterator, "_data_queue", None)
    try:
        return len(waiting_in_order) + queue.qsize() if queue is not None else None
    except NotImplementedError:
        return None  # macOS has no size of a queue between processes
