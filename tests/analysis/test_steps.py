"""Where steps are cut, against a twin that follows the definition word by word."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.stall_groups import stall_groups
from stallscope.analysis.steps import _cut, device_steps, host_steps, steps
from stallscope.profiler.recording.reader import open_recording
from tests.analysis.random_traces import traces as random_traces
from tests.builders import TraceBuilder

OPERATIONS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(-1, 4)), min_size=1, max_size=15)


@given(OPERATIONS)
def test_the_cut_is_the_earliest_start_of_this_or_a_later_step(operations: list[tuple[int, int, int]]) -> None:
    ts, dur, step = (np.array(column, dtype=np.int64) for column in zip(*operations, strict=True))
    starts, ends = _cut(ts, ts + dur, step, 4)
    inside = [(a, a + d, s) for a, d, s in operations if 0 <= s < 4]
    if not inside:
        assert (starts == ends).all()
        return
    last = max(s for _, _, s in inside)
    finish = max(b for _, b, s in inside if s == last)
    begins = [min((a for a, _, s in inside if s >= k), default=None) for k in range(4)]
    finish = max(finish, begins[last])
    expected = [finish if b is None else min(b, finish) for b in begins]
    assert starts.tolist() == expected
    assert ends.tolist() == [*expected[1:], finish]


@given(random_traces())
def test_windows_are_in_order_and_do_not_overlap(trace: TraceBuilder) -> None:
    recording = trace.recording()
    frame = steps(recording)
    for _, group in frame.groupby(["device_type", "device_index"], dropna=False):
        ends = group["ts"] + group["dur"]
        assert (group["dur"] >= 0).all()
        assert (group["ts"].to_numpy()[1:] >= ends.to_numpy()[:-1]).all()


def two_steps() -> TraceBuilder:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.step(5, 0, 100)
    trace.step(6, 100, 100)
    trace.launched(main, gpu, call=(10, 5), work=(50, 70))
    trace.launched(main, gpu, call=(110, 5), work=(130, 200))
    return trace


def test_a_device_runs_behind_the_host() -> None:
    frame = steps(two_steps().recording())
    assert frame[["step", "ts", "dur", "host_ts", "host_dur", "basis", "phase"]].to_numpy().tolist() == [
        [5, 50, 80, 0, 100, "device", "execution"],
        [6, 130, 200, 100, 100, "device", "execution"],
    ]


def test_without_launches_the_host_decides_and_says_so() -> None:
    trace = TraceBuilder()
    trace.thread()
    trace.slice(trace.stream(), "gemm", "kernel", 20, 30)
    trace.step(0, 0, 100)
    row = steps(trace.recording()).iloc[0]
    assert (row["ts"], row["dur"], row["basis"]) == (0, 100, "host")
    assert row["reason"] == (
        "only 0 of 1 device operations have a recorded launch: steps are cut where the host cut them"
    )


def compiling(*which: int) -> TraceBuilder:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    for number in range(4):
        begin = number * 1000
        trace.step(number, begin, 1000)
        if number in which:
            trace.slice(main, "_compile.compile_inner (dynamo_timed)", "compile", begin + 100, 500)
        trace.launched(main, gpu, call=(begin + 700, 5), work=(begin + 710, 100))
    return trace


@pytest.mark.parametrize(
    ("which", "preparation"),
    [((), 0), ((0,), 1), ((0, 1), 2), ((2,), 0), ((0, 2), 1), ((0, 1, 2, 3), 1)],
    ids=["none", "first", "first two", "a recompile later", "first and later", "every step"],
)
def test_leading_steps_that_compile_are_preparation(which: tuple[int, ...], preparation: int) -> None:
    recording = compiling(*which).recording()
    expected = ("preparation",) * preparation + ("execution",) * (4 - preparation)
    assert host_steps(recording, 0).phases == expected
    device = rank_activity(recording, 0).devices[0]
    assert device_steps(recording, 0, device).steady == tuple(phase == "execution" for phase in expected)


def test_a_phase_that_was_recorded_is_kept() -> None:
    trace = two_steps()
    trace.rows["steps"][0]["phase"] = "warm_up"
    assert steps(trace.recording())["phase"].tolist() == ["warm_up", "execution"]


def test_no_steps() -> None:
    trace = TraceBuilder()
    trace.slice(trace.stream(), "gemm", "kernel", 20, 30)
    assert steps(trace.recording()).empty
    assert steps(TraceBuilder().recording()).empty


def test_kernels_run_in_a_later_host_step_on_a_real_trace(traces: Path) -> None:
    """On this trace all device time of a step lies after the host has left it."""
    with (traces / "expected.csv").open() as file:
        expected = {row["file"]: row for row in csv.DictReader(file)}["kineto/mi300x_resnet_rccl_rank0.json.gz"]
    recording = open_recording(traces / "kineto" / "mi300x_resnet_rccl_rank0.json.gz")
    frame = steps(recording)
    assert len(frame) == int(expected["steps"])
    assert (frame["basis"] == "device").all()
    assert (frame["ts"] >= frame["host_ts"] + frame["host_dur"]).all()


def test_a_step_in_which_the_recorder_wrote_is_no_steady_step_and_no_cold_start_and_its_stalls_count_nowhere() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    for number in range(4):
        begin = 1000 + number * 100 + (5000 if number > 2 else 0)
        trace.step(number, begin, 100, phase="execution" if number else "preparation")
        trace.launched(main, gpu, call=(begin, 5), work=(begin + 10, 40))
    trace.row("losses", ts=1310, dur=4900, collector="torch", kind="paused", severity="info", count=1, detail="export")
    recording = trace.recording()
    (device,) = rank_activity(recording, 0).devices
    assert host_steps(recording, 0).phases == ("preparation", "execution", "execution", "execution")
    cut = device_steps(recording, 0, device)
    assert cut.phases == ("preparation", "execution", "paused", "execution")
    assert cut.cold == (True, False, False, False)
    assert stall_groups(recording, steady=True)["dur"].sum() == 60  # step 1 alone: step 3 ends with its operation
    assert stall_groups(recording)["dur"].sum() > 5000


@pytest.mark.parametrize(("recorded", "steady"), [(3, 0), (4, 3)])
def test_where_every_step_prepares_that_is_what_the_program_does(recorded: int, steady: int) -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread(), "aten::mm", "op", 0, 100)
    for number in range(recorded):
        trace.step(number, number * 100, 100, phase="preparation")
    assert sum(host_steps(trace.recording(), 0).steady) == steady
