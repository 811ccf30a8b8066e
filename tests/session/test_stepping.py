"""Steps that are only noted as they end are the same steps, told later."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stallscope.profiler.recording.collector import StepEnd
from stallscope.profiler.session.schedule import Schedule
from stallscope.profiler.session.step_clock import StepClock
from stallscope.profiler.session.stepping import Stepping

MS = 1_000_000


class Told:
    """Stands in for the collectors: what they were told, in order."""

    def __init__(self) -> None:
        self.wants = False
        self.heard: list[tuple[str, int]] = []
        self.steps: list[StepEnd] = []

    def tell(self, hook: str, told: Any) -> None:
        steps = told if hook == "on_past_steps" else [told]
        self.heard += [(hook, step.step) for step in steps]
        self.steps += steps

    def want_next_step(self) -> bool:
        return self.wants

    def stop_dropped(self) -> None:
        pass


class Session:
    """Stands in for the session; its clock shows what a test sets."""

    def __init__(self) -> None:
        self.time = 0
        self.rows = SimpleNamespace(now=lambda: self.time)
        self.phase, self.is_full = "active", False
        self.training_threads: set[int] = set()


def stepping(schedule: Schedule | None = None) -> tuple[Session, Told, Stepping]:
    session, told = Session(), Told()
    return session, told, Stepping(session, told, schedule)  # type: ignore[arg-type]


def mark(session: Session, steps: Stepping, *times: int, source: str = "explicit") -> None:
    for time in times:
        session.time = time
        steps.mark(source)


def test_after_the_first_step_ends_are_noted_and_told_at_the_next_tick() -> None:
    session, told, steps = stepping()
    mark(session, steps, 10, 25, 45)
    assert told.heard == [("on_step", 0)]
    assert steps.count == 3
    steps.tell_later()
    assert told.heard == [("on_step", 0), ("on_past_steps", 1), ("on_past_steps", 2)]
    assert [(one.ts, one.end) for one in told.steps] == [(0, 10), (10, 25), (25, 45)]


def test_who_wants_the_next_step_is_called_at_its_end_after_those_before_it() -> None:
    session, told, steps = stepping()
    mark(session, steps, 10, 20)
    told.wants = True
    mark(session, steps, 30)  # not known yet: the session's thread asks at its tick
    steps.tell_later()
    mark(session, steps, 40)
    told.wants = False
    mark(session, steps, 50, 60)
    hooks = ["on_step", "on_past_steps", "on_past_steps", "on_step", "on_step"]
    assert told.heard == list(zip(hooks, range(5), strict=True))
    assert steps.count == 6


def test_who_presses_has_the_next_end_told_at_once() -> None:
    session, told, steps = stepping()
    mark(session, steps, 10, 20)
    steps.press()
    mark(session, steps, 30, 40)
    assert told.heard == [("on_step", 0), ("on_past_steps", 1), ("on_step", 2)]


def test_who_presses_while_steps_are_told_has_the_one_after_told_at_once() -> None:
    session, told, steps = stepping()
    told.want_next_step = lambda: steps.press() or False  # type: ignore[func-returns-value, method-assign]
    mark(session, steps, 10)
    told.want_next_step = lambda: False  # type: ignore[method-assign]
    mark(session, steps, 20, 30)
    assert told.heard == [("on_step", 0), ("on_step", 1)]


def test_steps_that_were_noted_are_told_before_one_that_is_told_at_its_end() -> None:
    session, told, steps = stepping()
    mark(session, steps, 10, 20, source="annotation")
    mark(session, steps, 30)
    assert told.heard == [("on_step", 0), ("on_past_steps", 1), ("on_step", 2)]


def test_a_weaker_source_ends_no_step_while_they_are_noted() -> None:
    session, told, steps = stepping()
    mark(session, steps, 10, 20)
    mark(session, steps, 25, source="optimizer")
    steps.end()
    assert [(one.ts, one.end) for one in told.steps] == [(0, 10), (10, 20)]


def test_a_pause_after_a_noted_end_belongs_to_no_step() -> None:
    session, told, steps = stepping()
    mark(session, steps, 10 * MS, 20 * MS)
    steps.paused(20 * MS + 1000, 5 * MS)
    mark(session, steps, 40 * MS)
    steps.end()
    assert [(one.ts, one.end) for one in told.steps][1:] == [(10 * MS, 20 * MS), (25 * MS + 1000, 40 * MS)]


def test_with_a_schedule_each_step_is_told_at_its_end() -> None:
    session, told, steps = stepping(Schedule(wait=1, warm_up=1, active=1, repeat=1))
    phases = []
    for time in (10, 20, 30):
        mark(session, steps, time)
        phases.append(session.phase)
    assert told.heard == [("on_step", 0), ("on_step", 1), ("on_step", 2)]
    assert phases == ["warm_up", "active", "done"]


@given(st.lists(st.sampled_from(["optimizer", "annotation", "explicit", "tick", "want", "rest", "pause"]), max_size=40))
def test_whatever_happens_the_steps_are_those_of_the_clock_alone(events: list[str]) -> None:
    session, told, steps = stepping()
    clock, expected = StepClock(None, 0), []
    for place, event in enumerate(events, start=1):
        session.time = 3 * MS * place
        if event == "tick":
            steps.tell_later()
        elif event in ("want", "rest"):
            told.wants = event == "want"
        elif event == "pause":
            steps.paused(session.time, MS)
            clock.paused(session.time, MS)
        else:
            steps.mark(event)
            expected += clock.boundary(event, session.time)
    steps.end()
    assert told.steps == expected
    assert [number for _, number in told.heard] == list(range(len(expected)))
