"""``stallscope gate`` and ``stallscope history`` as a user and a CI job meet them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from stallscope.analysis.baselines import read_baseline
from stallscope.cli.main import main
from stallscope.cli.rendering.gate_words import file_here
from tests.builders import TraceBuilder
from tests.cli.conftest import Run
from tests.cli.recordings import MS, START, written

EVIL = "evil.py\r\n::error::x|<b>`*\x1b[31m"


def job(load_ms: float, number: int = 0, *, kib: int = 1024, file: str = "load.py", steps: int = 6) -> TraceBuilder:
    """Steps that wait ``load_ms`` for a batch that ``load`` in ``file`` reads, then compute 3 ms; the memory of one."""
    trace = TraceBuilder()
    main, gpu = trace.thread(process_id=100, thread_id=100), trace.stream()
    wait = round((load_ms + number / 100) * MS)
    length = wait + 4 * MS
    for step in range(steps):
        begin = START + step * length
        trace.slice(main, f"ProfilerStep#{step}", "annotation", begin, length)
        trace.step(step, begin, length)
        trace.slice(main, "torch/utils/data/dataloader.py(600): __next__", "python", begin + 100_000, wait - 100_000)
        trace.slice(main, f"{file}(12): load", "python", begin + 100_000, wait - 200_000)
        call = begin + wait + 200_000
        trace.launched(main, gpu, call=(call, 10_000), work=(call + 50_000, 3 * MS))
    op = trace.slice(main, "aten::cat", "op", START + 6 * length + 10, 1000)
    trace.row(
        "memory", event_id=1, ts=START + 6 * length + 20, device_type="cuda", device_index=0, address=1 << 20,
        bytes=kib << 10, total_allocated=kib << 10, total_reserved=kib << 10, slice_id=op, track_id=main,
    )  # fmt: skip
    return trace


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five runs of a baseline, five of the same code, five with a slower loader, and one that holds 30 % more."""
    folder = tmp_path_factory.mktemp("runs")
    for side, load_ms in (("base", 6), ("same", 6), ("slow", 8)):
        (folder / side).mkdir()
        for number in range(5):
            written(folder / side / f"run{number}", job(load_ms, number))
    written(folder / "large", job(6, kib=1332))
    written(folder / "killed", job(6), status="failed")
    written(folder / "evil", job(9, file=EVIL))
    made = CliRunner().invoke(main, ["gate", str(folder / "base"), "--write-baseline", str(folder / "base.json")])
    assert made.exit_code == 0, made.output
    return folder


def json_of(run: Run, *arguments: Any, exit_code: int = 0) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(run("gate", *arguments, "--json", exit_code=exit_code).stdout)
    return document


def test_no_change_passes(run: Run, runs: Path) -> None:
    text = run("gate", runs / "same", "--baseline", runs / "base").stdout
    assert text.splitlines()[0] == "KEPT: 4 budgets of 4."
    assert "From 5 runs against 5 runs of the baseline." in text


def test_a_slower_loader_breaks_it_and_the_first_three_lines_say_what_how_much_and_where(run: Run, runs: Path) -> None:
    result = run("gate", runs / "slow", "--baseline", runs / "base", exit_code=1)
    what, why, where = result.stdout.splitlines()[:3]
    assert what == "BROKEN: step time 12.0 ms, +20.0% on the baseline's 10.0 ms; at most 10.5 ms allowed."
    assert why == "Why: stall by input (waiting for the next batch): +2.00 ms in the mean step, 5.96 ms -> 7.96 ms"
    assert where == "Where: load.py:12 in load"
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_thirty_percent_more_memory_breaks_it_in_a_single_run(run: Run, runs: Path) -> None:
    options = ("--baseline", runs / "base.json", "--peak-memory", "+20%")
    found = json_of(run, runs / "large", *options, exit_code=1)
    assert (
        found["what"]
        == "BROKEN: peak device memory 1.30 MiB, +30.1% on the baseline's 1.00 MiB; at most 1.20 MiB allowed."
    )
    assert found["why"] == "Why: aten::cat holds 1.3 MiB of the peak, 1.0 MiB in the baseline"
    [budget] = found["budgets"]
    assert (budget["value"], budget["base"], budget["limit"]) == (1332 << 10, 1 << 20, round(1.2 * (1 << 20)))


def test_a_single_run_is_told_as_such(run: Run, runs: Path) -> None:
    two = (runs / "slow" / "run0", "--baseline", runs / "base" / "run0", "--step-time", "+5%")
    assert "This is a single run against another" in " ".join(run("gate", *two, exit_code=3).stdout.split())
    text = " ".join(run("gate", *two, "--run-sd", "1%", exit_code=1).stdout.split())
    assert "A single run was judged by the spread of the same code that was supplied (1.0% from run to run)." in text
    assert "Note: One run against one" in text
    run("gate", *two, "--on-unknown", "warn")


def test_a_run_that_did_not_complete_never_passes(run: Run, runs: Path) -> None:
    text = run("gate", runs / "killed", "--recompiles", 0, exit_code=1).stdout
    assert text.startswith("BROKEN: killed did not complete (failed): such a run never passes.")
    run("gate", runs / "killed", "--write-baseline", runs / "no.json", exit_code=2)


def test_a_baseline_file_judges_as_its_runs_do(run: Run, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    run("gate", runs / "base", "--write-baseline", file)
    assert file.stat().st_size < 30_000
    assert len(read_baseline(file).runs) == 5
    with_runs, with_file = (
        json_of(run, runs / "slow", "--baseline", base, exit_code=1) for base in (runs / "base", file)
    )
    assert with_runs == with_file
    assert "exists" in run("gate", runs / "base", "--write-baseline", file, exit_code=2).stderr
    run("gate", runs / "base", "--write-baseline", file, "--force")
    file.write_text(file.read_text().replace('"version": 1', '"version": 99', 1))
    assert "expected 1" in run("gate", runs / "same", "--baseline", file, exit_code=1).stderr


def test_a_history_is_a_baseline_and_shows_since_when(run: Run, runs: Path, tmp_path: Path) -> None:
    history = tmp_path / "history"
    run("history", "add", history, runs / "base")
    found = json_of(run, runs / "slow", "--baseline", history, exit_code=1)
    assert found["baseline"] == [f"run{number}" for number in range(5)]
    assert "in the history already" in run("history", "add", history, runs / "base" / "run0", exit_code=2).stderr
    run("history", "add", history, runs / "slow")
    shown = run("history", "show", history, "-n", 3)
    assert "10 runs on 1 x cuda" in shown.stdout
    assert "7 earlier runs not shown" in shown.stdout
    assert max(map(len, shown.stdout.splitlines())) <= 100
    document = json.loads(run("history", "show", history, "--measure", "peak_memory", "--json").stdout)
    assert [row["value"] for row in document["runs"]] == [1 << 20] * 10
    assert document["series"][0]["changes"] == []
    step = next(one for one in document["series"] if one["measure"] == "step_time")
    assert len(step["changes"]) == 1
    assert "needs a run" in run("history", "add", history, exit_code=2).stderr
    assert "takes a folder alone" in run("history", "show", history, history, exit_code=2).stderr
    assert "Did you mean step_time" in run("history", "show", history, "--measure", "steptime", exit_code=2).stderr


def test_a_file_of_budgets_is_found_and_options_stand_in_its_place(
    run: Run, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("stallscope.toml").write_text(
        '[budgets]\nstep_time = "+50%"\nrecompiles = 0\nstall_share = { input = "90%" }\n'
    )
    options = (runs / "slow" / "run0", "--baseline", runs / "base.json")
    names = [one["name"] for one in json_of(run, *options)["budgets"]]
    assert names == ["step_time", "recompiles", "stall_share.input"]
    assert json_of(run, *options, "--stall-share", "input=10%", exit_code=1)["budgets"][0]["limit"] == 0.1
    other = Path("other.toml")
    other.write_text("[budgets]\nrecompiles = 0\n")
    assert len(json_of(run, *options, "--budgets", other)["budgets"]) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ((), "these budgets take a baseline"),
        (("--step-time", "fast"), "cannot be its value"),
        (("--stall-share", "input"), "Write --stall-share input=5%"),
        (("--stall-share", "inptu=5%"), "Did you mean input?"),
        (("--baseline", "nowhere.json"), "--write-baseline nowhere.json"),
        (("--baseline", "nowhere"), "does not exist"),
        (("--run-sd", "wide", "--recompiles", "0"), "not a share"),
        (("--baseline", "x", "--write-baseline", "new.json"), "judges nothing"),
    ],
)
def test_a_call_that_cannot_be_right(options: tuple[str, ...], says: str, run: Run, runs: Path) -> None:
    assert says in run("gate", runs / "large", *options, exit_code=2).stderr


def test_reports_for_machines(run: Run, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "load.py").touch()
    monkeypatch.chdir(tmp_path / "src")
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    files = ("--markdown", tmp_path / "gate.md", "--junit", tmp_path / "gate.xml", "--github")
    result = run("gate", runs / "slow", "--baseline", runs / "base.json", *files, exit_code=1)
    [annotation] = [line for line in result.stdout.splitlines() if line.startswith("::")]
    assert annotation.startswith("::error file=load.py,line=12,title=stallscope gate%3A step_time::step time 12.0 ms")
    markdown = (tmp_path / "gate.md").read_text()
    assert summary.read_text() == "before\n" + markdown
    assert markdown.splitlines()[0].startswith("**❌ BROKEN**: step time 12.0 ms")
    assert markdown.splitlines()[2] == "Where: load.py:12 in load"
    suite = ElementTree.parse(tmp_path / "gate.xml").getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("5", "1", "0")
    [failed] = [case for case in suite if case.find("failure") is not None]
    assert (failed.get("name"), failed.get("file"), failed.get("line")) == ("step_time", "load.py", "12")


def test_names_from_a_trace_add_no_markup_and_no_command(
    run: Run, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = ("--markdown", tmp_path / "gate.md", "--junit", tmp_path / "gate.xml", "--github")
    options = ("--baseline", runs / "base.json", "--step-time", "+1%")
    result = run("gate", runs / "evil", *options, *files, exit_code=1)
    assert [line[:8] for line in result.stdout.splitlines() if line.startswith("::")] == ["::error "]
    markdown = (tmp_path / "gate.md").read_text()
    outside_code = re.sub(r"`[^`\n]*`", "", markdown)
    assert "evil.py" in outside_code
    assert not re.search(r"(?<!\\)<b>", outside_code)
    assert "\x1b" not in markdown
    ElementTree.parse(tmp_path / "gate.xml")


def test_a_file_of_another_machine_is_found_by_the_end_of_its_path(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "net.py").touch()
    assert file_here("/builds/7/model/net.py", tmp_path) == "model/net.py"
    assert file_here(str(tmp_path / "model" / "net.py"), tmp_path) == "model/net.py"
    assert file_here("C:\\jobs\\model\\net.py", tmp_path) == "model/net.py"
    assert file_here("/home/../../etc/other.py", tmp_path) == "/home/../../etc/other.py"


def test_markdown_on_stdout_stands_in_place_of_the_table(
    run: Run, runs: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    result = run("gate", runs / "slow", "--baseline", runs / "base", "--markdown", "-", exit_code=1)
    assert result.stdout.startswith("**❌ BROKEN**: step time 12.0 ms")
    assert "Budgets  " not in result.stdout
    assert not list(tmp_path.iterdir())
