"""Files: torch.save and torch.load, and what training threads open, read through and sync.

Only calls on training threads count: a loader's worker that reads files is doing its work.
"""

from __future__ import annotations

import builtins
import json
import os
from typing import Any

from ...profiler.recording.collector import CaptureContext
from .patching import Patches, called_from_torch_compile, on_training_thread

SHORTEST_OPEN_NS = 50_000
"""An open that is shorter is not recorded: imports open files by the hundred."""


class FileCollector:
    """A slice for each checkpoint, load, slow open and sync."""

    name = "io"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self) -> None:
        self._patches: Patches | None = None

    def available(self) -> str | None:
        """Always."""
        return None

    def start(self, context: CaptureContext) -> None:
        """Wraps the calls."""
        import torch

        self._context = context
        self._patches = Patches(context, self.name)
        for owner, name in ((torch, "save"), (torch, "load"), (os, "fsync")):
            self._patches.around(owner, name, self._begin(f"{owner.__name__}.{name}"), self._end)
        self._patches.around(builtins, "open", self._begin_open, self._end_open)

    def stop(self) -> None:
        """Takes the wrappers off."""
        if self._patches is not None:
            self._patches.remove()

    def _begin(self, name: str) -> Any:
        def begin(arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
            if not on_training_thread(self._context) or called_from_torch_compile():
                return None
            rows = self._context.rows
            return rows.begin(name, "io", rows.stack_here(2))

        return begin

    def _end(self, opened: Any, _result: Any, error: BaseException | None) -> None:
        self._context.rows.end(opened, args=_error_text(error))

    def _begin_open(self, arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
        if not on_training_thread(self._context) or called_from_torch_compile():
            return None
        return self._context.rows.now(), arguments[0] if arguments else None

    def _end_open(self, token: tuple[int, Any], _result: Any, error: BaseException | None) -> None:
        began, file = token
        rows = self._context.rows
        took = rows.now() - began
        if took < SHORTEST_OPEN_NS:
            return
        named = os.fspath(file) if isinstance(file, str | os.PathLike) else None
        args = {"file": self._context.redacted(str(named))} if named is not None else {}
        rows.slice("open", "io", began, took, stack_id=rows.stack_here(2), args=json.dumps(args) if args else None)


def _error_text(error: BaseException | None) -> str | None:
    return None if error is None else json.dumps({"error": type(error).__name__})
