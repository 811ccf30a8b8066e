"""Real runs on the simulated accelerator: each edit breaks the gate with a report that names its line; none passes."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

from stallscope.samples import simulated_accelerator
from tests.cli.conftest import Run
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def changes() -> ModuleType:
    """benchmarks/gate_changes.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(REPOSITORY / "benchmarks"))
        return importlib.import_module("gate_changes")


@pytest.fixture(scope="module")
def recorded(changes: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of the script as it is, and one with each edit, each in a folder of its own."""
    reason = simulated_accelerator.unavailable_reason()
    if reason:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("recorded")
    text = changes.SCRIPT.read_text(encoding="utf-8")
    for name in ("baseline", "same"):
        changes.write_version(folder / name, text)
        changes.record(folder / name, "run")
    for number, change in enumerate(changes.CHANGES):
        changes.write_version(folder / str(number), change.edited(text))
        changes.record(folder / str(number), "run")
    return folder


@pytest.fixture(scope="module")
def baseline(recorded: Path) -> Path:
    """The baseline in one file."""
    from click.testing import CliRunner

    from stallscope.cli.main import main

    file = recorded / "baseline.json"
    result = CliRunner().invoke(main, ["gate", str(recorded / "baseline" / "run"), "--write-baseline", str(file)])
    assert result.exit_code == 0, result.output
    return file


EXACT = ("--fallbacks", "baseline", "--recompiles", "+0", "--peak-memory", "+5%")


def test_the_same_code_passes(run: Run, recorded: Path, baseline: Path) -> None:
    text = run("gate", recorded / "same" / "run", "--baseline", baseline, *EXACT).stdout
    assert text.startswith("KEPT: 3 budgets of 3.")


@pytest.mark.parametrize("number", range(4))
def test_a_change(number: int, run: Run, changes: ModuleType, recorded: Path, baseline: Path) -> None:
    change = changes.CHANGES[number]
    options = EXACT
    if change.word == "step time":
        # The loader takes 100 ms longer, twice as long as a step: a busy machine does not hide that.
        options = ("--step-time", "+25ms", "--run-sd", "10%")
    result = run("gate", recorded / str(number) / "run", "--baseline", baseline, *options, exit_code=1)
    assert changes.wrong(change, result.exit_code, result.stdout.splitlines()) == ""


def test_thirty_percent_more_memory(run: Run, recorded: Path, baseline: Path) -> None:
    """The allocator's own totals are exact: they are the same at any load of the machine."""
    run("gate", recorded / "3" / "run", "--baseline", baseline, "--peak-memory", "+28%", exit_code=1)
    run("gate", recorded / "3" / "run", "--baseline", baseline, "--peak-memory", "+32%")
