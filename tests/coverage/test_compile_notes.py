"""Graph breaks and recompilations, from the messages of several versions of torch."""

from __future__ import annotations

import logging

from stallscope.profiler.session.compile_notes import CompileNotes, graph_break_of, recompile_of

NEW = """\
Graph break in user code at /home/ana/a model/net.py:12
Graph Break Reason: Encountered graph break when attempting to trace CALL: a function call, e.g. f(x, y):

Unsupported Tensor.item() call with capture_scalar_outputs=False
  Explanation: Dynamo does not support tracing `Tensor.item()` with config.capture_scalar_outputs=False.
  Hint: Set `torch._dynamo.config.capture_scalar_outputs = True`.

  Developer debug context: call_method TensorVariable() item () {}

 For more details about this graph break, please visit: https://example.org/gb0124.html

User code traceback:
  File "/home/ana/a model/net.py", line 12, in forward
"""
AGAIN = NEW.replace("Graph break in", "Graph break (user stack suppressed due to duplicate graph break) in")
OLD = """\
Graph break in user code at /home/ana/net.py:9
Reason: Unsupported: call_function BuiltinVariable(print) [ConstantVariable()] {}
User code traceback:
  File "/home/ana/net.py", line 9, in forward
"""
RECOMPILED = """\
Recompiling function torch_dynamo_resume_in_forward_at_12 in /home/ana/net.py:12
    triggered by the following guard failure(s):
    - 1/0: ___stack0 == -2.79                         # if x.sum().item()>0:  # net.py:12 in forward
    - User stack trace:
"""


def test_a_graph_break_has_its_line_and_what_could_not_be_traced() -> None:
    assert graph_break_of(NEW) == {
        "file": "/home/ana/a model/net.py", "line": 12,
        "reason": "Unsupported Tensor.item() call with capture_scalar_outputs=False",
    }  # fmt: skip
    assert graph_break_of(AGAIN) == graph_break_of(NEW)


def test_a_graph_break_of_an_earlier_version() -> None:
    found = graph_break_of(OLD)
    assert found is not None
    assert found["reason"] == "Unsupported: call_function BuiltinVariable(print) [ConstantVariable()] {}"


def test_a_recompilation_has_the_guard_that_failed() -> None:
    assert recompile_of(RECOMPILED) == {
        "file": "/home/ana/net.py", "line": 12, "function": "torch_dynamo_resume_in_forward_at_12",
        "reason": "___stack0 == -2.79",
    }  # fmt: skip


def test_other_messages_are_neither() -> None:
    assert graph_break_of("Graph break from `Tensor.item()`, consider setting") is None
    assert recompile_of("Recompiling nothing") is None


def test_the_same_break_is_counted_and_others_are_ignored() -> None:
    notes = CompileNotes()
    for name, text in (
        ("torch._dynamo.symbolic_convert.__graph_breaks", NEW),
        ("torch._dynamo.symbolic_convert.__graph_breaks", AGAIN),
        ("torch._dynamo.guards.__recompiles", RECOMPILED),
        ("torch._dynamo.variables.tensor", NEW),
    ):
        notes.emit(logging.LogRecord(name, logging.DEBUG, "", 0, text, None, None))
    assert [(one["line"], one["count"]) for one in notes.graph_breaks] == [(12, 2)]
    assert [(one["function"], one["count"]) for one in notes.recompiles] == [
        ("torch_dynamo_resume_in_forward_at_12", 1)
    ]
