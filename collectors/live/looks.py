"""Looks at the stacks of all threads, one after the other: when, where each thread was, and what the kernel counts.

The compiled part lets the main thread take the looks itself where it can (``looks.cpp``), for which no thread waits.
Where it was not built, the sampling thread looks at the others, and the one that runs Python has to stop for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .thread_stacks import TextStacks

try:
    from . import _stacks_native
except ImportError:  # It is built only where there is a compiler.
    _stacks_native = None  # type: ignore[assignment]

SCHEDULE_EVERY = 5
"""The scheduler's numbers are read at every so-many-th look: the kernel itself renews them every few ms."""

AT_ONCE_S = 0.5
"""The compiled part looks for so long before it hands over what it saw."""

_SCHEDULE_BYTES = 128


@dataclass(frozen=True, slots=True)
class Look:
    """One look.

    Attributes:
        ts: When, ns since 1970.
        stacks: What stands for each thread's stack, by ``threading.get_ident()``: equal bytes are equal stacks.
        read_ts: When what follows was read, ns.
        running_ns: Per CPU clock asked for how long its thread had been on a core; -1 where the thread is gone.
        schedules: Per file asked for what stood in it, empty where nothing could be read; () at most looks.
    """

    ts: int
    stacks: dict[int, bytes]
    read_ts: int
    running_ns: tuple[int, ...]
    schedules: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Watch:
    """What a look looks at.

    Attributes:
        clocks: Numbers of threads' CPU clocks.
        files: Descriptors of open files of the scheduler.
        ignored: Threads whose stacks are not wanted.
    """

    clocks: Sequence[int]
    files: Sequence[int]
    ignored: frozenset[int]


class Looks(Protocol):
    """Takes looks."""

    def take(self, period_s: float, watch: Watch) -> tuple[list[Look], float]:
        """The next looks, and the CPU-seconds that they took; blocks until there are some, or until ``cancel``."""

    def frames_in(self, stack: bytes) -> list[tuple[str, int, str]]:
        """File, line and function of each frame of a stack, innermost first."""

    def cancel(self) -> None:
        """Lets ``take`` return soon, from another thread."""

    def hold(self) -> None:
        """Until ``release``, the main thread is asked for nothing."""

    def release(self) -> None:
        """See ``hold``."""

    def close(self) -> None:
        """Gives back what it holds."""


def looks() -> Looks:
    """The compiled ones, or those by text where they were not built.

    Raises:
        OSError: Text is read through a pipe, and there are none to be had.
    """
    return PlainLooks() if _stacks_native is None else CompiledLooks()


class CompiledLooks:
    """Many looks at a time, taken by the main thread where it can. Of several only the one that was made last looks."""

    def __init__(self) -> None:
        self.frames_in, self.hold, self.release = _stacks_native.frames_in, _stacks_native.hold, _stacks_native.release
        self._turn, self._number = _stacks_native.begin(), 0
        self.release()

    def take(self, period_s: float, watch: Watch) -> tuple[list[Look], float]:
        """See ``Looks``; fewer where threads come or go."""
        found, self._number, cost_ns = _stacks_native.looks(
            self._turn, period_s, AT_ONCE_S, watch.clocks, watch.files, SCHEDULE_EVERY, self._number, watch.ignored
        )
        return [Look(*one) for one in found], cost_ns / 1e9

    def cancel(self) -> None:
        """See ``Looks``."""
        _stacks_native.cancel(self._turn)

    def close(self) -> None:
        """Holds nothing."""


class PlainLooks:
    """One look at a time.

    Raises:
        OSError: There are no pipes to be had.
    """

    def __init__(self) -> None:
        self._stacks = TextStacks()
        self.frames_in = self._stacks.frames_in
        self._due, self._number, self._cancelled = time.monotonic(), 0, False

    def take(self, period_s: float, watch: Watch) -> tuple[list[Look], float]:
        """See ``Looks``."""
        # A late look is not made up for: two in a row would count one moment twice.
        self._due = max(self._due + period_s, time.monotonic())
        # Not Event.wait, which takes the interpreter's lock several times: each time a training thread waits.
        time.sleep(max(0.0, self._due - time.monotonic()))
        if self._cancelled:
            return [], 0.0
        began, ts = time.thread_time(), time.time_ns()
        stacks = {thread: stack for thread, stack in self._stacks.read().items() if thread not in watch.ignored}
        self._number += 1
        files = watch.files if self._number % SCHEDULE_EVERY == 0 else ()
        look = Look(ts, stacks, time.time_ns(), tuple(map(_shown, watch.clocks)), tuple(map(_content, files)))
        return [look], time.thread_time() - began

    def cancel(self) -> None:
        """See ``Looks``; a look that is due may still be taken."""
        self._cancelled = True

    def hold(self) -> None:
        """Nothing is ever asked of the main thread."""

    def release(self) -> None:
        """See ``hold``."""

    def close(self) -> None:
        """Closes the pipe."""
        self._stacks.close()


def _shown(clock: int) -> int:
    try:
        return time.clock_gettime_ns(clock)
    except OSError:  # the thread is gone
        return -1


def _content(file: int) -> bytes:
    try:
        return os.pread(file, _SCHEDULE_BYTES, 0)
    except OSError:
        return b""
