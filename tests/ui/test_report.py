"""The report: one file that loads nothing, whose every name is text, with the figures that the analysis gives."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stallscope.analysis.memory import memory_peaks
from stallscope.analysis.step_breakdown import step_breakdown
from stallscope.analysis.typical_step import typical_step
from stallscope.cli.main import main
from stallscope.profiler.recording.errors import UsageError
from stallscope.profiler.recording.reader import Recording
from stallscope.ui.report.markup import element, joined
from stallscope.ui.report.page import report
from stallscope.ui.wording import duration, size
from tests.builders import TraceBuilder
from tests.ui.recordings import HOSTILE, MS, rank_of_training, training

CODE = f"import torch\nsecret_word = 'of the user' {HOSTILE}\n"
TAGS = {
    "html", "head", "meta", "title", "style", "body", "h1", "h2", "h3", "p", "b", "section", "ol", "li", "div", "span",
    "code", "table", "thead", "tbody", "tr", "th", "td", "svg", "rect", "text", "line", "path", "dl", "dt", "dd",
}  # fmt: skip
ATTRIBUTES = {
    "class", "style", "lang", "charset", "name", "content", "http-equiv", "x", "y", "x1", "x2", "y1", "y2", "d",
    "width", "height", "fill", "fill-opacity", "viewbox", "role", "xmlns", "text-anchor",
}  # fmt: skip


class Document(HTMLParser):
    """What a report is made of; fails where tags do not close as they opened."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text.append(data)


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return training(tmp_path / "recording", memory=True)


def test_it_loads_nothing_and_every_name_is_text(recording: Recording) -> None:
    text = report(recording, f"label {HOSTILE}")
    document = Document(text)
    assert set(document.tags) <= TAGS
    assert {name for name, _ in document.attributes} <= ATTRIBUTES
    assert "default-src &#x27;none&#x27;; style-src" in text
    assert not re.search(r"url\(|@import|expression\(", text)
    words = "".join(document.text)
    assert words.count(f"label {HOSTILE}") >= 2
    assert f"aten::mm{HOSTILE}" in words  # who holds the memory
    assert f"gemm {HOSTILE}" in words  # a title in the picture
    assert f"paused {HOSTILE}" in words  # what is missing


def test_it_needs_none_of_the_extra_packages() -> None:
    code = "import sys, stallscope.ui.report.page; sys.exit(bool({'dash', 'plotly', 'flask'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_its_figures_are_those_of_the_analysis(recording: Recording) -> None:
    words = " ".join(Document(report(recording, "small", rank=1)).text)
    breakdown = step_breakdown(recording)
    for row in breakdown[breakdown["rank"] == 1].to_dict("records"):
        assert duration(row["dur"]) in words
    [device] = memory_peaks(recording, rank=1)
    assert f"cuda:1: {size(device.peak_allocated_bytes)} at its peak" in words
    found = typical_step(recording, 1)
    assert found is not None
    assert f"A typical step of rank 1: step {found.step}, {duration(found.dur)}" in words


def test_source_text_is_only_in_it_when_asked_for(tmp_path: Path) -> None:
    trace = rank_of_training(0)
    trace.row("sources", path="/home/me/train.py", sha256="0" * 64, text="\n" * 19 + CODE)
    recording = trace.write(tmp_path / "recording")
    assert "secret_word" not in report(recording, "small")
    text = report(recording, "small", with_source=True)
    assert "secret_word" in text
    assert set(Document(text).tags) <= TAGS


def test_nothing_but_slices_is_needed(tmp_path: Path) -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread(), "lonely", "op", 0, 1000)
    words = " ".join(Document(report(trace.write(tmp_path / "recording"), "small")).text)
    assert "The recording marks no steps" in words
    assert "No allocation is recorded" in words


def test_a_recording_without_slices_or_without_the_rank_is_told(tmp_path: Path, recording: Recording) -> None:
    trace = TraceBuilder()
    trace.thread()
    with pytest.raises(UsageError, match="holds no slice"):
        report(trace.write(tmp_path / "empty"), "small")
    with pytest.raises(UsageError, match="no rank 7"):
        report(recording, "small", rank=7)


@pytest.mark.parametrize(
    ("text", "shown"), [("a\x00\x1b[2Jb", "a\ufffd\ufffd[2Jb"), ("\ud800", "\ufffd"), ("a\nb", "a\nb")]
)
def test_characters_that_html_may_not_hold(text: str, shown: str) -> None:
    assert element("p", text) == f"<p>{shown}</p>"


def test_elements_escape_whatever_is_not_made_here() -> None:
    made: Any = element("p", "<b>", 1, None, [element("b", "&")], title='"><script>', data_x="'")
    assert made == '<p title="&quot;&gt;&lt;script&gt;" data-x="&#x27;">&lt;b&gt;1<b>&amp;</b></p>'
    assert joined("<", made).startswith("&lt;<p")
    for tag in ("script src=x", "p>", ""):
        with pytest.raises(ValueError, match="is no element"):
            element(tag)


def test_typical_step_is_the_median_of_the_steady_ones(tmp_path: Path) -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    ts = 0
    for number, dur in enumerate((90, 10, 30, 20, 12)):
        trace.step(number, ts, dur * MS, phase="warm_up" if number == 0 else "execution")
        trace.launched(main, gpu, call=(ts, 1000), work=(ts + 1000, dur * MS - 1000))
        ts += dur * MS
    found = typical_step(trace.write(tmp_path / "recording"), 0)
    assert found is not None
    assert (found.step, found.steady, found.start, found.end) == (4, 4, 150 * MS, 162 * MS)


def test_the_command_writes_one_file_and_no_other(tmp_path: Path, recording: Recording) -> None:
    output = tmp_path / "out" / "report.html"
    output.parent.mkdir()
    runner = CliRunner()
    arguments = ["report", str(recording.path), "-o", str(output)]
    result = runner.invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert [path.name for path in output.parent.iterdir()] == ["report.html"]
    text = output.read_text(encoding="utf-8")
    assert str(tmp_path) not in text
    assert runner.invoke(main, arguments).exit_code == 2
    assert runner.invoke(main, [*arguments, "--force", "--rank", "9"]).exit_code == 2
    assert output.read_text(encoding="utf-8") == text
