"""The pytest plugin: what it loads, where it keeps baselines, and when a test fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stallscope.analysis.baselines import read_baseline
from stallscope.analysis.budgets import parse_budgets
from stallscope.cli.pytest_gate import GateOfTest, GateWarning
from stallscope.profiler.recording.errors import UsageError
from stallscope.profiler.recording.reader import open_recording
from tests.cli.recordings import written
from tests.cli.test_gate import job
from tests.repository.test_light_import import HEAVY, loaded_by


class Config:
    """As much of pytest's configuration as a gate asks for."""

    def __init__(self, update: str | None = None) -> None:
        self.update, self.stash = update, pytest.Stash()

    def getoption(self, name: str) -> str | None:
        assert name == "--stallscope-update"
        return self.update


def judge(tmp_path: Path, load_ms: float, config: Config, *, name: str = "train", **budgets: Any) -> None:
    """What leaving a block does whose recording is one of ``job``."""
    recording = written(tmp_path / f"recording-{len(list(tmp_path.iterdir()))}", job(load_ms))
    gate = GateOfTest(tmp_path / "test_speed.py", tmp_path, config)  # type: ignore[arg-type]
    wanted = parse_budgets(budgets or {"step_time": "+5%"}, on_unknown="warn")
    gate._judge(gate.baseline_file(name), open_recording(recording), wanted)


def test_the_plugin_loads_nothing_heavy() -> None:
    loaded = loaded_by("import stallscope.cli.pytest_plugin")
    assert "pytest" in loaded
    assert not loaded & (HEAVY | {"click", "msgspec", "scipy"})


def test_without_a_baseline_the_test_fails_and_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(pytest.fail.Exception, match="--stallscope-update"):
        judge(tmp_path, 6, Config())
    judge(tmp_path, 6, Config(), recompiles=0)


def test_baselines_are_kept_like_snapshots(tmp_path: Path) -> None:
    file = tmp_path / "__stallscope__" / "test_speed.a_b.json"
    config = Config("replace")
    for number in range(3):
        judge(tmp_path, 6 + number / 100, config, name="a/b")
    assert len(read_baseline(file).runs) == 3
    judge(tmp_path, 6, Config("replace"), name="a/b")
    assert len(read_baseline(file).runs) == 1
    judge(tmp_path, 6, Config("add"), name="a/b")
    assert len(read_baseline(file).runs) == 2


def test_a_broken_budget_fails_the_test_with_the_report(tmp_path: Path) -> None:
    config = Config("replace")
    for number in range(5):
        judge(tmp_path, 6 + number / 100, config)
    judge(tmp_path, 6, Config())
    with pytest.raises(pytest.fail.Exception) as caught:
        judge(tmp_path, 9, Config())
    lines = str(caught.value).splitlines()
    assert lines[0].startswith("BROKEN: step time 13.0 ms, +29.7% on the baseline's 10.0 ms")
    assert lines[2] == "Where: load.py:12 in load"


def test_where_it_cannot_be_told_the_test_warns(tmp_path: Path) -> None:
    judge(tmp_path, 6, Config("replace"))
    with pytest.warns(GateWarning, match="cannot tell. This is a single run against another"):
        judge(tmp_path, 7, Config())


def test_a_budget_that_there_is_not_is_told_before_the_block_runs(tmp_path: Path) -> None:
    gate = GateOfTest(tmp_path / "test_speed.py", tmp_path, Config())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="Did you mean step_time"), gate("x", step_tme="+3%"):
        pytest.fail("the block ran")


TRAINING = """
import torch
from torch import nn

def test_training(stallscope_gate):
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stallscope_gate("linear", fallbacks="none", step_time="+900%", run_sd="5%"):
        for _ in range(6):
            model(torch.randn(4, 8)).sum().backward()
            optimizer.step()
"""


@pytest.mark.slow
def test_a_real_training_is_kept_and_passes(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(TRAINING)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:dash", "-p", "no:cacheprovider", "test_it.py"]
    registered = subprocess.run([*command, "--help"], capture_output=True, text=True, cwd=tmp_path)
    if "--stallscope-update" not in registered.stdout:
        command[5:5] = ["-p", "stallscope.cli.pytest_plugin"]
    for options, code in (([], 1), (["--stallscope-update"], 0), ([], 0)):
        done = subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        assert done.returncode == code, done.stdout + done.stderr
    assert (tmp_path / "__stallscope__" / "test_it.linear.json").exists()
