"""Recordings that come into a folder that is served, and those that are removed from it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.writer import RecordingWriter
from stallscope.ui import open_recordings
from stallscope.ui.app import create_app
from stallscope.ui.open_recordings import OpenRecordings
from stallscope.ui.recording_folders import RecordingFolders, inside
from stallscope.ui.views import recordings as recording_list
from tests.builders import TraceBuilder
from tests.ui.recordings import HOSTILE, MS, START, training

LOCAL = "http://127.0.0.1:8050"


def run_of(path: Path, steps: int, label: str | None = None) -> Path:
    """A run that has ended, with a run id of its own."""
    rank = RecordingWriter.create(path, label=label, force=True).rank(0)
    trace = TraceBuilder()
    thread = trace.thread("main")
    for number in range(steps):
        trace.step(number, START + number * 10 * MS, 10 * MS)
        trace.slice(thread, f"work {HOSTILE}", "python", START + number * 10 * MS, 9 * MS)
    memory = trace.recording()
    for name in ("tracks", "slices", "steps"):
        rows = memory.table(name).to_pylist()
        rank.append(name, {key: [row[key] for row in rows] for key in rows[0]})
    rank.close()
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one run of two steps, ``a``."""
    monkeypatch.setattr(open_recordings, "_ASK_AGAIN_NS", 0)
    run_of(tmp_path / "runs" / "a", 2)
    return tmp_path / "runs"


def opened(folder: Path) -> tuple[list[tuple[Recording, str]], RecordingFolders]:
    first = [(open_recording(path), path.name) for path in inside(folder)]
    return first, RecordingFolders([folder], [recording for recording, _ in first])


def labels(shown: OpenRecordings) -> list[str]:
    return [row["label"] for row in recording_list._rows(shown)]


def names(found: Sequence[tuple[Recording, str]]) -> list[str]:
    return [label for _, label in found]


def test_a_newcomer_is_found_once_with_its_label(folder: Path) -> None:
    _, folders = opened(folder)
    assert folders.newcomers() == []
    run_of(folder / "deep" / "b", 3, label=HOSTILE)
    (folder / "notes").mkdir()
    assert names(folders.newcomers()) == [f"{HOSTILE} (b)"]
    assert folders.newcomers() == []
    shutil.rmtree(folder)
    assert folders.newcomers() == []


def test_what_cannot_be_opened_waits_for_more_files(folder: Path) -> None:
    _, folders = opened(folder)
    whole = run_of(folder.parent / "whole", 2)
    shutil.copytree(whole, folder / "b")
    (folder / "b" / "recording.json").write_text("{")
    assert folders.newcomers() == []
    (folder / "b" / "recording.json").write_bytes((whole / "recording.json").read_bytes())
    run_of(folder / "b", 3)
    assert names(folders.newcomers()) == ["b"]


def test_the_list_follows_the_folder(folder: Path) -> None:
    first, folders = opened(folder)
    shown = OpenRecordings(first, folders.newcomers)
    run_of(folder / "b", 3)
    assert labels(shown) == ["a"]
    shown.look()
    assert labels(shown) == ["a", "b"]
    shutil.rmtree(folder / "a")
    assert (labels(shown), len(shown), len(list(shown))) == (["b"], 1, 1)
    assert shown.shown(None).label == "b"
    assert not shown.sources[0].gone
    run_of(folder / "b", 5)
    shown.look()
    assert labels(shown) == ["b"]
    assert [row["steps"] for row in recording_list._rows(shown)] == [5]
    shutil.rmtree(folder)
    shown.look()
    assert labels(shown) == []


def page(client: FlaskClient, search: str) -> str:
    """What the page of an address holds, as JSON."""
    outputs = [{"id": "bar", "property": "children"}, {"id": "page", "property": "children"}]
    asked: dict[str, Any] = {
        "output": "..bar.children...page.children...shown.data..",
        "outputs": [*outputs, {"id": "shown", "property": "data"}],
        "inputs": [{"id": "url", "property": "search", "value": search}],
        "changedPropIds": ["url.search"],
    }
    answer = client.post("/_dash-update-component", json=asked, base_url=LOCAL)
    assert answer.status_code == 200
    return answer.text


def test_pages_of_a_recording_that_was_removed(folder: Path) -> None:
    first, folders = opened(folder)
    client: Any = create_app(first, newcomers=folders.newcomers).server.test_client()
    key = first[0][0].fingerprint[:16]
    assert "1 recording" in page(client, "")  # the way to the list, as more may come
    training(folder / "b", 1)
    shutil.rmtree(folder / "a")
    for view in ("overview", "timeline", "compare", "sql"):
        assert "The recording is gone" in page(client, f"?view={view}&recording={key}")
    assert "The recording is gone" not in page(client, "?view=compare")
    assert "recording-grid" in page(client, "?view=recordings")
    shutil.rmtree(folder)
    assert "0 recordings" in page(client, "")
