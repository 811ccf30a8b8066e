"""Python's garbage collections: how long each held the threads, and where it struck."""

from __future__ import annotations

import _thread
import gc
import threading
from typing import Any

from ...profiler.recording.collector import CaptureContext

SHORTEST_NS = 100_000
"""Collections shorter than this are counted, not recorded: the youngest generation is collected all the time."""


class GarbageCollector:
    """A slice for each collection that took time, with the stack that it interrupted."""

    name = "gc"
    details = ("always", "low", "normal", "deep")
    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._began: dict[int, int] = {}
        self._short = 0
        self._callback: Any = None

    def available(self) -> str | None:
        """Where Python calls back, which CPython does."""
        return None if hasattr(gc, "callbacks") else "this Python does not report its garbage collections"

    def start(self, context: CaptureContext) -> None:
        """Adds the callback."""
        self._context = context
        seen = context.guarded(self.name, self._seen)

        def callback(phase: str, info: dict[str, int]) -> None:
            try:
                seen(phase, info)
            except KeyboardInterrupt:
                _thread.interrupt_main()  # Python would print and drop what a callback raises

        self._callback = callback
        gc.callbacks.append(callback)

    def stop(self) -> None:
        """Removes it, and says how many short collections were only counted."""
        if self._callback in gc.callbacks:
            gc.callbacks.remove(self._callback)
        if self._short:
            self._context.loss(
                self.name, "short_collections", "info", count=self._short,
                detail=f"garbage collections shorter than {SHORTEST_NS // 1000} us are counted, not recorded",
            )  # fmt: skip

    def _seen(self, phase: str, info: dict[str, int]) -> None:
        if not self._context.active:
            return
        now = self._context.rows.now()
        thread = threading.get_ident()
        if phase == "start":
            self._began[thread] = now
            return
        began = self._began.pop(thread, None)
        if began is None:
            return
        if now - began < SHORTEST_NS:
            self._short += 1
            return
        rows = self._context.rows
        rows.slice(
            f"garbage collection, generation {info['generation']}", "gc", began, now - began,
            stack_id=rows.stack_here(2), args=f'{{"collected": {info["collected"]}}}',
        )  # fmt: skip
