from __future__ import annotations

import pandas as pd

from stallscope.analysis.source_lines import source_lines
from tests.builders import MemoryRecording, TraceBuilder


def training() -> TraceBuilder:
    """main calls forward, which runs linear (a kernel of 300); its backward on another thread launches one of 500."""
    trace = TraceBuilder()
    main, engine, gpu = trace.thread(), trace.thread("autograd"), trace.stream(7)
    trace.python(main, "train.py(3): main", 0, 1_000)
    trace.python(main, "model.py(8): forward", 100, 400)
    trace.python(main, "model.py(8): forward", 150, 200)
    trace.python(main, "torch/nn/functional.py(5): linear", 200, 100)
    trace.slice(main, "aten::linear", "op", 210, 50, sequence_number=4)
    trace.launched(main, gpu, call=(220, 10), work=(400, 300))
    trace.slice(engine, "autograd::engine::evaluate_function: AddmmBackward0", "op", 600, 80, sequence_number=4)
    trace.launched(engine, gpu, call=(610, 10), work=(700, 500))
    trace.slice(engine, "aten::lost", "op", 900, 30)
    return trace


def by_place(frame: pd.DataFrame) -> dict[str, dict[str, int]]:
    names = frame["file"].fillna("?") + ":" + frame["line"].astype("string").fillna("?")
    return dict(zip(names, frame.to_dict("records"), strict=True))


def test_host_and_device_time_of_each_line() -> None:
    frame = source_lines(training().recording())
    found = by_place(frame)
    assert list(found) == ["model.py:8", "train.py:3", "?:?"]
    forward, main = found["model.py:8"], found["train.py:3"]
    assert (forward["device_ns"], forward["backward_device_ns"]) == (800, 500)
    assert (forward["host_ns"], forward["backward_host_ns"]) == (400 + 80, 80)
    assert (forward["calls"], forward["host_total_ns"]) == (2, 400)
    assert (main["host_ns"], main["host_total_ns"], main["device_ns"]) == (600, 1_000, 0)
    assert found["?:?"]["host_ns"] == 30 and forward["origin"] == "user" and forward["line_source"] == "function"
    assert frame["host_ns"].sum() == 1_000 + 80 + 30 and frame["device_ns"].sum() == 800
    assert frame[["stall_ns", "exposed_copy_ns", "samples"]].isna().all(axis=None)


def test_stalls_are_joined_by_place() -> None:
    stalls = pd.DataFrame(
        {
            "rank": [0, 0, 0, 0, 1, 0],
            "file": ["model.py", "model.py", "loader.py", None, "model.py", "model.py"],
            "line": pd.array([8, 8, 2, None, 8, 8], dtype="Int64"),
            "function": ["forward", "forward", "next", None, "forward", "forward"],
            "state": ["stall", "data_movement", "stall", "stall", "stall", "stall"],
            "root_cause": ["python", "copy", "input", "dispatch", "python", "overhead"],
            "dur": [70, 5, 900, 11, 10_000, 100_000],
        }
    )
    found = by_place(source_lines(training().recording(), stalls=stalls))
    assert (found["model.py:8"]["stall_ns"], found["model.py:8"]["exposed_copy_ns"]) == (70, 5)
    assert (found["loader.py:2"]["stall_ns"], found["loader.py:2"]["host_ns"]) == (900, 0)
    assert (found["?:?"]["stall_ns"], found["train.py:3"]["stall_ns"]) == (11, 0)
    assert next(iter(found)) == "model.py:8"


def stacked() -> MemoryRecording:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    for number, line in enumerate([3, 8]):
        trace.row("frames", frame_id=number, file="train.py", line=line, function="step")
        trace.row("stacks", stack_id=number, frame_ids=[number])
    trace.slice(main, "aten::mm", "op", 0, 100, stack_id=0)
    trace.launched(main, gpu, call=(10, 20), work=(50, 40))
    for ts, stack in ((5, 1), (6, 1), (7, None), (5_000, 1)):
        trace.row("samples", track_id=main, ts=ts, stack_id=stack)
    trace.step(1, 0, 1_000)
    return trace.recording()


def test_call_stacks_and_samples_give_the_line_that_ran() -> None:
    found = by_place(source_lines(stacked()))
    assert (found["train.py:3"]["host_ns"], found["train.py:3"]["device_ns"]) == (100, 40)
    assert found["train.py:3"]["line_source"] == "stack" and pd.isna(found["train.py:3"]["host_total_ns"])
    assert found["train.py:8"]["samples"] == 2 and found["train.py:8"]["host_ns"] == 0
    assert found["?:?"]["samples"] == 1


def test_a_line_that_is_only_sampled_is_said_to_come_from_the_sampler() -> None:
    trace = TraceBuilder()
    main = trace.thread()
    trace.row("frames", frame_id=1, file="train.py", line=9, function="step")
    trace.row("stacks", stack_id=1, frame_ids=[1])
    trace.row("samples", track_id=main, ts=5, stack_id=1)
    assert source_lines(trace.recording())["samples"].tolist() == [1]


def test_without_stacks_everything_is_in_the_row_without_a_file() -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread(), "aten::mm", "op", 0, 100)
    frame = source_lines(trace.recording())
    assert frame["host_ns"].tolist() == [100] and frame["file"].isna().all() and frame["line_source"].isna().all()
    assert frame.attrs["selection"] == "the whole recording: it has no steps"
    assert source_lines(TraceBuilder().recording()).empty


def test_one_step() -> None:
    trace = training()
    trace.step(1, 0, 100)
    trace.step(2, 100, 900)
    recording = trace.recording()
    assert by_place(source_lines(recording, step=1))["train.py:3"]["host_ns"] == 600
    assert "train.py:3" not in by_place(source_lines(recording, step=2))
