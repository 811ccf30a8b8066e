"""How large the running segment of torch's profiler is: counted by steps whose size is known, else told by memory.

Torch does not say how many events it holds. The first segment ends when the process has grown by what they take; how
long its JSON was for each step then counts the events of those after it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BYTES_PER_EVENT = {"always": 330, "low": 270, "normal": 330, "deep": 480}
"""About how long an event is in torch's JSON, by detail: how events of a segment are counted afterwards."""

MEMORY_PER_EVENT = {True: 48, False: 480}
"""About what torch keeps of an event in memory [bytes], with Python stacks (most events are calls) and without.

How events are counted while they are collected; memory that the program itself takes ends a segment early.
"""

SETTLING_STEPS = 3
"""In the first segment, memory is watched from the end of this step of it on."""

SHORTEST_S = 1.0
"""Memory growth ends no segment that is shorter."""

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class SegmentSize:
    """Of one segment after the other.

    Args:
        settings: ``segment_events`` and ``segment_bytes`` say when one is full.
        detail: The level of detail.

    Attributes:
        steps: How many have ended in this segment.
    """

    def __init__(self, settings: Mapping[str, Any], detail: str) -> None:
        self._most_events, self._most_bytes = settings["segment_events"], settings["segment_bytes"]
        self._event_bytes = BYTES_PER_EVENT[detail]
        self._step_bytes: float | None = None
        self._memory_at_start = 0
        self._began = 0.0
        self.steps = 0

    def begins(self) -> None:
        """A segment begins."""
        self.steps, self._began, self._memory_at_start = 0, time.monotonic(), _resident_bytes()

    def step_ends(self) -> bool:
        """Counts a step; whether the segment is full, as far as steps of known size tell."""
        self.steps += 1
        if self._step_bytes is None:
            if self.steps <= SETTLING_STEPS:
                self._leave_out_own_growth()
            return False
        return bool(self._step_bytes * self.steps / self._event_bytes >= self._most_events)

    def settles(self) -> bool:
        """Whether memory is still looked at as each step ends."""
        return self._step_bytes is None and self.steps < SETTLING_STEPS

    def was(self, trace_bytes: int) -> None:
        """The segment's JSON has this many bytes."""
        if self.steps:
            self._step_bytes = trace_bytes / self.steps

    def calls_a_step(self, calls: int) -> float:
        """How many of the segment's calls there were in a step."""
        return calls / max(1, self.steps)

    def share(self, events: int, trace_bytes: int) -> float:
        """About which share of the JSON so many events are."""
        return events * self._event_bytes / trace_bytes

    def forget(self) -> None:
        """Steps will be of another size from now on."""
        self._step_bytes = None

    def seconds(self) -> float:
        """Since the segment began."""
        return time.monotonic() - self._began

    def growth(self, *, calls: bool, quiet: bool) -> float:
        """How large the segment is, 1 being full, as memory tells; where steps are counted, memory alone is limited.

        Args:
            calls: Whether Python's calls are traced.
            quiet: Whether no step has ended for a while.
        """
        if self.seconds() < SHORTEST_S:
            return 0.0
        counted = self._most_events * MEMORY_PER_EVENT[calls]
        limit = self._most_bytes if self._step_bytes and not quiet else min(counted, self._most_bytes)
        return (_resident_bytes() - self._memory_at_start) / float(limit)

    def _leave_out_own_growth(self) -> None:
        """What the program allocates in its first steps (gradients, an optimizer's state) is not the profiler's."""
        resident = _resident_bytes()
        if resident - self._memory_at_start < self._most_bytes // 2:
            self._memory_at_start = resident


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
