"""What became of a process, from the files that it left."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stallscope.analysis.coverage import coverage_document, coverage_of, model_row, per_second, read_coverage
from stallscope.analysis.coverage_results import run_result, stack_position
from stallscope.profiler.recording.errors import FormatError
from tests.coverage.folders import AGREES, BREAK, DIFFERS, blocks, completed, ending, exited, write_process

CRASH = """\
Fatal Python error: Aborted

Thread 0x00007f9d7f7fe6c0 (most recent call first):
  File "/usr/lib/python3.11/threading.py", line 324 in wait

Current thread 0x00007f9d8a0f4b80 (most recent call first):
  File "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", line 134 in forward
  File "/home/ana/model.py", line 30 in forward
  File "/home/ana/train.py", line 7 in <module>

Extension modules: numpy, torch._C (total: 2)
"""
KILLED = "SIGKILL: killed, perhaps for want of memory"
HANG = """\
printed by the model
Timeout (0:00:02.700000)!
Thread 0x00007f9d7f7fe6c0 (most recent call first):
  File "/home/ana/loader.py", line 3 in wait

Thread 0x00007f9d8a0f4b80 (most recent call first):
  File "/usr/lib/python3.11/subprocess.py", line 12 in wait
  File "/home/ana/model.py", line 35 in forward
"""


def test_a_completed_process(tmp_path: Path) -> None:
    report = completed(first_step_ns=7, blocks=blocks(100, 300, 200), agreement=AGREES, peak_device_bytes=5)
    found = run_result(write_process(tmp_path / "eager", report, exited()))
    assert (found.outcome, found.stage, found.reason, found.file) == ("completed", "done", "", None)
    assert (found.step_ns, found.step_low_ns, found.step_high_ns, found.steady_steps) == (200, 100, 300, 15)
    assert (found.first_step_ns, found.peak_device_bytes, found.peak_rss_bytes) == (7, 5, 300 << 20)
    assert found.fallbacks is None, "nothing was recorded, which is not the same as none"
    assert found.agreement == AGREES


def test_blocks_that_compiled_are_no_steady_steps(tmp_path: Path) -> None:
    report = completed(blocks=blocks(900, 300, 200, compilations=(1, 0, 0)))
    found = run_result(write_process(tmp_path / "a", report, exited()))
    assert (found.step_ns, found.steady_steps) == (250, 10)
    assert found.step_note == "1 of 3 blocks compiled something and are left out"
    report = completed(blocks=blocks(900, 300, compilations=(1, 2)))
    found = run_result(write_process(tmp_path / "b", report, exited()))
    assert found.step_ns is None
    assert found.step_note == "every block of steps compiled something"


def test_an_exception_is_told_with_the_line_of_the_users_code(tmp_path: Path) -> None:
    frames = [
        {"file": "/home/ana/train.py", "line": 7, "function": "step"},
        {"file": "/home/ana/model.py", "line": 30, "function": "forward"},
        {"file": "/venv/lib/python3.11/site-packages/torch/nn/modules/linear.py", "line": 134, "function": "forward"},
    ]
    error = {"type": "RuntimeError", "message": "no kernel", "frames": frames}
    report = {"stage": "first step", "outcome": "failed", "error": error}
    found = run_result(write_process(tmp_path / "a", report, exited(1)))
    assert (found.outcome, found.stage, found.reason) == ("failed", "first step", "RuntimeError: no kernel")
    assert (found.file, found.line) == ("/home/ana/model.py", 30)


@pytest.mark.parametrize(
    ("ended", "log", "outcome", "reason", "line"),
    [
        (ending("killed_by_signal", signal="SIGABRT"), CRASH, "crashed", "SIGABRT", 30),
        (ending("out_of_time", signal="SIGKILL"), HANG, "hung", "no end after 3 s", 35),
        (ending("killed_by_signal", signal="SIGKILL"), "", "crashed", KILLED, None),
        (exited(7), "", "failed", "exit code 7", None),
        (exited(0), "", "failed", "exit code 0", None),
    ],
    ids=["crash", "hang", "killed", "exit code", "exit before the end"],
)  # fmt: skip
def test_an_end_that_the_process_could_not_report(
    tmp_path: Path, ended: dict[str, object], log: str, outcome: str, reason: str, line: int | None
) -> None:
    found = run_result(write_process(tmp_path / "a", {"stage": "first step"}, ended, log=log))
    assert (found.outcome, found.stage, found.reason, found.line) == (outcome, "first step", reason, line)


def test_a_process_that_left_no_report(tmp_path: Path) -> None:
    found = run_result(write_process(tmp_path / "a", None, ending("killed_by_signal", signal="SIGSEGV")))
    assert (found.outcome, found.stage, found.reason) == ("crashed", "start", "SIGSEGV")


def test_a_report_that_was_cut(tmp_path: Path) -> None:
    folder = write_process(tmp_path / "a", None, exited(1))
    (folder / "report.json").write_text('{"stage": "fir')
    assert run_result(folder).outcome == "failed"


def test_the_error_that_a_script_printed(tmp_path: Path) -> None:
    log = (
        "step 1\nTraceback (most recent call last):\n"
        '  File "/home/ana/train.py", line 3, in <module>\n    f()\n    ^^^\n'
        '  File "/home/ana/train.py", line 2, in f\n    raise ValueError("mine")\nValueError: mine\nbye\n'
    )
    report = {"stage": "script", "outcome": "failed", "exit_code": 1}
    found = run_result(write_process(tmp_path / "a", report, exited(1), log=log, kind="script"))
    assert (found.reason, found.file, found.line) == ("ValueError: mine", "/home/ana/train.py", 2)


def test_a_stack_without_python_gives_way_to_the_main_thread() -> None:
    text = "Current thread 0x1 (most recent call first):\n  <no Python frame>\n\n" + HANG.partition("\n")[2]
    assert stack_position(text) == ("/home/ana/model.py", 35)
    assert stack_position("no stack at all") == (None, None)


def test_a_row_puts_the_runs_together(tmp_path: Path) -> None:
    write_process(tmp_path / "eager", completed(blocks=blocks(2_000_000), agreement=AGREES), exited())
    compiled = completed(blocks=blocks(1_000_000), agreement=DIFFERS, graph_breaks=[BREAK])
    write_process(tmp_path / "compiled", compiled, exited(), kind="compiled")
    row = model_row(tmp_path, name="m", source="m.py:make", precision="float32", samples_per_step=8)
    assert row.warm is None
    assert row.agrees is False, "one of two that differs decides"
    assert row.largest_error == 0.5
    assert per_second(row.samples_per_step, row.eager) == 4000.0
    found = coverage_of((row,), device="cpu", backend="inductor")
    assert found.counts == {
        "models": 1, "eager": 1, "compiled": 1, "compile_asked": 1, "with_fallbacks": 0, "agree": 0, "differ": 1,
    }  # fmt: skip
    document = coverage_document(found)
    assert document["rows"][0]["eager"]["samples_per_s"] == 4000.0
    assert document["rows"][0]["compiled"]["graph_breaks"] == (BREAK,)


def test_what_is_not_finite_has_no_largest_error(tmp_path: Path) -> None:
    told = {**DIFFERS, "outputs": None, "not_finite": ["outputs"]}
    write_process(tmp_path / "eager", completed(agreement=told), exited())
    row = model_row(tmp_path, name="m", source="m.py:make")
    assert (row.agrees, row.largest_error) == (False, None)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be read"),
        ("[]", "is not the result of a coverage run"),
        ('{"coverage_schema_version": 99, "rows": []}', "version 99"),
        ('{"coverage_schema_version": 1, "rows": [{}]}', "row 0"),
    ],
)
def test_a_file_that_is_no_result(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "a.json"
    file.write_text(text)
    with pytest.raises(FormatError, match=said):
        read_coverage(file)


def test_a_result_is_read_back(tmp_path: Path) -> None:
    write_process(tmp_path / "m" / "eager", completed(blocks=blocks(5)), exited())
    document = coverage_document(
        coverage_of((model_row(tmp_path / "m", name="m", source="s"),), device="cpu", backend="")
    )
    file = tmp_path / "a.json"
    file.write_text(json.dumps(document))
    assert read_coverage(file) == json.loads(json.dumps(document))
