"""The line that ran, from the source that a recording holds and from samples."""

from __future__ import annotations

from typing import Any

import pytest

from stallscope.analysis.stalls import stalls
from tests.builders import TraceBuilder

US = 1000
FILE = "/home/ana/train.py"
SOURCE = """import torch

def epoch(loader, model, device):
    for batch in loader:
        x = batch.pin_memory().to(device)
        table = model.table.to(device)
        loss = model(x)
        if loss.item() > 3:
            report(loss)
        total = crunch(table)

def crunch(numbers):
    total = 0
    for number in numbers:
        total += number
    return total

def fallback(x):
    return torch.logit(x).sum()
"""


class Run:
    """A recording with Python stacks and the source, in which the device waits from 110 to 2000 us."""

    def __init__(self, *, source: bool = True) -> None:
        self.trace = TraceBuilder()
        self.main, self.gpu = self.trace.thread(), self.trace.stream()
        self.trace.row("segments", segment_id=5, ts=0, dur=3000 * US)
        if source:
            self.trace.row("sources", path=FILE, sha256="", text=SOURCE)
        self.trace.launched(self.main, self.gpu, call=(0, 5 * US), work=(10 * US, 100 * US))
        self.call("train.py(3): epoch", 0, 2900)

    def call(self, name: str, ts: int, dur: int, category: str = "python", **more: Any) -> int:
        return self.trace.slice(self.main, name, category, ts * US, dur * US, segment_id=5, **more)

    def sample(self, ts: int, line: int, function: str) -> None:
        frame, stack = self.trace.new_id(), self.trace.new_id()
        self.trace.row("frames", frame_id=frame, file=FILE, line=line, function=function)
        self.trace.row("stacks", stack_id=stack, frame_ids=[frame])
        self.trace.row("samples", track_id=self.main, ts=ts * US, stack_id=stack)

    def longest(self) -> list[Any]:
        self.trace.launched(self.main, self.gpu, call=(1995 * US, 5 * US), work=(2000 * US, 100 * US))
        frame = stalls(self.trace.recording()).sort_values("dur", ascending=False)
        row = frame[["root_cause", "file", "line", "function", "line_source"]].astype(object).iloc[0]
        return row.where(row.notna(), None).tolist()


def copies(run: Run) -> None:
    """One pass of the loop until after its second copy, in which the time goes."""
    run.call("<built-in method pin_memory of Tensor object at 0x7f>", 20, 10)
    run.call("<built-in method to of Tensor object at 0x7f>", 40, 10)
    run.call("<built-in method to of Tensor object at 0x7e>", 60, 1800)
    run.call("cudaMemcpyAsync", 65, 1790, "allocation")
    run.call("nn.Module: Net_0", 1900, 20, "module")


def test_of_two_calls_of_one_name_the_right_one() -> None:
    run = Run()
    copies(run)
    assert run.longest() == ["allocation", FILE, 6, "epoch", "source"]


def test_without_the_source_the_def_is_named() -> None:
    run = Run(source=False)
    copies(run)
    assert run.longest() == ["allocation", "train.py", 3, "epoch", "function"]


def test_a_data_set_is_named_rather_than_the_loop_that_waits() -> None:
    run = Run()
    run.call("enumerate(DataLoader)#x", 120, 1700, "input")
    run.call("train.py(18): fallback", 130, 1600)
    run.call("<built-in method logit of type object at 0x7f>", 140, 1500)
    assert run.longest() == ["input", FILE, 19, "fallback", "source"]


@pytest.mark.parametrize("sampled", [True, False])
def test_plain_python_is_where_samples_saw_it_or_in_the_only_loop(sampled: bool) -> None:
    run = Run()
    run.call("train.py(12): crunch", 120, 1800)
    if sampled:
        run.sample(500, 15, "crunch")
        run.sample(900, 15, "crunch")
        run.sample(1990, 10, "epoch")
    expected = [15, "crunch", "sample"] if sampled else [14, "crunch", "source"]
    assert run.longest() == ["python", FILE, *expected]


def test_backward_work_has_the_line_of_its_forward_op() -> None:
    run = Run()
    autograd = run.trace.thread("autograd")
    run.call("train.py(18): fallback", 20, 30)
    run.call("<built-in method logit of type object at 0x7f>", 22, 20)
    run.call("aten::logit", 24, 10, "op", sequence_number=7)
    node = "autograd::engine::evaluate_function: LogitBackward0"
    run.trace.slice(autograd, node, "op", 120 * US, 1800 * US, sequence_number=7, segment_id=5)
    run.trace.slice(autograd, "aten::logit_backward", "op", 130 * US, 1700 * US, segment_id=5)
    run.trace.slice(autograd, "aten::_to_cpu", "fallback", 140 * US, 1600 * US, segment_id=5)
    assert run.longest() == ["cpu_fallback", FILE, 19, "fallback", "source"]


def test_memory_that_was_given_back_is_the_fault_of_who_gave_it() -> None:
    """A malloc of 1.5 ms at line 6; what it asks for was freed at line 9 before."""
    run = Run()
    run.call("<built-in method item of Tensor object at 0x7f>", 12, 2)
    run.call("train.py(90): report", 15, 20)
    run.call("cudaFree", 16, 10, "allocation")
    run.call("<built-in method to of Tensor object at 0x7e>", 120, 1600)
    run.call("cudaMalloc", 130, 1500, "allocation")
    cause, file, line, *_ = run.longest()
    assert (cause, line) == ("allocation", 90) and file in ("train.py", FILE)


def test_garbage_collected_while_compiling_is_the_compilers() -> None:
    run = Run()
    run.call("entire_frame_compile", 120, 1700, "compile")
    run.trace.slice(run.main, "garbage collection, generation 2", "gc", 130 * US, 1500 * US)
    assert run.longest()[0] == "compile"


@pytest.mark.parametrize(("inner", "cause"), [("torch/autograd/graph.py(800): _engine", "dispatch"), ("", "python")])
def test_waiting_in_torchs_own_python_is_no_code_of_the_users(inner: str, cause: str) -> None:
    run = Run()
    run.call("train.py(18): fallback", 115, 1870)
    if inner:
        run.call(inner, 116, 1860)
    run.call("<built-in method run_backward of object at 0x7f>", 117, 1850)
    assert run.longest()[0] == cause


def test_a_compiled_function_is_called_where_its_variable_is() -> None:
    run = Run()
    run.call("<built-in method to of Tensor object at 0x7e>", 20, 10)
    run.call("torch/_dynamo/eval_frame.py(800): compile_wrapper", 120, 1800)
    run.call("entire_frame_compile", 130, 1700, "compile")
    run.call("<built-in method item of Tensor object at 0x7e>", 1950, 10)
    assert run.longest() == ["compile", FILE, 7, "epoch", "source"]


def test_a_call_through_a_decorator_has_the_name_of_what_it_decorates() -> None:
    """Beside calls of other names a wrapper alone would be taken for the first that comes."""
    run = Run()
    outer = "torch/distributed/c10d_logger.py(80): wrapper"
    run.call(outer, 200, 1700)
    run.call("torch/_tools/note.py(3): note", 210, 5)
    run.call("torch/utils/_contextlib.py(100): decorate_context", 220, 1600)
    run.call("torch/hub.py(1): report", 230, 1500)
    run.call("cudaStreamSynchronize", 300, 1400, "synchronization")
    assert run.longest() == ["synchronization", FILE, 9, "epoch", "source"]
