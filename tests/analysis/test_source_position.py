from __future__ import annotations

import pytest

from stallscope.analysis.source_position import (
    SourceLine,
    forward_rows,
    origin_of,
    python_line,
    row_lines,
    stack_lines,
)
from stallscope.analysis.timeline import timeline
from tests.builders import MemoryRecording, TraceBuilder


@pytest.mark.parametrize(
    ("file", "origin"),
    [
        ("train.py", "user"),
        ("./models/net.py", "user"),
        ("/home/me/project/train.py", "user"),
        ("C:\\work\\train.py", "user"),
        ("<ipython-input-3-0c1>", "user"),
        ("/tmp/ipykernel_41/12.py", "user"),
        ("/env/lib/python3.11/site-packages/transformers/trainer.py", "library"),
        ("transformers/models/qwen2/modeling_qwen2.py", "library"),
        ("/env/lib/python3.11/site-packages/torch/nn/modules/module.py", "runtime"),
        ("torch/nn/modules/module.py", "runtime"),
        ("C:\\Python311\\Lib\\threading.py", "runtime"),
        ("/usr/lib/python3/dist-packages/numpy/core.py", "library"),
        ("/usr/lib/python3.10/threading.py", "runtime"),
        ("threading.py", "runtime"),
        ("<frozen importlib._bootstrap>", "runtime"),
        ("<eval_with_key>.5", "runtime"),
        (None, "runtime"),
        ("", "runtime"),
        ("torchmetrics/metric.py", "library"),
        ("torch_experiments/run.py", "user"),
        ("collectors/live/patching.py", "runtime"),
        ("/checkout/profiler/session/session.py", "runtime"),
        ("/home/me/project/profiler/step.py", "user"),
    ],
)
def test_whose_code_a_file_is(file: str | None, origin: str) -> None:
    assert origin_of(file) == origin


def test_names_of_python_slices() -> None:
    assert python_line("train.py(12): step") == SourceLine("train.py", 12, "step", "user")
    assert python_line("a (1).py(7): <lambda>") == SourceLine("a (1).py", 7, "<lambda>", "user")
    assert python_line("<built-in method item of Tensor>") is None
    assert python_line("nn.Module: Linear_0") is None


def lines_by_name(recording: MemoryRecording) -> dict[str, str]:
    t, found = timeline(recording, 0), row_lines(recording, 0)
    text = [f"{line.file}:{line.line}" for line in found.lines] + ["-"]
    return {t.name_of(row): text[found.line[row]] for row in range(len(t))}


def test_a_slice_belongs_to_the_innermost_user_function_above_it_else_to_a_library() -> None:
    trace = TraceBuilder()
    main, other, bare = trace.thread(), trace.thread("other"), trace.thread("bare")
    trace.python(main, "train.py(3): main", 0, 100)
    trace.python(main, "model.py(8): forward", 10, 50)
    trace.python(main, "torch/nn/functional.py(5): linear", 20, 20)
    trace.slice(main, "aten::linear", "op", 25, 5)
    trace.slice(main, "aten::add", "op", 70, 5)
    trace.python(other, "transformers/trainer.py(9): run", 0, 100)
    trace.slice(other, "aten::mul", "op", 25, 5)
    trace.slice(bare, "aten::sub", "op", 25, 5)
    found = lines_by_name(trace.recording())
    assert found["aten::linear"] == "model.py:8" and found["aten::add"] == "train.py:3"
    assert found["aten::mul"] == "transformers/trainer.py:9" and found["aten::sub"] == "-"


def stacked() -> tuple[TraceBuilder, int]:
    trace = TraceBuilder()
    for number, (file, line) in enumerate([("train.py", 3), ("model.py", 8), ("torch/nn/functional.py", 5)]):
        trace.row("frames", frame_id=number, file=file, line=line, function="f")
    trace.row("frames", frame_id=9, file=None, line=None, function="<built-in method add>")
    trace.row("stacks", stack_id=5, frame_ids=[0, 1, 2, 9])
    trace.row("stacks", stack_id=4, frame_ids=[0])
    trace.row("stacks", stack_id=6, frame_ids=[2, 77])
    trace.row("stacks", stack_id=7, frame_ids=[])
    return trace, trace.thread()


def test_call_stacks_give_the_innermost_user_frame() -> None:
    trace, main = stacked()
    for number, stack in enumerate([5, 4, 6, 7, 99, None]):
        trace.slice(main, f"op{number}", "op", number * 10, 5, stack_id=stack)
    found = lines_by_name(trace.recording())
    assert [found[f"op{n}"] for n in range(6)] == ["model.py:8", "train.py:3", "-", "-", "-", "-"]
    stacks = stack_lines(trace.recording())
    assert [len(stacks.frames[a:b]) for a, b in zip(stacks.first, stacks.first[1:], strict=False)] == [1, 4, 2, 0]


def test_backward_work_belongs_to_the_line_of_its_forward_op() -> None:
    trace, main = stacked()
    engine = trace.thread("autograd")
    trace.slice(main, "aten::linear", "op", 0, 30, stack_id=4, sequence_number=7)
    trace.slice(main, "aten::mm", "op", 40, 5, stack_id=5, sequence_number=7)
    trace.slice(main, "aten::mm later", "op", 50, 5, stack_id=4, sequence_number=8)
    trace.slice(engine, "autograd::engine::evaluate_function: MmBackward0", "op", 100, 50, sequence_number=7)
    trace.slice(engine, "MmBackward0", "op", 105, 40, sequence_number=7)
    trace.slice(engine, "aten::mm back", "op", 110, 5)
    trace.slice(engine, "autograd::engine::evaluate_function: Lost", "op", 200, 50, sequence_number=99)
    recording = trace.recording()
    found = lines_by_name(recording)
    assert found["aten::mm back"] == found["MmBackward0"] == "model.py:8"
    assert found["autograd::engine::evaluate_function: Lost"] == "-"
    t = timeline(recording, 0)
    forward = forward_rows(t)
    assert {t.name_of(r): t.name_of(f) for r, f in enumerate(forward) if f >= 0}["aten::mm back"] == "aten::mm"


def test_nothing_recorded() -> None:
    recording = TraceBuilder().recording()
    assert len(row_lines(recording, 0).line) == 0
