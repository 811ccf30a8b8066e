"""Leaving a finished recording behind when a signal ends the program, without changing how it ends."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .session import Session

_DEADLY = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Ending:
    """Watches for the signals that would end the process at once.

    Only a signal that nobody handles is taken, and only on the main thread; afterwards the process dies of it as it
    would have. Ctrl-C needs no handler: it arrives as an exception.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._process_id = os.getpid()
        self._taken: list[int] = []
        self._pending: list[int] = []
        self._holding = False

    def install(self) -> None:
        """Takes the signals whose action is the default one."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in _DEADLY:
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, self._on_signal)
                self._taken.append(number)

    def remove(self) -> None:
        """Gives back those that are still ours."""
        for number in self._taken:
            try:
                if signal.getsignal(number) == self._on_signal:
                    signal.signal(number, signal.SIG_DFL)
            except ValueError:
                return  # left on another thread than entered; the handler then finds the recording ended
        self._taken.clear()

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        if self._holding:
            self._pending.append(number)
            return
        if os.getpid() == self._process_id:
            with self.held_back():
                self._session.stop("killed", signal=signal.Signals(number).name)
        die_of(number)

    @contextmanager
    def held_back(self) -> Iterator[None]:
        """While files are being finished, further signals wait; they are delivered after it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        self._holding = True
        interrupts: list[int] = []
        previous: Any = None
        try:
            previous = signal.signal(signal.SIGINT, lambda number, _frame: interrupts.append(number))
            yield
        finally:
            if previous is not None:
                signal.signal(signal.SIGINT, previous)
            self._holding = False
        for number in self._pending:
            die_of(number)
        if interrupts and callable(previous):
            previous(signal.SIGINT, None)


def die_of(number: int) -> None:
    """Ends the process by a signal's default action."""
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
