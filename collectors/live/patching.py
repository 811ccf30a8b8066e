"""Wrapping functions of other people's modules, so that a collector sees their calls and can never break them.

What runs before and after the original is guarded; the original runs exactly once with the arguments it was given, and
what it returns or raises passes through.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from ...profiler.recording.collector import CaptureContext

Before = Callable[[tuple[Any, ...], dict[str, Any]], Any]
After = Callable[[Any, Any, BaseException | None], None]


class Patches:
    """The wrappers of one collector.

    Args:
        context: The session.
        collector: The collector's name.
    """

    def __init__(self, context: CaptureContext, collector: str) -> None:
        self._context = context
        self._collector = collector
        self._installed = True
        self._undo: list[tuple[Any, str, Any, Any]] = []

    def around(self, owner: Any, name: str, before: Before | None = None, after: After | None = None) -> bool:
        """Wraps ``owner.name``; False where there is no such function.

        Args:
            owner: A module or a class.
            name: The function's name in it.
            before: Called with (args, kwargs); what it returns goes to ``after``, and None says that this call is of no
                interest. Without it all calls are, and ``after`` gets True.
            after: Called with (what ``before`` returned, the result, the exception).
        """
        original = owner.__dict__.get(name)
        if original is None or not callable(original):
            return False
        context = self._context
        enter = context.guarded(self._collector, before) if before else None
        leave = context.guarded(self._collector, after) if after else None

        @functools.wraps(original)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            token: Any = None
            if self._installed and context.active:
                token = enter(arguments, named) if enter is not None else True
            if token is None or leave is None:
                return original(*arguments, **named)
            error: BaseException | None = None
            result: Any = None
            try:
                result = original(*arguments, **named)
            except BaseException as raised:
                error = raised
                raise
            finally:
                leave(token, result, error)
            return result

        wrapper._torchdynamo_disable = True  # type: ignore[attr-defined] # torch.compile must not trace into it
        try:
            setattr(owner, name, wrapper)
        except (AttributeError, TypeError):
            return False  # a class that takes no attributes
        self._undo.append((owner, name, original, wrapper))
        return True

    def remove(self) -> None:
        """Puts the originals back. A wrapper that somebody has wrapped or copied stays, and only passes calls on."""
        self._installed = False
        for owner, name, original, wrapper in reversed(self._undo):
            if owner.__dict__.get(name) is wrapper:
                setattr(owner, name, original)
        self._undo.clear()


def on_training_thread(context: CaptureContext) -> bool:
    """Whether the caller runs on a thread that trains."""
    import threading

    return threading.get_ident() in context.training_threads


def called_from_torch_compile() -> bool:
    """Whether torch.compile is tracing right now, when a wrapper must leave no trace of itself."""
    compiler = sys.modules.get("torch.compiler")
    return bool(compiler is not None and compiler.is_compiling())
