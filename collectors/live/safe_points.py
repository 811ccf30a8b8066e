"""Where torch's profiler can be started and stopped: not in a backward pass, and not below torch.compile.

The autograd engine puts the thread's state back when a node has run, and the profiler's is part of it: a session that
was ended meanwhile comes back half alive, and the process ends (torch 2.13). Python runs inside a backward pass in
hooks, in custom functions, and where a backward graph is compiled. Starting with Python stacks looks at every frame of
the thread, and those that torch.compile runs are not all real ones.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

from ...profiler.recording.collector import CaptureContext
from .patching import Patches

_COMPILER = "/torch/_dynamo/"


class SafePoints:
    """Tells whether the calling thread is at such a place, and calls back at some of them.

    Args:
        context: The session.
        collector: For whom.
        reached: Called right before and after the outermost backward pass of a thread, and when a batch is fetched.
    """

    def __init__(self, context: CaptureContext, collector: str, reached: Callable[[], None]) -> None:
        self._patches = Patches(context, collector)
        self._reached = reached
        self._depth = threading.local()

    def install(self) -> None:
        """Wraps the functions through which Python enters the engine, and the loaders'."""
        import torch
        from torch.utils.data import dataloader

        for name in ("backward", "grad"):
            self._patches.around(torch.autograd, name, self._enters, self._leaves)
        self._patches.around(dataloader._BaseDataLoaderIter, "__next__", self._fetches, self._fetched)

    def remove(self) -> None:
        """Takes the wrappers off."""
        self._patches.remove()

    def here(self) -> bool:
        """Whether the profiler may be started or stopped by the caller."""
        return not self.in_backward() and not _below_the_compiler(sys._getframe(1))

    def in_backward(self) -> bool:
        """Whether the calling thread is in a backward pass."""
        return getattr(self._depth, "count", 0) > 0

    def _enters(self, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> bool:
        if not self.in_backward():
            self._reached()
        self._depth.count = getattr(self._depth, "count", 0) + 1
        return True

    def _leaves(self, _token: bool, _result: Any, _error: BaseException | None) -> None:
        self._depth.count -= 1
        if self._depth.count == 0:
            self._reached()

    def _fetches(self, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> None:
        self._reached()

    def _fetched(self, _token: Any, _result: Any, _error: BaseException | None) -> None:
        return None


def _below_the_compiler(frame: FrameType | None) -> bool:
    while frame is not None:
        if _COMPILER in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False
