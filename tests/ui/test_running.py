"""A recording that is still written: what is shown holds still, what is new is offered, and how it ended is said."""

from __future__ import annotations

import shutil
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.schema import TABLES
from stallscope.profiler.recording.writer import RankWriter, RecordingWriter
from stallscope.ui import open_recordings
from stallscope.ui.addresses import parsed
from stallscope.ui.open_recordings import KEPT_STATES, OpenRecordings, Source
from stallscope.ui.served import Served
from stallscope.ui.snapshot import snapshot, written_so_far
from stallscope.ui.views import recordings as recording_list
from stallscope.ui.views.run_state import address_in, words_of
from tests.builders import TraceBuilder
from tests.ui.browser import READY, Site, needs_chromium
from tests.ui.recordings import HOSTILE, MS, START, rank_of_training, training


class Run:
    """A training that is recorded by this process, five milliseconds of it at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rank: RankWriter = RecordingWriter.create(path, label="run").rank(0)
        self.begin = START
        self.steps = 0
        self._append(rank_of_training(0))
        self.steps = 4

    def go_on(self, steps: int) -> None:
        """Some more steps, whose files are there when this returns."""
        trace = TraceBuilder()
        thread = trace.thread("more")
        for number in range(self.steps, self.steps + steps):
            trace.step(number, START + number * 10 * MS, 10 * MS)
            trace.slice(thread, f"step {number} {HOSTILE}", "python", START + number * 10 * MS, 9 * MS)
        self.steps += steps
        self._append(trace)

    def _append(self, trace: TraceBuilder) -> None:
        # Ids of a builder begin anew: of a second one they are moved behind the first one's.
        memory = trace.recording()
        moved = self.steps * 10_000
        for name in TABLES:
            rows = memory.table(name).to_pylist()
            for row in rows:
                for column in ("slice_id", "track_id", "parent_id", "from_slice_id", "to_slice_id"):
                    if row.get(column) is not None:
                        row[column] += moved
            if rows:
                self.rank.append(name, {key: [row[key] for row in rows] for key in rows[0]})
        self.rank.flush()


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    monkeypatch.setattr(open_recordings, "_ASK_AGAIN_NS", 0)
    found = Run(tmp_path / "run")
    yield found
    found.rank.close()


def opened(run: Run) -> tuple[OpenRecordings, Source]:
    shown = OpenRecordings([(open_recording(run.path), HOSTILE)])
    return shown, shown.sources[0]


def test_a_snapshot_holds_still_through_parts_and_their_merging(run: Run) -> None:
    before = {name: open_recording(run.path).table(name) for name in TABLES}
    key = open_recording(run.path).fingerprint
    still = snapshot(run.path)
    run.go_on(3)
    run.rank.close()
    assert {name: still.table(name) for name in TABLES} == before
    assert still.fingerprint == Recording(still.path).fingerprint == key
    assert still.rank_info(0)["status"] == "completed"  # the status is the live one
    assert open_recording(run.path).table("steps").num_rows == 7
    folder = still.path
    assert folder.is_dir()
    del still
    assert not folder.exists()


def test_what_was_written_is_told_from_names(run: Run) -> None:
    first = written_so_far(run.path)
    run.rank.update(note="a heartbeat adds no row")
    assert written_so_far(run.path) == first
    run.go_on(1)
    assert written_so_far(run.path) != first


def test_news_until_the_end(run: Run) -> None:
    shown, source = opened(run)
    first = source.latest
    news = source.news()
    assert news is not None
    assert (news.running, news.grew, news.facts.steps) == (True, False, 4)
    assert words_of(news, 4) == (f"Running · heartbeat {_age(news.heartbeat_ns)} s ago · 4 steps, all shown", "")
    run.go_on(2)
    news = source.news()
    assert news is not None
    assert (news.grew, news.facts.steps) == (True, 6)
    assert words_of(news, 4)[1] == "Show 2 new steps"
    assert first.recording.table("steps").num_rows == 4
    second = source.advance()
    assert second is source.advance() is source.latest is shown.shown(None) is shown[second.key]
    assert shown.shown(first.key) is first
    assert second.family == first.family == source.name
    assert second.recording.table("steps").num_rows == 6
    run.rank.close("failed")
    news = source.news()
    assert news is not None
    assert (news.running, news.grew, news.statuses) == (False, True, {"failed": 1})
    words, button = words_of(news, 6)
    assert words.startswith("Failed")
    assert button == "Show everything"
    last = source.advance()
    assert source.news() is None
    assert last.recording.path == run.path
    assert [one["name"] for one in recording_list._rows(shown)] == [source.name]


def _age(beat: int | None) -> int:
    assert beat is not None
    return (time.time_ns() - beat) // 1_000_000_000


def test_a_state_that_is_no_longer_open_leads_to_the_latest(run: Run) -> None:
    shown, source = opened(run)
    keys = [source.latest.key]
    for _ in range(KEPT_STATES):
        run.go_on(1)
        keys.append(source.advance().key)
    assert len(set(keys)) == KEPT_STATES + 1
    assert keys[0] not in shown
    assert shown.shown(keys[0]) is source.latest
    assert shown.source(keys[0]) is source
    with pytest.raises(KeyError):
        shown[keys[0]]


def test_times_in_an_address_move_with_the_first_event(run: Run) -> None:
    _, source = opened(run)
    before = source.latest
    query = {
        "view": "timeline",
        "recording": before.key,
        "start": "5000000",
        "end": "7000000",
        "slice": "7",
        "rank": "0",
    }
    early = {"track_id": [0], "slice_id": [99], "kind": ["complete"], "ts": [START - 3 * MS], "dur": [MS]}
    run.rank.append("slices", early | {"lane": [0], "depth": [0], "name": ["early"], "category": ["op"]})
    run.rank.flush()
    newer = source.advance()
    assert newer.origin == START - 3 * MS
    moved = parsed(address_in(newer, before, query))
    assert moved == query | {"recording": newer.key, "start": "8000000", "end": "10000000"}
    stall = int(before.bands.index.slice_id.max())
    kept = parsed(address_in(newer, before, {"view": "timeline", "recording": before.key, "stall": str(stall)}))
    assert kept.get("stall") in (None, str(stall))
    assert parsed(address_in(newer, before, query | {"recording": "0"})).keys() == {
        "view",
        "recording",
        "slice",
        "rank",
    }


def test_an_address_without_a_state_gets_the_newest(run: Run) -> None:
    from stallscope.ui.app import create_app

    server = create_app([(open_recording(run.path), "run")]).server
    client: Any = server.test_client()
    local = "http://127.0.0.1:8050"
    first = parsed(client.get("/?view=timeline&slice=5", base_url=local).headers["Location"].removeprefix("/"))
    run.go_on(1)
    second = parsed(client.get("/", base_url=local).headers["Location"].removeprefix("/"))
    assert first.keys() == {"view", "slice", "recording"}
    assert second["recording"] != first["recording"]
    assert client.get(f"/?recording={first['recording']}", base_url=local).status_code == 200
    assert client.get(f"/data/{first['recording']}/meta", base_url=local).json["span"] == 40 * MS
    assert client.get(f"/data/{second['recording']}/meta", base_url=local).json["span"] == 50 * MS
    assert client.get("/", base_url="http://evil.example:8050").status_code == 403


def test_a_recording_that_nobody_wrote_to_yet(tmp_path: Path) -> None:
    RecordingWriter.create(tmp_path / "run").rank(0).close()
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "recording.json").write_bytes((tmp_path / "run" / "recording.json").read_bytes())
    shown = OpenRecordings([(open_recording(tmp_path / "empty"), "run")])
    news = shown.sources[0].news()
    assert news is not None
    assert news.running
    assert words_of(news, 0) == ("No rank has written anything yet.", "")
    shutil.copytree(tmp_path / "empty", tmp_path / "another")
    two = OpenRecordings([(open_recording(tmp_path / name), name) for name in ("empty", "another")])
    assert len(two) == len({one.key for one in two.values()}) == 2
    shutil.rmtree(tmp_path / "empty")
    gone = two.sources[0].news()
    assert gone is not None
    assert words_of(gone, 0) == ("Gone: its folder was removed, emptied or recorded into anew.", "")


@pytest.fixture
def watched(run: Run, browser: Any) -> Iterator[Site]:
    """A page at a server that shows the run, and a recording that has ended."""
    import waitress

    from stallscope.ui.app import create_app

    ended = training(run.path.parent / "ended", 2)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        app = create_app([(open_recording(run.path), "run"), (ended, "ended")], port=port)
        server = waitress.create_server(app.server, sockets=[listener], threads=4)
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        page = browser.new_page(viewport={"width": 1280, "height": 720})
        site = Site(page, f"http://127.0.0.1:{port}", Served(ended, "ended"))
        page.on("console", lambda said: site.problems.append(said.text) if said.type in ("error", "warning") else None)
        yield site
        page.close()
        server.close()
        thread.join(timeout=10)


@needs_chromium
def test_new_steps_are_offered_and_the_view_stays(watched: Site, run: Run) -> None:
    page = watched.page
    status = "#recording-grid .ag-row:has-text('run') [col-id=status]"
    watched.open("", "#recording-grid .ag-row")
    assert page.locator(status).inner_text().startswith("running, ")
    page.locator("#recording-grid .ag-row", has_text="run").first.click()
    page.wait_for_selector("#run-state:not([hidden])")
    page.locator(".views a[href*='view=timeline']").click()
    page.wait_for_selector(READY["timeline"])
    timeline = "document.querySelector('.timeline').timeline"
    page.evaluate(f"{timeline}.setView(5e6, 25e6)")
    page.evaluate(f"{timeline}.clickRail({{ y: {timeline}.state.visible.at(-1).screen + 1 }}, {{ shiftKey: true }})")
    pinned = page.evaluate(f"{timeline}.state.rows.pinned")
    assert len(pinned) == 1
    page.evaluate(f"{timeline}.setArea({{ start: 5e6, end: 15e6, top: 0, bottom: 1e4 }})")
    page.evaluate(f"{timeline}.areaDone()")
    page.wait_for_selector("#area h2:has-text('Area: 10')")
    watched.wait("new URLSearchParams(location.search).get('start') === '5000000'")
    before, marked = watched.query(), page.evaluate(f"{timeline}.state.area.keys")
    run.go_on(3)
    page.wait_for_selector("#show-newer:has-text('Show 3 new steps')")
    assert "4 of 7 steps shown" in page.locator("#run-words").inner_text()
    assert watched.query() == before
    assert page.evaluate(f"{timeline}.state.meta.span") == 40 * MS
    page.locator("#show-newer").click()
    watched.wait(f"{timeline}?.state.meta?.span === {70 * MS}")
    page.wait_for_selector("#run-words:has-text('7 steps, all shown')")
    renamed = {name: watched.query()[name] for name in ("recording", "tracks")}  # tracks have other numbers now
    assert watched.query() == before | renamed != before
    assert page.evaluate(f"{timeline}.state.area.keys") == marked
    assert page.evaluate(f"[{timeline}.state.view.start, {timeline}.state.view.end]") == [5e6, 25e6]
    assert page.evaluate(f"{timeline}.state.rows.pinned") == pinned
    assert page.evaluate(f"[{timeline}.state.area.start, {timeline}.state.area.end]") == [5e6, 15e6]
    page.wait_for_selector("#area h2:has-text('Area: 10')")
    page.go_back()
    watched.wait(f"{timeline}?.state.meta?.span === {40 * MS}")  # the earlier state is still there
    page.go_forward()
    watched.wait(f"{timeline}?.state.meta?.span === {70 * MS}")
    run.rank.close()
    page.wait_for_selector("#run-words:has-text('Completed')")
    page.locator("#show-newer").click()
    page.wait_for_selector("#run-state[hidden]", state="attached")
    watched.open("", "#recording-grid .ag-row")
    assert page.locator(status).inner_text() == "completed"
    watched.check()


@needs_chromium
def test_the_list_follows_what_runs(watched: Site, run: Run) -> None:
    watched.open("", "#recording-grid .ag-row")
    row = watched.page.locator("#recording-grid .ag-row", has_text="run").first
    assert row.locator("[col-id=steps]").inner_text() == "4"
    run.go_on(2)
    watched.page.wait_for_selector("#recording-grid .ag-row:has-text('run') [col-id=steps]:has-text('6')")
    run.rank.close("failed")
    watched.page.wait_for_selector("#recording-grid .ag-row [col-id=status]:has-text('failed')")
    watched.check()
