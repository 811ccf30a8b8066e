"""Printing a tensor: it waits for the device, copies, and formats, often unnoticed in a log line."""

from __future__ import annotations

import threading
from typing import Any

from ...profiler.recording.collector import CaptureContext
from .patching import Patches, called_from_torch_compile


class PrintCollector:
    """A slice for each ``Tensor.__repr__`` and ``__format__``, with the line that asked for it."""

    name = "prints"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self) -> None:
        self._patches: Patches | None = None
        self._printing = threading.local()

    def available(self) -> str | None:
        """Always."""
        return None

    def start(self, context: CaptureContext) -> None:
        """Wraps the methods."""
        import torch

        self._context = context
        self._patches = Patches(context, self.name)
        for name in ("__repr__", "__format__"):
            self._patches.around(torch.Tensor, name, self._begin(f"Tensor.{name}"), self._end)

    def stop(self) -> None:
        """Takes the wrappers off."""
        if self._patches is not None:
            self._patches.remove()

    def _begin(self, name: str) -> Any:
        def begin(_arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
            if getattr(self._printing, "now", False) or called_from_torch_compile():
                return None  # a tensor's text is made of those of its elements
            self._printing.now = True
            rows = self._context.rows
            return rows.begin(name, "io", rows.stack_here(2))

        return begin

    def _end(self, opened: Any, _result: Any, _error: BaseException | None) -> None:
        self._printing.now = False
        self._context.rows.end(opened)
