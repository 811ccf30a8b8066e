"""``stallscope coverage`` from the command line, with processes that are written instead of run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stallscope.cli.main import main
from stallscope.profiler.session import coverage_process
from stallscope.profiler.session.coverage_task import CoverageTask
from tests.coverage.folders import (
    AGREES,
    BREAK,
    DIFFERS,
    RECOMPILE,
    blocks,
    completed,
    ending,
    exited,
    write_process,
)

MODELS = """
device = "cpu"
[[model]]
name = "steady"
factory = "some.module:make"
samples = 8
[[model]]
name = "a model with a name that is far too long for a column of a table"
factory = "some.module:other"
[[model]]
name = "hangs"
factory = "some.module:third"
[[model]]
name = "does not load"
factory = "some.module:fourth"
"""


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[CoverageTask]:
    """The tasks that the command asked for, each answered with files."""
    tasks: list[CoverageTask] = []

    def run_task(task: CoverageTask, folder: Path, **_: Any) -> None:
        tasks.append(task)
        report, ended = answer(task)
        write_process(folder, report, ended, kind=task.kind)

    monkeypatch.setattr(coverage_process, "run_task", run_task)
    return tasks


def answer(task: CoverageTask) -> tuple[dict[str, Any], dict[str, Any]]:
    if task.name == "hangs":
        return {"stage": "first step"}, ending("out_of_time", signal="SIGKILL")
    if task.name == "does not load":
        error = {"type": "ImportError", "message": "no \x1b[31mmodule", "frames": []}
        return {"stage": "factory", "outcome": "failed", "error": error}, exited(1)
    report = completed(
        first_step_ns=40_000_000,
        blocks=blocks(2_000_000, 2_100_000, 2_200_000),
        agreement=AGREES if task.name == "steady" else DIFFERS,
        peak_device_bytes=1 << 20,
    )
    if task.kind != "eager" and task.name != "steady":
        report |= {"graph_breaks": [BREAK], "recompiles": [RECOMPILE]}
    return report, exited()


def invoke(*arguments: Any, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(main, ["coverage", *map(str, arguments)])
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.output
    return result


@pytest.fixture
def models(tmp_path: Path) -> Path:
    file = tmp_path / "models.toml"
    file.write_text(MODELS)
    return file


def test_each_model_runs_in_its_own_processes(ran: list[CoverageTask], models: Path) -> None:
    invoke(models, "--compile-backend", "aot_eager", "--steps", "6")
    assert [(task.name[:7], task.kind) for task in ran] == [
        ("steady", "eager"), ("steady", "compiled"), ("steady", "warm"),
        ("a model", "eager"), ("a model", "compiled"), ("a model", "warm"),
        ("hangs", "eager"), ("hangs", "compiled"),
        ("does no", "eager"),
    ]  # fmt: skip
    assert {(task.device, task.backend, task.steps) for task in ran} == {("cpu", "aot_eager", 6)}


def test_the_page_has_a_row_for_each_and_fits(ran: list[CoverageTask], models: Path) -> None:
    out = invoke(models).stdout
    lines = out.splitlines()
    assert lines[0] == "On cpu: 2 of 4 models run, 2 compile (inductor), 1 of 2 differs from eager."
    assert max(len(line) for line in lines) <= 100
    assert "\x1b" not in out
    (steady,) = [line.split() for line in lines if line.startswith("steady") and "runs" in line]
    assert steady == ["steady", "runs", "runs", "-", "0", "0", "2.0e-06", "300", "MiB", "1.00", "MiB"]
    (speed,) = [line.split() for line in lines if line.startswith("steady") and "samples" in line]
    assert speed[-2:] == ["3,810", "samples"], "8 samples in the median block's 2.1 ms"
    assert "  hung in first step: no end after 3 s" in lines
    assert "  failed in factory: ImportError: no \\x1b[31mmodule" in lines
    assert any("Dynamic shape operator" in line and "model.py:28" in line for line in lines)


def test_markdown_is_one_table_with_a_row_a_model(ran: list[CoverageTask], models: Path) -> None:
    lines = invoke(models, "--markdown").stdout.splitlines()
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 4
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert "| hangs | HANGS | HANGS |" in "\n".join(table)


def test_json_is_what_is_written(ran: list[CoverageTask], models: Path, tmp_path: Path) -> None:
    out = tmp_path / "result.json"
    shown = json.loads(invoke(models, "--json", "-o", out).stdout)
    assert shown == json.loads(out.read_text())
    assert [row["name"][:7] for row in shown["rows"]] == ["steady", "a model", "hangs", "does no"]
    assert shown["rows"][0]["eager"]["samples_per_s"] == pytest.approx(8 / 0.0021)
    assert "exists" in invoke(models, "-o", out, exit_code=2).stderr
    assert len(ran) == 9, "nothing ran for a result that could not be written"


def test_a_comparison_fails_where_something_is_newly_broken(
    ran: list[CoverageTask], models: Path, tmp_path: Path
) -> None:
    base, new = tmp_path / "base.json", tmp_path / "new.json"
    invoke(models, "-o", base, "--no-compile")
    document = json.loads(base.read_text())
    document["rows"][0]["eager"] |= {"outcome": "crashed", "stage": "first step", "reason": "SIGSEGV"}
    new.write_text(json.dumps(document))
    out = invoke("--compare", base, new, exit_code=1).stdout
    assert out.splitlines()[0] == "1 newly broken, 0 newly supported, 0 other changes, 3 models as before."
    assert "crashed in first step: SIGSEGV" in out
    assert max(len(line) for line in out.splitlines()) <= 100
    assert "1 newly supported" in invoke("--compare", new, base).stdout
    assert "| steady | eager |" in invoke("--compare", base, new, "--markdown", exit_code=1).stdout
    assert json.loads(invoke("--compare", new, base, "--json").stdout)["newly_broken"] == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["absent.toml"], "does not exist"),
        (["models.toml", "x"], "follows the TOML file"),
        (["models.toml", "--only", "x"], "has no model 'x'"),
        (["--compare", "models.toml"], "takes two results"),
        (["models.toml", "--keep", "."], "not an empty folder"),
    ],
)
def test_calls_that_cannot_be_right(
    ran: list[CoverageTask], models: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(models.parent)
    assert said in invoke(*arguments, exit_code=2).stderr
    assert not ran
