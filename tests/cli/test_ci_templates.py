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
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


def filled(text: str, known: dict[str, str]) -> str:
    """The text with each ``${{ name }}`` in it replaced, as GitHub does before a step runs."""
    return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: known[match[1]], text)


FAKE_GH = """\
#!/bin/bash
# Stands for GitHub's gh: keeps what it is called with, and the comment.
printf '%s\\n' "$GH_TOKEN" "$@" > "$GH_CALL"
while [ $# -gt 0 ]; do
  if [ "$1" = --body-file ]; then cat "$2" > "$GH_CALL.body"; fi
  shift
done
cat > "$GH_CALL.stdin"
exit "$GH_EXIT"
"""


def wanted(condition: str, known: dict[str, str]) -> bool:
    """Whether a step's ``if`` holds: terms joined by ``&&``, each a name, or a name that is not the empty text."""
    for term in condition.split(" && "):
        name, _, empty = term.partition(" != ")
        assert empty in ("", "''"), condition
        if not known[name]:
            return False
    return True


def action(folder: Path, tmp_path: Path, *, pull_request: str = "", **inputs: str) -> tuple[dict[str, str], int, str]:
    """Runs the steps of the composite action as GitHub does; outputs, exit code, what they printed."""
    described: dict[str, Any] = yaml.safe_load((CI / "github" / "action.yml").read_text())
    values = {name: str(one.get("default", "")) for name, one in described["inputs"].items()} | inputs
    outputs: dict[str, str] = {}
    printed, code = "", 0
    for step in described["runs"]["steps"]:
        known = {f"inputs.{name}": value for name, value in values.items()}
        known |= {f"steps.gate.outputs.{name}": value for name, value in outputs.items()}
        known["github.event.pull_request.number"] = pull_request
        if "if" in step and not wanted(step["if"], known):
            continue
        environment = {name: filled(str(text), known) for name, text in step.get("env", {}).items()}
        files = {name: str(tmp_path / name) for name in ("GITHUB_OUTPUT", "GITHUB_STEP_SUMMARY")}
        done = shell(step["run"], folder, **environment, **files)
        printed, code = printed + done.stdout + done.stderr, done.returncode
        written_lines = Path(files["GITHUB_OUTPUT"]).read_text().splitlines() if code == 0 else []
        outputs |= dict(line.split("=", 1) for line in written_lines)
        if code:
            break
    return outputs, code, printed


@pytest.fixture
def gh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A ``gh`` on the path; where it keeps what it is called with."""
    program = tmp_path / "bin" / "gh"
    program.parent.mkdir()
    program.write_text(FAKE_GH)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("GH_CALL", str(tmp_path / "call"))
    monkeypatch.setenv("GH_EXIT", "0")
    return tmp_path / "call"


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


SLOW = {"runs": "slow/*", "baseline": "base", "options": "--step-time +5% --run-sd 1%"}


def test_the_report_becomes_a_comment_on_the_pull_request(project: Path, tmp_path: Path, gh: Path) -> None:
    _, code, printed = action(project, tmp_path, pull_request="17", token="t0ken", **SLOW)
    assert code == 1, printed
    report = project / "stallscope-reports" / "gate.md"
    assert gh.read_text().splitlines() == [
        "t0ken", "pr", "comment", "17", "--body-file", "stallscope-reports/gate.md", "--edit-last", "--create-if-none",
    ]  # fmt: skip
    assert (gh.parent / "call.body").read_text() == report.read_text()
    assert (gh.parent / "call.body").read_text().startswith("**❌ BROKEN**: step time 13.0 ms")
    assert (gh.parent / "call.stdin").read_text() == ""


@pytest.mark.parametrize(("pull_request", "token"), [("17", ""), ("", "t0ken")])
def test_there_is_no_comment_without_a_token_or_a_pull_request(
    pull_request: str, token: str, project: Path, tmp_path: Path, gh: Path
) -> None:
    _, code, _ = action(project, tmp_path, pull_request=pull_request, token=token, runs="same/*", baseline="base",
                        options="--recompiles +0")  # fmt: skip
    assert code == 0
    assert not gh.exists()


def test_a_comment_that_cannot_be_written_fails_nothing(
    project: Path, tmp_path: Path, gh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GH_EXIT", "1")
    _, code, printed = action(project, tmp_path, pull_request="17", token="t0ken", runs="same/*", baseline="base",
                              options="--recompiles +0")  # fmt: skip
    assert gh.exists()
    assert code == 0, printed
    assert "::warning title=stallscope gate::The report could not be put into a comment." in printed


def test_the_action_ends_at_a_call_that_cannot_be_right(project: Path, tmp_path: Path) -> None:
    _, code, printed = action(project, tmp_path, runs="nothing/*", baseline="base")
    assert code == 2
    assert "nothing matches" in printed


@pytest.mark.parametrize(
    ("runs", "options", "code"), [("slow/0", "", 3), ("same/*", "--run-sd 1%", 0), ("slow/*", "--run-sd 1%", 1)]
)
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
