from __future__ import annotations

import math

import pytest

from stallscope.analysis.memory_growth import _at_least, memory_growth, memory_steps
from tests.builders import TraceBuilder


def run(
    kept: list[int],
    *,
    phases: list[str] | None = None,
    total: bool = True,
    before: int = 500,
    activation: int = 1_000,
    times: int = 1,
) -> TraceBuilder:
    """One step of 100 ns per entry: an activation comes and goes some times, and ``kept`` more bytes stay."""
    trace = TraceBuilder()
    held, address = before, 0
    for number, more in enumerate(kept):
        trace.step(number, number * 100, 100, phase=phases[number] if phases else None)
        for ts, size, where in (
            (10, activation, 1),
            (20, more, 100 + number),
            (30, -activation, 1),
            *((40 + 5 * n, activation * (1 - 2 * (n % 2)), 1) for n in range(2 * times - 2)),
        ):
            held += size
            address += 1
            if size:
                trace.row(
                    "memory",
                    event_id=address,
                    ts=number * 100 + ts,
                    bytes=size,
                    address=where,
                    device_type="cuda",
                    device_index=0,
                    total_allocated=held if total else None,
                )
    return trace


def test_levels_of_each_step() -> None:
    frame = memory_steps(run([0, 64, 0]).recording())
    assert frame["least_bytes"].tolist() == [500, 500, 564] and frame["most_bytes"].tolist() == [1_500, 1_564, 1_564]
    assert frame["end_bytes"].tolist() == [500, 564, 564]
    assert frame["change_bytes"].isna().tolist() == [True, False, False] and frame["change_bytes"][2] == 64
    assert set(frame["basis"]) == {"allocator"}


@pytest.mark.parametrize("total", [True, False], ids=["allocator's totals", "blocks seen"])
def test_a_leak_is_found(total: bool) -> None:
    (found,) = memory_growth(run([64] * 8, total=total).recording())
    assert (found.verdict, found.bytes_per_step, found.grew, found.shrank, found.steps) == ("grows", 64, 7, 0, 8)
    assert found.total_bytes == 7 * 64 and "up in 7 and down in 0 of 7 changes" in found.note


@pytest.mark.parametrize("sign", [1, -1], ids=["grows", "shrinks"])
@pytest.mark.parametrize(
    ("before", "activation"), [(5_999_000, 1_000), (10_000, 3_000_000)], ids=["of what is held", "of what is allocated"]
)
def test_a_change_counts_from_one_part_in_ten_thousand(before: int, activation: int, sign: int) -> None:
    # Held at most: 6.0 MB and 3.0 MB, give or take 0.2 %; allocated by a step: 1 kB and 6 MB.
    times = 1 if activation < before else 2
    ample, slight = (
        memory_growth(run([sign * kept] * 12, before=before, activation=activation, times=times).recording())[0]
        for kept in (604, 596)
    )
    assert ample.verdict == ("grows" if sign > 0 else "shrinks")
    assert (slight.verdict, slight.total_bytes) == ("steady", sign * 11 * 596)
    assert "too little beside what is held" in slight.note


def test_what_stays_the_same_is_steady() -> None:
    (found,) = memory_growth(run([0] * 8).recording())
    assert (found.verdict, found.total_bytes) == ("steady", 0)


def test_few_steps_tell_nothing() -> None:
    (found,) = memory_growth(run([64] * 5).recording())
    assert found.verdict == "cannot tell" and "too few steady steps: 5" in found.note


def test_warm_up_does_not_count() -> None:
    phases = ["warm_up"] * 6 + ["execution"] * 6
    (found,) = memory_growth(run([64] * 6 + [0] * 6, phases=phases).recording())
    assert found.steps == 6 and found.verdict == "steady"


def test_two_steps_up_among_many_are_no_trend() -> None:
    (found,) = memory_growth(run([0, 0, 64, 0, 0, 64, 0, 0]).recording())
    assert found.verdict == "steady" and found.grew == 2


def test_the_chance_of_a_one_sided_run() -> None:
    assert _at_least(5, 5) == 1 / 32 and _at_least(0, 7) == 1.0 and _at_least(2, 3) == 0.5
    assert _at_least(280, 501) == pytest.approx(_exactly(280, 501), rel=0.02)


def _exactly(successes: int, trials: int) -> float:
    return sum(math.comb(trials, k) for k in range(successes, trials + 1)) / 2**trials


def test_without_memory_or_steps() -> None:
    trace = run([64] * 8)
    trace.rows["steps"].clear()
    assert memory_growth(trace.recording()) == () and len(memory_steps(trace.recording())) == 0
    trace = run([64] * 8)
    trace.rows["memory"].clear()
    assert memory_growth(trace.recording()) == () and len(memory_steps(trace.recording())) == 0
