"""Real runs on the simulated accelerator: each change breaks the gate with a report that names it; none passes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stallscope.samples import simulated_accelerator
from tests.cli.conftest import Run

SCRIPT = Path(__file__).with_name("gated_training.py")
CHANGES = ("fallback", "memory", "loader", "recompile")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three runs and a fourth of the same code, and one of each change."""
    reason = simulated_accelerator.unavailable_reason()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("recorded")
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(folder), "none:4", *CHANGES], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (folder / "base").mkdir()
    for number in range(3):
        (folder / "none" / f"run{number}").rename(folder / "base" / f"run{number}")
    return folder


@pytest.fixture(scope="module")
def baseline(recorded: Path) -> Path:
    """The three runs in one file."""
    from click.testing import CliRunner

    from stallscope.cli.main import main

    file = recorded / "base.json"
    result = CliRunner().invoke(main, ["gate", str(recorded / "base"), "--write-baseline", str(file)])
    assert result.exit_code == 0, result.output
    return file


def asked(run: Run, recorded: Path, name: str, *options: str, exit_code: int = 1) -> dict[str, Any]:
    """The gate's answer."""
    found: dict[str, Any] = json.loads(run("gate", recorded / name, *options, "--json", exit_code=exit_code).stdout)
    return found


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(SCRIPT.read_text().splitlines(), 1) if text in line)


def where(found: dict[str, Any]) -> tuple[str, int | None]:
    blame = found["budgets"][0]["blame"]
    return Path(blame["file"]).name, blame["line"]


EXACT = ("--fallbacks", "baseline", "--recompiles", "+0", "--peak-memory", "+20%")


def test_the_same_code_passes(run: Run, recorded: Path, baseline: Path) -> None:
    text = run("gate", recorded / "none", "--baseline", baseline, *EXACT).stdout
    assert text.startswith("KEPT: 3 budgets of 3.")


def test_a_fallback(run: Run, recorded: Path, baseline: Path) -> None:
    found = asked(run, recorded, "fallback", "--baseline", str(baseline), *EXACT)
    assert found["what"] == "BROKEN: ops on the CPU: aten::nan_to_num ran on the CPU and is not accepted."
    assert "ran on the CPU 10 times" in found["why"]
    file, line = where(found)
    assert file == SCRIPT.name
    assert line in (line_of("torch.nan_to_num"), line_of("def forward"))


def test_thirty_percent_more_memory(run: Run, recorded: Path, baseline: Path) -> None:
    found = asked(run, recorded, "memory", "--baseline", str(baseline), *EXACT)
    assert found["what"].startswith("BROKEN: peak device memory")
    budget = found["budgets"][0]
    assert budget["value"] > 1.3 * budget["base"]
    assert where(found)[0] == SCRIPT.name


def test_a_recompile(run: Run, recorded: Path, baseline: Path) -> None:
    found = asked(run, recorded, "recompile", "--baseline", str(baseline), *EXACT)
    assert "recompilations, 0 in the baseline" in found["what"]
    assert where(found)[0] == SCRIPT.name


def test_a_slower_loader(run: Run, recorded: Path, baseline: Path) -> None:
    found = asked(
        run, recorded, "loader", "--baseline", str(baseline), "--stall-share", "input=+20%", "--run-sd", "10%"
    )
    assert found["budgets"][0]["value"] > 0.4
    assert "waiting for the next batch" in found["why"]
    file, line = where(found)
    assert file == SCRIPT.name
    assert line in (line_of("time.sleep"), line_of("def __getitem__"))
