"""Which boundary decides."""

from __future__ import annotations

from stallscope.profiler.session.schedule import Schedule
from stallscope.profiler.session.step_clock import StepClock


def spans(clock: StepClock, boundaries: list[tuple[str, int]]) -> list[tuple[int, int, int]]:
    return [(s.step, s.ts, s.end) for source, ts in boundaries for s in clock.boundary(source, ts)]


def test_explicit_steps() -> None:
    clock = StepClock(None, 100)
    assert spans(clock, [("explicit", 110), ("explicit", 130)]) == [(0, 100, 110), (1, 110, 130)]


def test_an_optimizers_first_boundary_waits_for_the_second() -> None:
    clock = StepClock(None, 0)
    assert spans(clock, [("optimizer", 10)]) == []
    assert spans(clock, [("optimizer", 25), ("optimizer", 30)]) == [(0, 0, 10), (1, 10, 25), (2, 25, 30)]


def test_explicit_steps_silence_optimizers_without_a_trace_of_them() -> None:
    clock = StepClock(None, 0)
    given = [("optimizer", 9), ("explicit", 10), ("optimizer", 19), ("explicit", 20)]
    assert spans(clock, given) == [(0, 0, 10), (1, 10, 20)]


def test_a_range_silences_optimizers() -> None:
    clock = StepClock(None, 0)
    given = [("annotation", 10), ("optimizer", 15), ("annotation", 20), ("explicit", 30), ("annotation", 35)]
    assert spans(clock, given) == [(0, 0, 10), (1, 10, 20), (2, 20, 30)]


def test_a_pause_between_steps_belongs_to_neither() -> None:
    clock = StepClock(None, 0)
    assert spans(clock, [("explicit", 10)]) == [(0, 0, 10)]
    clock.resume(17)
    assert spans(clock, [("explicit", 30)]) == [(1, 17, 30)]


def test_phases_are_those_of_the_schedule() -> None:
    clock = StepClock(Schedule(wait=1, warm_up=1, active=1, repeat=1), 0)
    told = [(s.phase, s.next_phase) for ts in (1, 2, 3, 4) for s in clock.boundary("explicit", ts)]
    assert told == [("wait", "warm_up"), ("warm_up", "active"), ("active", "done"), ("done", "done")]


def test_a_pause_soon_after_a_boundary_belongs_to_no_step() -> None:
    clock = StepClock(None, 0)
    assert spans(clock, [("explicit", 10_000_000)]) == [(0, 0, 10_000_000)]
    clock.paused(10_400_000, 5_000_000)
    assert spans(clock, [("explicit", 20_000_000)]) == [(1, 15_400_000, 20_000_000)]
    clock.paused(25_000_000, 1_000_000)
    assert spans(clock, [("explicit", 30_000_000)]) == [(2, 20_000_000, 30_000_000)]
