"""When ``detail=always`` takes a full window by itself: after an outlier, at a signal, every so often."""

from __future__ import annotations

import signal
import time
from collections import deque
from statistics import median
from types import FrameType
from typing import Any

HISTORY = 64
"""Steps whose median an outlier is compared with."""

LEAST_HISTORY = 16
"""Steps that must have been seen before one is called an outlier."""

MEDIAN_EVERY = 8
"""The median is worked out anew after so many steps: sorting the history in each costs as much as all else here."""

REST_S = 60.0
"""After a window, outliers start no other for this long, so that a slow phase does not become one long window."""


class WindowTrigger:
    """Says of each step that has ended whether a window should begin.

    Args:
        factor: A step is an outlier from this many times the median of the steps before it.
        every_s: A window is taken at least this often.
        clock: Seconds; for tests.
    """

    def __init__(self, factor: float, every_s: float, clock: Any = time.monotonic) -> None:
        self._factor, self._every_s, self._clock = factor, every_s, clock
        self._durations: deque[int] = deque(maxlen=HISTORY)
        self._usual: float | None = None
        self._until_median = LEAST_HISTORY
        self._last_window = clock()
        self._rested = 0.0
        self._signalled = False
        self._previous: Any = None

    def reason(self, dur: int) -> str | None:
        """Why a window should begin after a step of ``dur`` ns; None if it should not. Counts the step."""
        now = self._clock()
        usual = self._usual
        self._durations.append(dur)
        self._until_median -= 1
        if not self._until_median:
            self._usual, self._until_median = median(self._durations), MEDIAN_EVERY
        if self._signalled:
            self._signalled = False
            return self._begin(now, "asked for by SIGUSR2")
        if now - self._last_window >= self._every_s:
            return self._begin(now, f"{self._every_s:g} s since the last window")
        if usual is not None and dur >= self._factor * usual and now >= self._rested:
            return self._begin(now, f"a step took {dur / 1e6:.1f} ms, the median is {usual / 1e6:.1f} ms")
        return None

    def _begin(self, now: float, reason: str) -> str:
        self._last_window = now
        self._rested = now + REST_S
        return reason

    def install_signal(self) -> None:
        """Takes SIGUSR2, if nobody else has and this is the main thread."""
        if not hasattr(signal, "SIGUSR2"):
            return
        try:
            if signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
                self._previous = signal.signal(signal.SIGUSR2, self._on_signal)
        except ValueError:
            return  # not the main thread

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def remove_signal(self) -> None:
        """Gives SIGUSR2 back, if it is still ours."""
        if self._previous is not None and signal.getsignal(signal.SIGUSR2) == self._on_signal:
            signal.signal(signal.SIGUSR2, self._previous)
        self._previous = None
