"""A progress line on stderr, for work that takes longer than a person waits for without wondering."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TextIO

from .page import is_terminal
from .text import printable, shortened

PATIENCE_S = 1.0
"""Shorter work shows nothing."""
REFRESH_S = 0.1
BAR_WIDTH = 30


class ProgressLine:
    """Called with what is being done and the share that is done; draws one line that replaces itself and then goes.

    Nothing is drawn before a second has passed, nor where stderr is not a terminal.
    """

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream or sys.stderr
        self._clock = clock
        self._started = clock()
        self._drawn_at = 0.0
        self._drawn = False
        self._on = is_terminal(self._stream)

    def __call__(self, label: str, share: float | None) -> None:
        """Notes how far the work is, and draws it if it is time to."""
        now = self._clock()
        if not self._on or now - self._started < PATIENCE_S or now - self._drawn_at < REFRESH_S:
            return
        self._drawn_at, self._drawn = now, True
        done = ""
        if share is not None:
            filled = round(min(1.0, max(0.0, share)) * BAR_WIDTH)
            done = f"  [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {100 * share:3.0f} %"
        self._stream.write(f"\r\x1b[K{shortened(printable(label), 40)}{done}")
        self._stream.flush()

    def close(self) -> None:
        """Takes the line away."""
        if self._drawn:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._drawn = False
