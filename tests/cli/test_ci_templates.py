"""The CI templates: what their steps run is run here, on small recordings."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.cli.recordings import written
from tests.cli.test_gate import job
from tests.conftest import REPOSITORY

CI = REPOSITORY / "samples" / "ci"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs of each of: a baseline, the same code, a slower loader; and a file to blame."""
    folder = tmp_path_factory.mktemp("project")
    for side, load_ms in (("base", 6), ("same", 6), ("slow", 9)):
        for number in range(2):
            (folder / side).mkdir(exist_ok=True)
            written(folder / side / str(number), job(load_ms, number))
    (folder / "load.py").touch()
    return folder


def shell(script: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a script as a runner does: bash, ending at the first failure, ``stallscope`` on the path."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=folder, env=os.environ | variables | {"PATH": path}, capture_output=True, text=True,
    )  # fmt: skip


def filled(text: str, known: dict[str, str]) -> str:
    """The text with each ``${{ name }}`` in it replaced, as GitHub does before a step runs."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: known[match[1]], text)


def action(folder: Path, tmp_path: Path, **inputs: str) -> tuple[dict[str, str], int, str]:
    """Runs the steps of the composite action that run a script, but for the comment; outputs, exit code, stdout."""
    described: dict[str, Any] = yaml.safe_load((CI / "github" / "action.yml").read_text())
    values = {name: str(one.get("default", "")) for name, one in described["inputs"].items()} | inputs
    outputs: dict[str, str] = {}
    printed, code = "", 0
    for step in described["runs"]["steps"]:
        if step["name"] == "Comment":
            continue
        known = {f"inputs.{name}": value for name, value in values.items()}
        known |= {f"steps.gate.outputs.{name}": value for name, value in outputs.items()}
        environment = {name: filled(str(text), known) for name, text in step.get("env", {}).items()}
        files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = shell(step["run"], folder, **environment, **files)
        printed, code = printed + done.stdout + done.stderr, done.returncode
        written_lines = Path(files["GITHUB_OUTPUT"]).read_text().splitlines() if code == 0 else []
        outputs |= dict(line.split("=", 1) for line in written_lines)
        if code:
            break
    return outputs, code, printed


def test_no_expression_stands_in_a_script_where_a_name_could_become_code() -> None:
    described = yaml.safe_load((CI / "github" / "action.yml").read_text())
    assert all("${{" not in step["run"] for step in described["runs"]["steps"])


def test_the_action_passes_on_no_change_and_fails_on_a_slower_loader(project: Path, tmp_path: Path) -> None:
    common = {"baseline": "base", "options": "--step-time +5% --run-sd 1%"}
    outputs, code, printed = action(project, tmp_path, runs="same/*", **common)
    assert (outputs, code) == ({"verdict": "kept", "code": "0"}, 0), printed
    outputs, code, printed = action(project, tmp_path, runs="slow/*", **common)
    assert outputs["verdict"] == "broken"
    assert code == 1
    assert "::error file=load.py,line=12," in printed
    summary = (tmp_path / "GITHUB_STEP_SUMMARY").read_text()
    assert summary.count("BROKEN") == 1
    assert "KEPT" in summary
    assert "Where: load.py:12 in load" in (project / "stallscope-reports" / "gate.md").read_text()


def test_the_action_ends_at_a_call_that_cannot_be_right(project: Path, tmp_path: Path) -> None:
    _, code, printed = action(project, tmp_path, runs="nothing/*", baseline="base")
    assert code == 2
    assert "nothing matches" in printed


@pytest.mark.parametrize(("runs", "options", "code"), [("slow/0", "", 3)])
def test_the_gitlab_job(runs: str, options: str, code: int, project: Path) -> None:
    template = yaml.safe_load((CI / "gitlab" / "stallscope.yml").read_text())[".stallscope-gate"]
    chosen = {
        "STALLSCOPE_RUNS": runs,
        "STALLSCOPE_BASELINE": "base",
        "STALLSCOPE_OPTIONS": f"--step-time +5% {options}",
    }
    done = shell("\n".join(template["script"]), project, **template["variables"] | chosen)
    assert done.returncode == code, done.stdout + done.stderr
    reports = template["artifacts"]["reports"]["junit"].replace("$STALLSCOPE_REPORTS", "stallscope-reports")
    assert ElementTree.parse(project / reports).getroot().get("name") == "stallscope gate"
    assert template["allow_failure"]["exit_codes"] == 3
