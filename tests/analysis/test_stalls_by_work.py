"""Stalls added up by the op whose device work came late, and by step."""

from __future__ import annotations

import pandas as pd

from stallscope.analysis.slice_facts import all_stalls
from stallscope.analysis.stalls_by_work import stalls_by_work
from tests.builders import MemoryRecording, TraceBuilder

US = 1_000


def recording() -> MemoryRecording:
    """Two steps: the forward's linear launches late, and then a copy that no op launches."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    for step in range(2):
        at = step * 1000 * US
        trace.step(step, at, 1000 * US)
        trace.slice(main, f"ProfilerStep#{step}", "annotation", at, 1000 * US)
        trace.launched(main, gpu, call=(at + 5 * US, US), work=(at + 10 * US, 50 * US), name="first")
        trace.slice(main, "## forward ##", "annotation", at + 100 * US, 300 * US)
        trace.slice(main, "aten::linear", "op", at + 110 * US, 280 * US)
        trace.slice(main, "aten::addmm", "op", at + 120 * US, 260 * US)
        trace.launched(main, gpu, call=(at + 300 * US, US), work=(at + 305 * US, 100 * US), name="gemm")
        trace.launched(main, gpu, call=(at + 600 * US, US), work=(at + 605 * US, 10 * US), name="alone")
    return trace.recording()


def test_by_op_each_stall_counts_for_the_outermost_op_that_launched_what_ended_it() -> None:
    found = stalls_by_work(recording(), by="op")
    every = all_stalls(recording(), 0)
    assert found["dur"].sum() == every["dur"].sum()
    assert found["count"].sum() == len(every)
    late = found[found["op"] == "aten::linear"]
    assert set(late["within"]) == {"## forward ##"}
    assert late["dur"].sum() == 2 * (305 - 60) * US
    assert set(found["op"]) - {"aten::linear"} == {""}
    longest = every.set_index("stall_id")["dur"].loc[found["longest"].tolist()]
    assert longest.tolist() == found["longest_ns"].tolist()


def test_by_step_they_add_up_to_the_steps() -> None:
    found, every = stalls_by_work(recording(), by="step"), all_stalls(recording(), 0)
    assert found.groupby("step")["dur"].sum().to_dict() == every.groupby("step")["dur"].sum().to_dict()
    only = stalls_by_work(recording(), by="step", step=1)
    assert set(only["step"]) == {1}
    pd.testing.assert_series_equal(
        only["dur"], found["dur"][found["step"] == 1].reset_index(drop=True), check_names=False
    )


def test_without_stalls_the_tables_are_empty() -> None:
    trace = TraceBuilder()
    trace.launched(trace.thread(), trace.stream(7), call=(0, 1), work=(5, 70))
    assert len(stalls_by_work(trace.recording(), by="op")) == 0
    assert len(stalls_by_work(trace.recording(), by="step")) == 0
