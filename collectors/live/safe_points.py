"""Where torch's profiler can be started and stopped: elsewhere, torch 2.13 ends the process.

* Not in a backward pass: the autograd engine puts the thread's state back when a node has run, and the profiler's is
  part of it, so a session that was ended meanwhile comes back half alive. Python runs there in hooks, custom
  functions, and where a backward graph is compiled.
* Not while a range is open that began under an earlier session: when it ends, it writes its end into memory of that
  session, which is gone. Ranges are ``record_function`` (every ``Optimizer.step`` is one) and what C++ opens around
  Python: custom ops, custom functions, dispatch handlers, compiled graphs.
* Not below torch.compile: starting with Python stacks looks at every frame of the thread, not all of which are real.
"""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from types import FrameType
from typing import Any

from ...profiler.recording.collector import CaptureContext
from .patching import Patches

_UNSAFE_FILE = re.compile(
    r"/torch/(?:_dynamo|_inductor|_functorch|_library|_higher_order_ops|_subclasses|fx)/|/torch/(?:library|_ops)\.py$"
    r"|/torch/autograd/function\.py$|/torch/utils/_python_dispatch\.py$|/torchinductor_"
)
"""A frame of one of these files means that C++ has opened a range around the Python that runs."""

_UNSAFE_FUNCTIONS = ("__torch_dispatch__", "__torch_function__")


class SafePoints:
    """Tells whether the calling thread is at such a place, and calls back at some of them.

    Args:
        context: The session.
        collector: For whom.
        reached: Called where a thread enters or leaves its outermost backward pass, leaves its outermost range, or
            fetches a batch.

    """

    def __init__(self, context: CaptureContext, collector: str, reached: Callable[[], None]) -> None:
        self._patches = Patches(context, collector)
        self._reached = reached
        self._of_thread = threading.local()
        self._session_runs = False
        self._watches_ranges = False

    def install(self) -> None:
        """Wraps the functions through which Python enters the engine and loaders."""
        import torch
        from torch.utils.data import dataloader

        around = self._patches.around
        for name in ("backward", "grad"):
            around(torch.autograd, name, self._enters_backward, self._leaves_backward)
        around(dataloader._BaseDataLoaderIter, "__next__", self._fetches)

    def session_begins(self) -> None:
        """A session of ours runs: ranges that begin from now on hold on to it.

        They are wrapped from the first session on and stay so, since one may outlive its session.
        """
        self._session_runs = True
        if self._watches_ranges:
            return
        import torch

        self._watches_ranges = True
        for name, after in (("__enter__", self._entered_range), ("__exit__", self._left_range)):
            self._patches.around(torch.autograd.profiler.record_function, name, after=after)

    def session_ends(self) -> None:
        """It runs no more; repeatable."""
        self._session_runs = False

    def remove(self) -> None:
        """Takes the wrappers off."""
        self._patches.remove()

    def here(self) -> bool:
        """Whether the caller may start a session, or end one and start the next."""
        return not self.in_backward() and not self.open_ranges() and _is_safe(sys._getframe(1))

    def in_backward(self) -> bool:
        """Whether the calling thread is in a backward pass."""
        return getattr(self._of_thread, "passes", 0) > 0

    def open_ranges(self) -> int:
        """How many ranges of the calling thread are open that began under a session of ours."""
        return sum(getattr(self._of_thread, "ranges", ()))

    def _enters_backward(self, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> bool:
        if not self.in_backward():
            self._reached()
        self._of_thread.passes = getattr(self._of_thread, "passes", 0) + 1
        return True

    def _leaves_backward(self, _token: bool, _result: Any, _error: BaseException | None) -> None:
        self._of_thread.passes -= 1
        if self._of_thread.passes == 0:
            self._reached()

    def _entered_range(self, _token: bool, _result: Any, error: BaseException | None) -> None:
        if error is None:
            self._of_thread.__dict__.setdefault("ranges", []).append(self._session_runs)

    def _left_range(self, _token: bool, _result: Any, _error: BaseException | None) -> None:
        ranges = getattr(self._of_thread, "ranges", None)
        if ranges and ranges.pop() and not any(ranges):
            self._reached()

    def _fetches(self, _arguments: tuple[Any, ...], _named: dict[str, Any]) -> None:
        self._reached()


def _is_safe(frame: FrameType | None) -> bool:
    while frame is not None:
        code = frame.f_code
        if code.co_name in _UNSAFE_FUNCTIONS or _is_unsafe_file(code.co_filename):
            return False
        frame = frame.f_back
    return True


@lru_cache(maxsize=4096)
def _is_unsafe_file(name: str) -> bool:
    return _UNSAFE_FILE.search(name) is not None
