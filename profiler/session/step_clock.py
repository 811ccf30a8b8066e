"""Where steps begin and end, when several things could say so.

An explicit ``prof.step()`` decides over the end of a named range, and that over optimizers. Since an optimizer's hook
comes before the program's first ``prof.step()``, its first boundary is held back until a second one shows that nothing
better is coming.
"""

from __future__ import annotations

from ..recording.collector import StepEnd
from .schedule import Schedule

STRENGTH = {"optimizer": 1, "annotation": 2, "explicit": 3}
"""The sources of boundaries; a stronger one silences the weaker ones from its first call on."""

AFTER_BOUNDARY_NS = 1_000_000
"""A pause that begins this soon after a boundary was meant to be at it."""


class StepClock:
    """Turns boundaries into steps.

    Args:
        schedule: Which phase each step is in; None: all are active.
        ts: When the first step begins [ns].
    """

    def __init__(self, schedule: Schedule | None, ts: int) -> None:
        self._schedule = schedule
        self._begin = ts
        self._held: int | None = None
        self.step = 0
        self.source: str | None = None

    def phase(self, step: int) -> str:
        """The phase of a step: wait, warm_up, active or done."""
        return self._schedule.phase(step) if self._schedule else "active"

    def hears(self, source: str) -> bool:
        """Whether no stronger source has spoken."""
        return self.source is None or STRENGTH[source] >= STRENGTH[self.source]

    def boundary(self, source: str, ts: int) -> list[StepEnd]:
        """The steps that end with this boundary, oldest first: none, one, or the one held back and this one.

        Args:
            source: A key of ``STRENGTH``.
            ts: When [ns].
        """
        if not self.hears(source):
            return []
        if source == "optimizer" and self.source is None:
            if self._held is None:
                self._held = ts
                return []
            self.source = source
            return [self._end(self._held), self._end(ts)]
        self.source = source
        return [self._end(ts)]

    def _end(self, ts: int) -> StepEnd:
        ended = StepEnd(self.step, self._begin, max(ts, self._begin), self.phase(self.step), self.phase(self.step + 1))
        self.step += 1
        self._begin = ended.end
        return ended

    def resume(self, ts: int) -> None:
        """The next step begins at ``ts``, after whatever was done between steps."""
        self._begin = max(self._begin, ts)

    def paused(self, ts: int, dur: int) -> None:
        """A pause right after a boundary belongs to no step: the next one begins after it.

        Most optimizers call back inside a range of their own; what waited for its end comes some microseconds late.
        """
        if 0 <= ts - self._begin <= AFTER_BOUNDARY_NS:
            self.resume(ts + dur)
