"""Noticing profiler sessions that are not ours: a second session inside another one ends the process (torch 2.13).

Whoever starts torch's profiler, through ``torch.profiler`` or ``torch.autograd.profiler``, calls ``_prepare_trace``,
``_start_trace`` and ``__exit__`` of ``torch.autograd.profiler.profile``; these are wrapped so that ours is out of the
way before theirs begins. ``torch.profiler.profile.stop`` is wrapped too, because ``on_trace_ready`` runs in it.
"""

from __future__ import annotations

import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


def session_active() -> bool:
    """Whether any profiler session runs in this process, ours or not."""
    import torch
    import torch.autograd.profiler as autograd_profiler

    return bool(getattr(autograd_profiler, "_is_profiler_enabled", False) or torch._C._autograd._profiler_enabled())


def session_on_this_thread() -> bool:
    """Whether the calling thread holds a profiler session: no other thread can end it."""
    import torch

    return bool(torch._C._autograd._profiler_enabled())


class ForeignSessions:
    """Watches for other sessions while it is installed.

    Args:
        make_way: Called before another session is prepared or started, on its thread. Must not raise.
    """

    def __init__(self, make_way: Callable[[], None]) -> None:
        self._make_way = make_way
        self._own_thread: int | None = None
        self._undo: list[tuple[Any, str, Any, Any]] = []
        self._running: weakref.WeakSet[Any] = weakref.WeakSet()
        self._inside = 0
        self._installed = False
        self.seen = 0

    @property
    def busy(self) -> bool:
        """Whether another session is prepared or runs, or its owner is inside stop()."""
        return len(self._running) > 0 or self._inside > 0

    @contextmanager
    def own_call(self) -> Iterator[None]:
        """What this thread does to a profiler inside the block is ours."""
        self._own_thread = threading.get_ident()
        try:
            yield
        finally:
            self._own_thread = None

    def install(self) -> None:
        """Wraps torch's methods."""
        import torch.autograd.profiler as autograd_profiler
        import torch.profiler

        self._installed = True
        self._wrap(autograd_profiler.profile, "_prepare_trace", self._begins)
        self._wrap(autograd_profiler.profile, "_start_trace", self._begins)
        self._wrap(autograd_profiler.profile, "__exit__", None, self._ended)
        self._wrap(torch.profiler.profile, "stop", self._enters, self._leaves)
        for name in ("emit_nvtx", "emit_itt"):
            if hasattr(autograd_profiler, name):
                self._wrap(getattr(autograd_profiler, name), "__enter__", self._begins)
                self._wrap(getattr(autograd_profiler, name), "__exit__", None, self._ended)
        self._wrap_legacy()

    def _wrap_legacy(self) -> None:
        try:
            from torch.autograd import profiler_legacy
        except ImportError:
            return
        self._wrap(profiler_legacy.profile, "__enter__", self._begins)
        self._wrap(profiler_legacy.profile, "__exit__", None, self._ended)

    def remove(self) -> None:
        """Takes the wrappers off; one that somebody has wrapped again stays and does nothing more."""
        self._installed = False
        for owner, name, original, wrapper in reversed(self._undo):
            if owner.__dict__.get(name) is wrapper:
                setattr(owner, name, original)
        self._undo.clear()

    def _wrap(
        self,
        owner: Any,
        name: str,
        before: Callable[[Any], None] | None,
        after: Callable[[Any], None] | None = None,
    ) -> None:
        original = owner.__dict__.get(name)
        if original is None:
            return

        @functools.wraps(original)
        def wrapper(profiler: Any, *arguments: Any, **named: Any) -> Any:
            if not self._installed or self._own_thread == threading.get_ident():
                return original(profiler, *arguments, **named)
            if before is not None:
                before(profiler)
            try:
                return original(profiler, *arguments, **named)
            finally:
                if after is not None:
                    after(profiler)

        setattr(owner, name, wrapper)
        self._undo.append((owner, name, original, wrapper))

    def _begins(self, profiler: Any) -> None:
        if not getattr(profiler, "enabled", True):
            return
        if profiler not in self._running:
            self._running.add(profiler)
            self.seen += 1
        self._make_way()

    def _ended(self, profiler: Any) -> None:
        self._running.discard(profiler)

    def _enters(self, _profiler: Any) -> None:
        self._inside += 1

    def _leaves(self, _profiler: Any) -> None:
        self._inside -= 1
