"""The measures of a run against the tables they are taken from, and back from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from stallscope.analysis.run_facts import RunMeasures
from stallscope.analysis.run_measures import as_json, from_json, run_measures
from stallscope.analysis.stalls import stalls
from stallscope.analysis.step_breakdown import step_breakdown
from stallscope.profiler.recording.errors import FormatError
from stallscope.profiler.recording.reader import open_recording
from tests.analysis.random_traces import traces as random_traces
from tests.builders import MemoryRecording, TraceBuilder

US = 1000


def measured(recording: Any, **choice: Any) -> RunMeasures:
    return run_measures(recording, name="run", **choice)


def parts_by_tables(recording: Any, measures: RunMeasures) -> dict[tuple[str, str], int]:
    """The parts of the steady steps from the public tables, one window at a time."""
    sums: dict[tuple[str, str], int] = {}

    def add(state: str, cause: str, ns: int) -> None:
        if ns:
            sums[state, cause] = sums.get((state, cause), 0) + int(ns)

    whole = measures.unit == "recording"
    # Steps may begin before a device's first operation and end after its last.
    frame, waits = step_breakdown(recording), stalls(recording, window=None if whole else (-(1 << 62), 1 << 62))
    for lane in measures.lanes:
        index = -1 if lane.device_index is None else lane.device_index
        mine = frame[(frame["rank"] == lane.rank) & (frame["device_type"] == lane.device_type)]
        mine = mine[mine["device_index"].fillna(-1) == index]
        gaps = waits[(waits["rank"] == lane.rank) & (waits["device_index"].fillna(-1) == index)]
        rows = mine[mine["step"].isna()] if whole else mine[mine["step"].isin(lane.numbers) & (mine["dur"] > 0)]
        gaps = gaps if whole else gaps[gaps["step"].isin(lane.numbers)]
        for state in ("compute", "communication"):
            add(state, "", rows[f"{state}_ns"].sum())
        for row in gaps.to_dict("records"):
            add(row["state"], row["root_cause"], row["dur"])
    return sums


def check(recording: Any, measures: RunMeasures) -> None:
    """What holds of every run."""
    assert sum(measures.parts.values()) == measures.total_ns
    for lane in measures.lanes:
        assert sum(part.ns for part in lane.parts) == sum(lane.steps_ns)
        assert all(part.ns > 0 for part in lane.parts)
    places: dict[tuple[str, str], int] = {}
    for place in measures.stall_places:
        places[place.state, place.cause] = places.get((place.state, place.cause), 0) + place.ns
    assert places == {key: ns for key, ns in measures.parts.items() if key[0] in ("stall", "data_movement")}
    assert measures.parts == parts_by_tables(recording, measures)
    assert from_json(as_json(measures)) == measures


@settings(max_examples=30, deadline=None)
@given(random_traces())
def test_parts_are_those_of_the_tables_on_any_trace(trace: TraceBuilder) -> None:
    recording = trace.recording()
    check(recording, measured(recording, tables=False))


@pytest.mark.parametrize(
    "name",
    [
        "h100_qwen_0.5b.json.gz",
        "mi300x_qwen_0.5b.json.gz",
        "v100_resnet50_workers4.json.gz",
        "mtia_inference_rank0.json.gz",
        "cpu_only_rank34.json.gz",
    ],
)
def test_parts_are_those_of_the_tables_on_real_traces(traces: Path, name: str) -> None:
    recording = open_recording(traces / "kineto" / name)
    measures = measured(recording)
    check(recording, measures)
    assert len(as_json(measures, tables=False)) < 20_000


def steady(*, pause: tuple[int, int] | None = None) -> MemoryRecording:
    """A preparing step and three steady ones of 100 us: 40 us of compute and 20 us of copy each, then nothing."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    for number in range(4):
        begin = 1000 * US + number * 100 * US
        trace.step(number, begin, 100 * US, phase="preparation" if not number else "execution")
        trace.launched(main, gpu, call=(begin, 5 * US), work=(begin + 10 * US, 40 * US))
        copy = {"name": "Memcpy HtoD (Pageable -> Device)", "category": "memcpy"}
        trace.launched(main, gpu, call=(begin + 8 * US, US), work=(begin + 50 * US, 20 * US), **copy)
    if pause:
        facts = {"collector": "torch", "kind": "paused", "severity": "info", "count": 1, "detail": "export"}
        trace.row("losses", ts=pause[0], dur=pause[1], **facts)
    return trace.recording()


def test_a_small_run_by_hand() -> None:
    measures = measured(steady())
    # The device's steps begin with its first operation, and the last ends with its last.
    assert measures.steps_ns == (100 * US, 100 * US, 60 * US)
    assert measures.step_numbers == (1, 2, 3)
    assert (measures.mean_step_ns, measures.median_step_ns, measures.p95_step_ns) == (86_667, 100 * US, 100 * US)
    assert measures.parts["compute", ""] == 120 * US
    assert sum(ns for (state, _), ns in measures.parts.items() if state == "data_movement") == 60 * US
    assert sum(measures.stall_ns_by_cause.values()) == 80 * US
    assert (measures.all_steps, measures.preparation_steps, measures.cold_start_ns) == (4, 1, 100 * US)
    assert (measures.preparation_ns, measures.execution_ns, measures.completion_ns) == (100 * US, 300 * US, 0)
    assert measures.status == "completed"
    assert [(kernel.name, kernel.count, kernel.device_ns) for kernel in measures.kernels] == [
        ("gemm", 3, 120 * US),
        ("Memcpy HtoD (Pageable -> Device)", 3, 60 * US),
    ]
    assert [(copy.direction, copy.count, copy.total_ns) for copy in measures.copies] == [("host_to_device", 3, 60 * US)]
    assert (measures.recompile_count, measures.compilation.graph_breaks) == (None, None)


def test_a_step_in_which_the_recorder_paused_the_program_is_left_out_and_named() -> None:
    measures = measured(steady(pause=(1215 * US, 10 * US)))
    assert (measures.step_numbers, measures.lanes[0].paused) == ((1, 3), (2,))
    assert sum(measures.parts.values()) == 160 * US


def test_pauses_in_every_step_leave_nothing_out() -> None:
    measures = measured(steady(pause=(1000 * US, 1000 * US)))
    assert (measures.step_numbers, measures.lanes[0].paused) == ((1, 2, 3), ())


def test_a_recording_without_steady_steps_counts_as_one() -> None:
    trace = TraceBuilder()
    trace.launched(trace.thread(), trace.stream(), call=(0, 10), work=(20, 100))
    measures = measured(trace.recording())
    assert (measures.unit, measures.device_steps, measures.total_ns) == ("recording", 1, 100)


def test_a_recording_of_nothing_has_no_step_time() -> None:
    measures = measured(TraceBuilder().recording())
    assert (measures.device_steps, measures.mean_step_ns, measures.median_step_ns, measures.p95_step_ns) == (
        0,
        *[None] * 3,
    )


def test_recompilations_and_graph_breaks_come_from_the_collector_that_watches_them() -> None:
    trace = TraceBuilder()
    main = trace.thread()
    trace.slice(main, "torch.compile 0/0", "compile", 0, 500)
    trace.slice(main, "torch.compile 0/1", "compile", 1000, 300)
    for ts, reason in ((1300, "shape"), (1400, "shape")):
        trace.slice(main, "recompiled: forward", "compile", ts, 0, args=f'{{"reason": "{reason}"}}')
        trace.rows["slices"][-1]["kind"] = "instant"
    recording = trace.recording()
    assert measured(recording).recompile_count is None
    recording.rank_info = lambda rank: {"status": "completed", "collectors": {"compile": {"state": "stopped"}}}  # type: ignore[method-assign]
    measures = measured(recording)
    (row,) = measures.compilation.recompiles or ()
    assert (row.name, row.count, row.reason) == ("forward", 2, "shape")
    assert measures.compilation.graph_breaks == ()
    assert (measures.compilation.count, measures.compilation.ns) == (2, 800)


def test_steps_over_ranks_are_their_mean() -> None:
    traces = []
    for rank in range(2):
        trace = TraceBuilder(rank)
        main, gpu = trace.thread(), trace.stream()
        for number, begin in enumerate((0, 1000)):
            trace.step(number, begin, 1000)
            trace.launched(main, gpu, call=(begin, 5), work=(begin + 10, 100 + 11 * rank))
        traces.append(trace)
    measures = measured(traces[0].recording(traces[1]))
    assert [lane.steps_ns for lane in measures.lanes] == [(1000, 100), (1000, 111)]
    assert measures.steps_ns == (1000, 106)
    assert measures.mean_step_ns == round(np.mean([1000, 100, 1000, 111]))


@pytest.mark.parametrize(
    "ending", [b"", b"{", b'{"format": "other", "version": 1}', b'{"format": "stallscope run", "version": 99}', b"\xff"]
)
def test_what_is_no_summary_is_refused(ending: bytes) -> None:
    with pytest.raises(FormatError, match=r"base\.json"):
        from_json(ending, source="base.json")


def test_a_summary_with_a_wrong_type_says_where() -> None:
    text = as_json(measured(steady())).replace('"all_steps": 4', '"all_steps": "four"')
    with pytest.raises(FormatError, match="all_steps"):
        from_json(text)
