"""A program that runs torch's profiler itself: exit code 0, its trace whole, ours says why it paused.

Each runs in a process of its own, since unguarded these end the process.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .workloads import all_losses, opened, record, run_python

HEAD = """
import stallscope, torch
from torch.profiler import profile, schedule
torch.set_num_threads(1)
model = torch.nn.Linear(8, 8)
def step():
    model(torch.ones(2, 8)).sum().backward()
"""

OURS_AROUND_THEIRS = """
with stallscope.profile("run", detail="normal") as ours:
    for i in range(3):
        step(); ours.step()
    with profile() as theirs:
        for i in range(5):
            step(); ours.step()
    theirs.export_chrome_trace("theirs.json")
    for i in range(4):
        step(); ours.step()
"""

THEIRS_AROUND_OURS = """
with profile() as theirs:
    for i in range(2):
        step()
    with stallscope.profile("run", detail="normal") as ours:
        for i in range(3):
            step(); ours.step()
theirs.export_chrome_trace("theirs.json")
"""

OVERLAPPING_OURS_FIRST = """
ours = stallscope.profile("run", detail="low")
ours.__enter__()
step(); ours.step()
theirs = profile()
theirs.start()
for i in range(5):
    step(); ours.step()
ours.__exit__(None, None, None)
theirs.stop()
theirs.export_chrome_trace("theirs.json")
"""

OVERLAPPING_THEIRS_FIRST = """
theirs = profile()
theirs.start()
step()
with stallscope.profile("run", detail="low") as ours:
    for i in range(4):
        step(); ours.step()
    theirs.stop()
    theirs.export_chrome_trace("theirs.json")
    for i in range(4):
        step(); ours.step()
"""

WITH_A_SCHEDULE = """
def ready(prof):
    prof.export_chrome_trace("theirs.json")
with stallscope.profile("run", detail="low") as ours:
    with profile(schedule=schedule(wait=2, warmup=1, active=5, repeat=1), on_trace_ready=ready) as theirs:
        for i in range(12):
            step(); theirs.step(); ours.step()
"""

AUTOGRAD_PROFILER = """
with stallscope.profile("run", detail="low") as ours:
    step(); ours.step()
    with torch.autograd.profiler.profile() as theirs:
        for i in range(5):
            step(); ours.step()
    theirs.export_chrome_trace("theirs.json")
    step(); ours.step()
"""

ON_ANOTHER_THREAD = """
import threading
def other():
    with profile() as theirs:
        for i in range(5):
            step()
    theirs.export_chrome_trace("theirs.json")
with stallscope.profile("run", detail="low") as ours:
    step(); ours.step()
    thread = threading.Thread(target=other)
    thread.start()
    while thread.is_alive():
        thread.join(0.001)
    for i in range(3):
        step(); ours.step()
"""

CASES = {
    # name: (program, addmm calls in their trace, least and most in ours); ours goes on at the end of the next step
    "ours around theirs": (OURS_AROUND_THEIRS, 5, 6, 6),
    "theirs around ours": (THEIRS_AROUND_OURS, 5, 0, 0),
    "overlapping, ours first": (OVERLAPPING_OURS_FIRST, 5, 1, 1),
    "overlapping, theirs first": (OVERLAPPING_THEIRS_FIRST, 5, 3, 4),
    "theirs with a schedule": (WITH_A_SCHEDULE, 5, 3, 7),
    "autograd's profiler": (AUTOGRAD_PROFILER, 5, 1, 1),
    "theirs on another thread": (ON_ANOTHER_THREAD, 5, 3, 4),
}


def calls(names: list[str]) -> int:
    return names.count("aten::addmm")


@pytest.mark.parametrize("case", CASES)
def test_both_profilers_get_what_is_theirs(case: str, tmp_path: Path) -> None:
    program, in_theirs, least, most = CASES[case]
    (tmp_path / "train.py").write_text(HEAD + program)
    ran = run_python("train.py", cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "Error" not in ran.stderr
    theirs = json.loads((tmp_path / "theirs.json").read_text())["traceEvents"]
    assert calls([event.get("name", "") for event in theirs]) == in_theirs
    recording = opened(tmp_path / "run")
    assert recording.rank_info(0)["status"] == "completed"
    assert recording.rank_info(0)["collectors"]["torch"]["state"] == "stopped"
    assert least <= calls(recording.table("slices", columns=["name"])["name"].to_pylist()) <= most
    told = [row for row in all_losses(recording) if row["kind"] == "other_profiler"]
    assert told
    assert all(row["dur"] > 0 and row["severity"] == "data_loss" for row in told)
    assert recording.table("steps").num_rows > 0


@pytest.mark.parametrize("case", ["with a schedule", "plain"])
def test_a_recorded_program_that_profiles_itself_prints_and_exits_as_ever(case: str, tmp_path: Path) -> None:
    body = {
        "plain": "with profile(with_stack=True) as p:\n    for _ in range(3): step()\n"
        "p.export_chrome_trace('theirs.json')\n",
        "with a schedule": "with profile(schedule=schedule(wait=1, warmup=1, active=3, repeat=1), "
        "on_trace_ready=lambda p: p.export_chrome_trace('theirs.json')) as p:\n"
        "    for _ in range(6): step(); p.step()\n",
    }[case]
    (tmp_path / "train.py").write_text(
        HEAD.replace("import stallscope, torch", "import torch")
        + "for _ in range(4): step()\n"
        + body
        + "print('end')\n"
    )
    plain = run_python("train.py", cwd=tmp_path)
    before = json.loads((tmp_path / "theirs.json").read_text())["traceEvents"]
    recorded = record("-o", "run", "train.py", cwd=tmp_path)
    assert (recorded.stdout, recorded.returncode) == (plain.stdout, 0), recorded.stderr
    after = json.loads((tmp_path / "theirs.json").read_text())["traceEvents"]
    assert calls([e.get("name", "") for e in after]) == calls([e.get("name", "") for e in before]) == 3


def test_torch_without_our_guard_does_end_the_process(tmp_path: Path) -> None:
    """What the guard is for. If this fails, torch has learnt to live with two sessions."""
    (tmp_path / "two.py").write_text(
        HEAD.replace("import stallscope, torch", "import torch")
        + "outer = profile(); outer.start(); step()\n"
        + "inner = profile(); inner.start(); step(); inner.stop(); inner.export_chrome_trace('inner.json')\n"
        + "outer.stop(); outer.export_chrome_trace('outer.json')\n"
    )
    assert run_python("two.py", cwd=tmp_path).returncode != 0
