"""The end of a step, as cheap as it can be: a moment is kept, and collectors learn of it later, several at once.

A training thread comes to the end of a step with caches that are full of the program's data, so each Python function
called there takes far longer than usual. Only while a collector wants to be called at that very moment, or a
schedule may change the phase, does the thread call it; otherwise it only notes the time, and the session's thread tells
the collectors at its next tick.
"""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from ..recording.collector import StepEnd
from .running_collectors import RunningCollectors
from .schedule import Schedule
from .step_clock import StepClock

if TYPE_CHECKING:
    from .session import Session

PATIENCE_S = 0.5
"""No longer does a thread wait for another that counts steps; it might be held up by a handler of a signal."""


class Stepping:
    """The steps of one session.

    Args:
        session: Whose clock, phase and training threads these are.
        collectors: Told of steps.
        schedule: Which phase each step is in; None: all are active.
    """

    def __init__(self, session: Session, collectors: RunningCollectors, schedule: Schedule | None) -> None:
        self._session, self._collectors = session, collectors
        self._scheduled = schedule is not None
        self._now = session.rows.now
        self._clock = StepClock(schedule, self._now())
        self._counting = threading.RLock()
        self._telling = threading.Lock()
        self._noted_source: str | None = None
        self._is_pressing = False
        self._noted: deque[int] = deque()
        self._past: deque[StepEnd] = deque()

    @property
    def count(self) -> int:
        """How many steps have ended."""
        return self._clock.step + len(self._noted)

    def first_phase(self) -> str:
        """The phase of the first step."""
        return self._clock.phase(0)

    def begin(self) -> None:
        """The first step begins now."""
        self._clock.resume(self._now())

    # ---- on the training thread

    def mark(self, source: str) -> None:
        """A step ends here, if ``source`` (a key of ``STRENGTH``) is what decides."""
        if source == self._noted_source:
            self._noted.append(self._now())
            self._session.training_threads.add(threading.get_ident())
        elif self._clock.hears(source) and self._telling.acquire(blocking=False):
            try:
                self._mark_and_tell(source)
            finally:
                self._telling.release()

    def _mark_and_tell(self, source: str) -> None:
        session, self._is_pressing = self._session, False
        with self._counting:
            self._count_noted()
            ended = self._clock.boundary(source, self._now())
        self._tell_past()
        for step in ended:
            session.phase = "done" if session.is_full else step.next_phase
            session.training_threads.add(threading.get_ident())
            told = step if step.next_phase == session.phase else replace(step, next_phase=session.phase)
            self._collectors.tell("on_step", told)
        self._collectors.stop_dropped()
        if ended:
            self._clock.resume(self._now())
        follows = bool(ended) and not self._scheduled and not self._collectors.want_next_step()
        self._noted_source = source if follows else None
        if self._is_pressing:  # looked at last, since another thread sets it first
            self._noted_source = None

    def paused(self, ts: int, dur: int) -> None:
        """The profiler held the program from ``ts`` on, for ``dur`` ns: see ``StepClock.paused``."""
        with self._counting:
            self._count_noted()
            self._clock.paused(ts, dur)

    # ---- on the session's thread

    def tell_later(self) -> None:
        """Tells collectors of the steps that have been noted, and whether one wants to be called at the next end."""
        if self._noted_source is None or not self._telling.acquire(blocking=False):
            return
        try:
            if self._collectors.want_next_step():
                self._noted_source = None
            self._count_and_tell()
        finally:
            self._telling.release()

    def press(self) -> None:
        """The next step's end must be told as it happens, whatever collectors want."""
        self._is_pressing = True
        self._noted_source = None

    def end(self) -> None:
        """Tells collectors of the last steps; from now on none is noted."""
        self._noted_source = None
        held = self._telling.acquire(timeout=PATIENCE_S)
        try:
            self._count_and_tell()
        finally:
            if held:
                self._telling.release()

    def _count_and_tell(self) -> None:
        if self._counting.acquire(timeout=PATIENCE_S):
            try:
                self._count_noted()
            finally:
                self._counting.release()
            self._tell_past()

    def _count_noted(self) -> None:
        """Turns noted moments into steps. They come from the source that has the say, so each ends one."""
        while self._noted:
            self._past.extend(self._clock.boundary(self._clock.source or "explicit", self._noted.popleft()))

    def _tell_past(self) -> None:
        steps = [self._past.popleft() for _ in range(len(self._past))]
        if steps:
            self._collectors.tell("on_past_steps", steps)
