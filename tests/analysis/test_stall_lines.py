"""The line behind a stall, by each of the ways that it can be known."""

from __future__ import annotations

from typing import Any

from stallscope.analysis.stalls import stalls
from tests.builders import TraceBuilder

US = 1000


def kernel(trace: TraceBuilder, thread: int, gpu: int, call: int, start: int) -> None:
    trace.launched(thread, gpu, call=(call * US, 5 * US), work=(start * US, 100 * US))


def longest(trace: TraceBuilder) -> list[Any]:
    """Cause, file, line, function and source of the longest stall; None where there is none."""
    frame = stalls(trace.recording()).sort_values("dur", ascending=False)
    row = frame[["root_cause", "file", "line", "function", "line_source"]].astype(object).iloc[0]
    return row.where(row.notna(), None).tolist()


def with_stack(trace: TraceBuilder, *frames: tuple[str, int, str]) -> int:
    ids = []
    for file, line, function in frames:
        ids.append(trace.new_id())
        trace.row("frames", frame_id=ids[-1], file=file, line=line, function=function)
    stack = trace.new_id()
    trace.row("stacks", stack_id=stack, frame_ids=ids)
    return stack


def test_unrecorded_time_belongs_to_the_function_that_covered_most_of_it() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.python(main, "train.py(1): <module>", 0, 5000 * US)
    kernel(trace, main, gpu, 0, 10)
    trace.python(main, "train.py(30): log", 120 * US, 200 * US)
    trace.python(main, "train.py(40): augment", 330 * US, 600 * US)
    trace.python(main, "numpy/core/fromnumeric.py(50): sum", 340 * US, 580 * US)
    kernel(trace, main, gpu, 990, 1000)
    assert longest(trace) == ["python", "train.py", 40, "augment", "function"]


def test_a_range_without_a_stack_takes_the_first_op_inside() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    stack = with_stack(trace, ("train.py", 42, "<module>"), ("/x/site-packages/torchvision/a.py", 7, "get"))
    kernel(trace, main, gpu, 0, 10)
    trace.slice(main, "enumerate(DataLoader)#x", "input", 120 * US, 800 * US)
    trace.slice(main, "aten::stack", "op", 300 * US, 50 * US, stack_id=stack)
    kernel(trace, main, gpu, 990, 1000)
    assert longest(trace) == ["input", "train.py", 42, "<module>", "stack"]


def test_backward_work_belongs_to_the_line_of_its_forward_op() -> None:
    trace = TraceBuilder()
    main, autograd, gpu = trace.thread("main"), trace.thread("autograd"), trace.stream()
    trace.python(main, "model.py(12): forward", 0, 100 * US)
    trace.slice(main, "aten::cumsum", "op", 10 * US, 20 * US, sequence_number=7)
    trace.slice(main, "aten::mm", "op", 40 * US, 20 * US, sequence_number=8)
    kernel(trace, main, gpu, 45, 70)
    node = "autograd::engine::evaluate_function: CumsumBackward0"
    trace.slice(autograd, node, "op", 170 * US, 900 * US, sequence_number=7)
    trace.slice(autograd, "aten::cumsum", "op", 171 * US, 880 * US)
    trace.slice(autograd, "aten::_to_cpu", "fallback", 172 * US, 10 * US)
    kernel(trace, autograd, gpu, 1060, 1070)
    assert longest(trace) == ["cpu_fallback", "model.py", 12, "forward", "function"]


def test_a_live_collectors_stack_names_the_line_that_ran() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    segment = trace.new_id()
    trace.python(main, "train.py(1): <module>", 0, 5000 * US)
    kernel(trace, main, gpu, 0, 10)
    stack = with_stack(trace, ("train.py", 55, "<module>"))
    trace.slice(main, "torch.save", "io", 120 * US, 800 * US, stack_id=stack)
    kernel(trace, main, gpu, 990, 1000)
    for row in trace.rows["slices"]:
        if row["category"] == "python":
            row["segment_id"] = segment
    assert longest(trace) == ["io", "train.py", 55, "<module>", "stack"]


def test_no_line_where_none_is_known() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.slice(main, "aten::mm", "op", 0, 5 * US)
    kernel(trace, main, gpu, 0, 10)
    kernel(trace, main, gpu, 990, 1000)
    assert longest(trace) == ["python", None, None, None, None]
