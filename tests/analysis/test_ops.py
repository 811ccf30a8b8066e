from __future__ import annotations

import json

import pandas as pd
import pytest

from stallscope.analysis.ops import ops
from stallscope.profiler.recording.errors import UsageError
from tests.builders import TraceBuilder


def training() -> TraceBuilder:
    """Two steps of 1000 ns: linear > addmm launches a kernel of 300, add nested in add one of 50 and one of 20."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    for number in range(2):
        at = number * 1_000
        trace.step(number, at, 1_000)
        dims = json.dumps({"Input Dims": [[8, 4 + number], [], [4]], "Input type": ["float", "", "x]y"]})
        trace.slice(main, "aten::linear", "op", at + 10, 100)
        trace.slice(main, "aten::addmm", "op", at + 20, 60, args=dims)
        trace.launched(main, gpu, call=(at + 30, 10), work=(at + 900, 300), name="gemm")
        trace.slice(main, "aten::add", "op", at + 200, 100)
        trace.launched(main, gpu, call=(at + 210, 10), work=(at + 2_000, 50), name="add")
        trace.slice(main, "aten::add", "op", at + 230, 40)
        trace.launched(main, gpu, call=(at + 235, 10), work=(at + 2_050, 20), name="add")
    trace.launched(main, gpu, call=(500, 10), work=(2_200, 7), name="bare")
    trace.slice(gpu, "orphan", "kernel", 2_300, 11)
    return trace


def rows(frame: pd.DataFrame) -> dict[str, dict[str, int]]:
    return {row["op"]: row for row in frame.to_dict("records")}


def test_host_and_device_time_of_nested_ops() -> None:
    frame = ops(training().recording())
    found = rows(frame)
    assert frame["op"].tolist() == ["aten::addmm", "aten::add", "aten::linear"]
    linear, addmm, add = found["aten::linear"], found["aten::addmm"], found["aten::add"]
    assert (linear["count"], linear["host_total_ns"], linear["host_self_ns"]) == (2, 200, 80)
    assert (addmm["host_total_ns"], addmm["host_self_ns"]) == (120, 100)
    assert (linear["device_self_ns"], linear["device_total_ns"], linear["launched_count"]) == (0, 600, 2)
    assert (addmm["device_self_ns"], addmm["device_total_ns"]) == (600, 600)
    # The inner add counts as a call, and once in the totals.
    assert (add["count"], add["host_total_ns"], add["host_self_ns"]) == (4, 200, 160)
    assert (add["device_self_ns"], add["device_total_ns"], add["launched_count"]) == (140, 140, 4)
    assert (add["host_p50_ns"], add["host_p99_ns"], add["host_max_ns"], add["host_mean_ns"]) == (40, 100, 100, 70)
    assert frame["stall_ns"].isna().all() and not frame["fallback"].any()


def test_what_is_chosen_is_stated() -> None:
    recording = training().recording()
    assert ops(recording).attrs == {"selection": "2 steady steps", "steps": 2, "unattributed_device_ns": 7}
    one = ops(recording, step=1)
    assert one.attrs["selection"] == "step 1" and rows(one)["aten::linear"]["count"] == 1
    window = ops(recording, window=(0, 150))
    assert window["op"].tolist() == ["aten::addmm", "aten::linear"] and "window 0..150" in window.attrs["selection"]
    with pytest.raises(UsageError, match="has no step 9; it has 0, 1"):
        ops(recording, step=9)
    with pytest.raises(UsageError, match="exclude each other"):
        ops(recording, step=1, window=(0, 1))
    with pytest.raises(UsageError, match="ends before it starts"):
        ops(recording, window=(5, 1))


def test_warm_up_is_left_out_and_without_steady_steps_everything_counts() -> None:
    trace = training()
    trace.rows["steps"][0]["phase"] = "warm_up"
    trace.rows["steps"][1]["phase"] = "execution"
    frame = ops(trace.recording())
    assert frame.attrs["selection"] == "1 steady step of 2" and rows(frame)["aten::linear"]["count"] == 1
    trace.rows["steps"][1]["phase"] = "warm_up"
    frame = ops(trace.recording())
    assert frame.attrs["selection"] == "the whole recording: no step is steady"
    assert frame.attrs["unattributed_device_ns"] == 18 and rows(frame)["aten::linear"]["count"] == 2
    trace.rows["steps"].clear()
    assert ops(trace.recording()).attrs["selection"] == "the whole recording: it has no steps"


def test_shapes_part_calls_of_one_name() -> None:
    frame = ops(training().recording(), by="name+shape")
    shapes = frame[frame["op"] == "aten::addmm"]
    assert sorted(shapes["shape"]) == ["[[8, 4], [], [4]]", "[[8, 5], [], [4]]"] and shapes["count"].tolist() == [1, 1]
    assert frame[frame["op"] == "aten::linear"]["shape"].isna().all()


def test_stalls_go_to_the_innermost_op_of_the_slice_that_caused_them() -> None:
    trace = training()
    call = next(row["slice_id"] for row in trace.rows["slices"] if row["name"] == "cudaLaunchKernel")
    stalls = pd.DataFrame({"rank": [0, 0, 1], "host_slice_id": [call, None, call], "dur": [33, 500, 900]})
    frame = ops(trace.recording(), stalls=stalls.astype({"host_slice_id": "Int64"}))
    found = rows(frame)
    assert found["aten::addmm"]["stall_ns"] == 33 and frame["stall_ns"].sum() == 33


def test_device_time_adds_up_to_what_the_selection_launched() -> None:
    frame = ops(training().recording())
    assert frame["device_self_ns"].sum() + frame.attrs["unattributed_device_ns"] == 2 * (300 + 50 + 20) + 7


def test_a_rank_that_did_nothing() -> None:
    frame = ops(TraceBuilder().recording())
    assert len(frame) == 0 and frame.attrs["unattributed_device_ns"] == 0
    assert len(ops(TraceBuilder().recording(), by="name+shape")) == 0
