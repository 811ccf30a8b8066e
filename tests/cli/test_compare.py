"""``stallscope compare`` as a user meets it: sides, tables, files, errors."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from stallscope.analysis.run_measures import as_json, run_measures
from stallscope.cli.runs import run_paths
from stallscope.profiler.recording.errors import UsageError
from stallscope.profiler.recording.reader import open_recording
from tests.builders import TraceBuilder
from tests.cli.conftest import Run
from tests.cli.recordings import MS, START, training, written

EVIL = '<script>alert("x")</script>|`*\x1b[31m'


def waiting(load_ms: int, *, name: str = "aten::mm", steps: int = 6) -> TraceBuilder:
    """Steps in which an op of that name runs 3 ms on the device, which then waits ``load_ms`` for the next batch."""
    trace = TraceBuilder()
    main, gpu = trace.thread(process_id=100, thread_id=100), trace.stream()
    length = (load_ms + 4) * MS
    for number in range(steps):
        begin = START + number * length
        trace.slice(main, f"ProfilerStep#{number}", "annotation", begin, length)
        trace.step(number, begin, length)
        trace.slice(main, "torch/utils/data/dataloader.py(600): __next__", "python", begin + 100_000, load_ms * MS)
        call = begin + load_ms * MS + 200_000
        trace.slice(main, name, "op", call - 10_000, 30_000)
        trace.launched(main, gpu, call=(call, 10_000), work=(call + 50_000, 3 * MS), name=name)
    return trace


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two folders of five recordings each: ``before``, and ``after`` with 2 ms more to wait in a step."""
    folder = tmp_path_factory.mktemp("runs")
    for side, load_ms in (("before", 6), ("after", 8)):
        (folder / side).mkdir()
        for number in range(5):
            written(folder / side / f"run{number}", waiting(load_ms))
    return folder


def test_two_runs_are_a_difference_with_its_reasons_and_no_verdict(run: Run, runs: Path) -> None:
    result = run("compare", runs / "before/run0", runs / "after/run0")
    text = " ".join(result.stdout.split())
    assert "These two runs differ by +20.0% in the median step: 10.0 ms -> 12.0 ms. No verdict" in text
    # Every step waits 2 ms longer; the last one, which ends with its last operation, does not count.
    assert "+2.00 ms stall by input (waiting for the next batch)" in text
    assert "Compared over the steady steps 0-4; left out: 5 (the recording ends before" in text
    assert max(map(len, result.stdout.splitlines())) <= 100


def test_folders_of_runs_have_a_verdict(run: Run, runs: Path) -> None:
    found = json.loads(run("compare", runs / "before", runs / "after", "--json").stdout)
    assert found["verdict"] == "slower"
    assert (len(found["base_runs"]), len(found["new_runs"])) == (5, 5)
    assert found["headline"].startswith("Slower: +20.0% in the median step")
    assert sum(part["difference_ns"] for part in found["parts"]) == found["mean"]["difference"]
    assert found["median"]["comparison"]["ratio"] == pytest.approx(1.2)


def test_only_steps_that_both_have_are_compared(run: Run, runs: Path, tmp_path: Path) -> None:
    longer = written(tmp_path / "longer", waiting(8, steps=9))
    found = json.loads(run("compare", runs / "before/run0", longer, "--json").stdout)
    assert [side[0]["steps"] for side in (found["base_runs"], found["new_runs"])] == [5, 5]
    assert found["mean"]["difference"] == 2 * MS
    notes = " ".join(found["notes"])
    assert "Compared over the steady steps 0-4; left out: 6-8 (not in every run), 5 (the recording ends" in notes


def test_a_baseline_file_is_a_side_of_several_runs(run: Run, runs: Path, tmp_path: Path) -> None:
    file = tmp_path / "base.json"
    run("gate", runs / "before", "--write-baseline", file)
    found = json.loads(run("compare", file, runs / "after/run0", "--json").stdout)
    assert len(found["base_runs"]) == 5
    assert (found["verdict"], found["median"]["comparison"]["sd_source"]) == ("slower", "one side")
    assert found["parts"][0]["difference_ns"] == 2 * MS
    assert found["kernels"] == []
    assert any("kept without its kernels" in note for note in found["notes"])
    assert "taking all runs to differ as those of the base side do" in found["headline"]
    message = run("compare", file, runs / "after/run0", "--rank", "0", exit_code=2).output
    assert "is a baseline: the ranks of its runs are summed already" in message


def test_patterns_and_folders_name_the_same_runs(runs: Path) -> None:
    by_name = [runs / f"before/run{number}" for number in range(5)]
    assert run_paths([str(runs / "before")]) == run_paths([f"{runs}/before/*"]) == by_name
    assert run_paths([str(path) for path in by_name]) == by_name


def test_every_path_that_is_not_base_is_a_new_run(run: Run, runs: Path) -> None:
    bases = ("--base", runs / "before/run0", "--base", runs / "before/run1")
    found = json.loads(run("compare", *bases, f"{runs}/after/run[01]", runs / "after/run2", "--json").stdout)
    assert [one["name"] for one in found["base_runs"]] == ["run0", "run1"]
    assert [one["name"] for one in found["new_runs"]] == ["run0", "run1", "run2"]


def test_a_known_spread_gives_single_runs_a_verdict(run: Run, runs: Path) -> None:
    sides = runs / "before/run0", runs / "after/run0"
    assert json.loads(run("compare", *sides, "--run-sd", "1%", "--json").stdout)["verdict"] == "slower"
    wide = json.loads(run("compare", *sides, "--run-sd", "1%", "--margin", "30%", "--json").stdout)
    assert wide["verdict"] == "no difference beyond the margin"


def test_the_summary_of_a_run_compares_like_the_run(run: Run, runs: Path, tmp_path: Path) -> None:
    summary = tmp_path / "run0.json"
    recording = open_recording(runs / "before/run0")
    summary.write_text(as_json(run_measures(recording, name="run0")))
    whole = json.loads(run("compare", runs / "before/run0", runs / "after/run0", "--json").stdout)
    assert json.loads(run("compare", summary, runs / "after/run0", "--json").stdout) == whole


def test_help_has_examples_of_several_runs_a_side(run: Run) -> None:
    text = run("compare", "--help").stdout
    assert "--base A1 --base A2 B1 B2" in text
    assert "The run is the unit" in " ".join(text.split())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("before/run0",), "only"),
        (("before/run0", "after/run0", "after/run1"), "which are the base side is not said"),
        (("before/run0", "nothing"), "does not exist"),
        (("--base", "before/*", "none*"), "nothing matches"),
        (("--base", "before/run0", "--base", "before/run0", "after/run0"), "named twice"),
        (("--base", "before", "before/run0"), "on both sides"),
        (("before/run0", "after/run0", "--margin", "two"), "not a percentage"),
        (("before/run0", "after/run0", "--rank", "3"), "no rank 3"),
    ],
)
def test_a_call_that_cannot_be_right_says_why(
    run: Run, runs: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], message: str
) -> None:
    monkeypatch.chdir(runs)
    assert message in " ".join(run("compare", *arguments, exit_code=2).output.split())


def test_a_folder_of_traces_is_one_run_and_a_folder_of_recordings_several(runs: Path, tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"rank{rank}.json").write_text("{}")
    assert run_paths([str(tmp_path)]) == [tmp_path]
    with pytest.raises(UsageError, match="named twice"):
        run_paths([str(runs / "before"), str(runs / "before/run3")])


class Page(HTMLParser):
    """Collects the tags of a page and whether each that opens is closed."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID and not (self.get_starttag_text() or "").endswith("/>"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag


def test_the_page_is_whole_fetches_nothing_and_escapes_names(run: Run, tmp_path: Path) -> None:
    sides = [written(tmp_path / f"{n}<b>", waiting(6 + n, name=f"{EVIL}{n}")) for n in range(2)]
    file = tmp_path / "page.html"
    run("compare", *sides, "--html", file)
    text = file.read_text()
    page = Page()
    page.feed(text)
    assert not page.open
    assert page.tags.count("svg") == 3
    assert not {"script", "link", "img", "iframe", "a", "b"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name.startswith("on")]
    assert "url(" not in text
    assert "http" not in text.replace('http-equiv="Content-Security-Policy"', "")
    assert "&lt;script&gt;alert(&quot;x&quot;)&lt;/script&gt;" in text
    assert "\x1b" not in text


def test_markdown_has_the_verdict_first_and_no_name_breaks_out_of_its_cell(run: Run, tmp_path: Path) -> None:
    sides = [written(tmp_path / f"run{n}", waiting(6 + n, name=f"{EVIL}{n}")) for n in range(2)]
    file = tmp_path / "page.md"
    run("compare", *sides, "--markdown", file)
    lines = file.read_text().splitlines()
    assert lines[2].startswith("**These two runs differ by")
    assert "<script" not in file.read_text()
    columns = 0
    for line in lines:
        cells = len(re.findall(r"(?<!\\)\|", line))
        columns = 0 if not line.startswith("|") else columns or cells
        assert not line.startswith("|") or cells == columns
    on_stdout = run("compare", *sides, "--markdown", "-").stdout
    assert on_stdout == file.read_text()


def test_names_cannot_steer_the_terminal(run: Run, tmp_path: Path) -> None:
    sides = [written(tmp_path / f"run{n}", waiting(6 + n, name=f"\x1b[31mred{n}")) for n in range(2)]
    assert "\\x1b[31m" in run("compare", *sides).stdout


def test_ranks_are_compared_one_by_one(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    other = written(tmp_path / "other", training(0), training(1, late_ns=300_000))
    found = json.loads(run("compare", two_ranks, other, "--json").stdout)
    assert [row["rank"] for row in found["ranks"]] == [0, 1]
    assert found["ranks"][0]["difference_ns"] == 0
    assert "Ranks" in run("compare", two_ranks, other).stdout


def test_real_loaders_are_told_apart(run: Run, traces: Path) -> None:
    folder = traces / "kineto"
    sides = folder / "v100_resnet50_workers0.json.gz", folder / "v100_resnet50_workers4.json.gz"
    found = json.loads(run("compare", *sides, "--json").stdout)
    first = found["parts"][0]
    assert (first["state"], first["cause"]) == ("stall", "input")
    assert first["difference_ns"] < -55 * MS
    assert sum(part["difference_ns"] for part in found["parts"]) == found["mean"]["difference"] < 0
    assert found["places"][0]["file"].endswith("resnet50_profiler_api.py")
    assert {(one["side"], one["step"]) for one in found["outliers"]} == {("new", 9)}


def test_another_device_is_flagged_first(run: Run, traces: Path) -> None:
    folder = traces / "kineto"
    sides = folder / "h100_qwen_0.5b.json.gz", folder / "mi300x_qwen_0.5b.json.gz"
    found = json.loads(run("compare", *sides, "--json").stdout)
    assert found["environment"][0]["name"] == "device"
    assert found["environment"][0]["unlike"]
    ops = {row["name"]: row for row in found["ops"]}
    assert ops["aten::mm"]["base_count"] == ops["aten::mm"]["new_count"] == 96
    lines = run("compare", *sides).stdout.splitlines()
    assert max(map(len, lines)) <= 100
    assert any(line.startswith("! Apples and pears") for line in lines[:12])
