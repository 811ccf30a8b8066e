"""Plain Chrome traces: begin and end, asynchronous slices, counters."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.collectors.importers.chrome import _matched  # the bracket matcher, apart from files

from .small_traces import import_files, imported, losses, op, rows, slices


def mark(phase: str, name: str, ts: float, *, pid: int = 1, tid: int = 1, **more: Any) -> dict[str, Any]:
    return {"ph": phase, "name": name, "ts": ts, "pid": pid, "tid": tid, **more}


def test_an_end_closes_the_latest_begin_of_its_thread(tmp_path: Path) -> None:
    events = [
        mark("B", "outer", 0, args={"x": 1}), mark("B", "other thread", 1, tid=2), mark("B", "inner", 2),
        mark("E", "", 5), mark("E", "outer", 9), mark("E", "", 20, tid=2),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    found = slices(recording)
    assert {name: row["dur"] for name, row in found.items()} == {"outer": 9000, "inner": 3000, "other thread": 19000}
    assert found["inner"]["parent_id"] == found["outer"]["slice_id"]
    assert json.loads(found["outer"]["args"]) == {"x": 1}
    assert {row["kind"] for row in found.values()} == {"complete"}


def test_stamps_that_are_equal_count_in_the_order_of_the_file(tmp_path: Path) -> None:
    events = [mark("B", "a", 0), mark("E", "a", 5), mark("B", "b", 5), mark("E", "b", 9)]
    assert {row["name"]: row["dur"] for row in rows(imported(tmp_path, events), "slices")} == {"a": 5000, "b": 4000}


def test_a_begin_without_end_stays_open_and_contains_what_follows(tmp_path: Path) -> None:
    recording = imported(tmp_path, [mark("B", "main", 0), mark("B", "work", 2), mark("E", "work", 5)])
    found = slices(recording)
    assert (found["main"]["kind"], found["main"]["dur"]) == ("unfinished", None)
    assert found["work"]["parent_id"] == found["main"]["slice_id"]
    assert losses(recording)["begin_without_end"] == 1


def test_an_end_without_begin_is_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [mark("E", "?", 0), mark("B", "a", 1), mark("E", "a", 2), mark("E", "?", 3)])
    assert slices(recording)["a"]["dur"] == 1000
    assert losses(recording)["end_without_begin"] == 2


def test_asynchronous_slices_are_told_by_their_id(tmp_path: Path) -> None:
    events = [
        mark("b", "load", 0, cat="io", id=1), mark("b", "load too", 2, cat="io", id="0x2"),
        mark("e", "load", 10, cat="io", id=1), mark("n", "note", 5, cat="io", id=1),
        mark("e", "load too", 4, cat="io", id="0x2", tid=9),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    found = slices(recording)
    assert (found["load"]["dur"], found["load too"]["dur"]) == (10_000, 2_000)
    assert found["note"]["kind"] == "instant"
    assert len({row["track_id"] for row in found.values()}) == 1
    (track,) = rows(recording, "tracks")
    assert track["name"] == "asynchronous io"


def test_each_member_of_a_counter_is_a_track(tmp_path: Path) -> None:
    events = [
        mark("C", "memory", 1, args={"used": 5, "free": 7.5}), mark("C", "memory", 3, args={"used": 6}),
        mark("C", "queue", 2, args={"value": -1}), mark("C", "nothing", 2, args={"text": "no number"}),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    names = {row["track_id"]: (row["name"], row["kind"]) for row in rows(recording, "tracks")}
    points = [(names[row["track_id"]][0], row["ts"], row["value"]) for row in rows(recording, "counters")]
    assert sorted(points) == [
        ("memory free", 1000, 7.5), ("memory used", 1000, 5.0), ("memory used", 3000, 6.0), ("queue", 2000, -1.0),
    ]  # fmt: skip
    assert {kind for _, kind in names.values()} == {"counter"}
    assert losses(recording)["counter_without_value"] == 1


def test_instants_without_category(tmp_path: Path) -> None:
    recording = imported(tmp_path, [mark("i", "a", 1), mark("I", "b", 2), mark("R", "c", 3), op("d", 0, 9)])
    kinds = {row["name"]: (row["kind"], row["dur"]) for row in rows(recording, "slices")}
    assert kinds == {"a": ("instant", 0), "b": ("instant", 0), "c": ("instant", 0), "d": ("complete", 9000)}


@given(st.lists(st.tuples(st.integers(0, 2), st.booleans()), max_size=40))
def test_brackets_match_as_a_stack_matches_them(events: list[tuple[int, bool]]) -> None:
    import numpy as np

    events = sorted(events, key=lambda event: event[0])
    begins: list[int] = []
    pairs, lonely, group = [], 0, -1
    for place, (number, is_begin) in enumerate(events):
        if number != group:
            begins, group = [], number
        if is_begin:
            begins.append(place)
        elif begins:
            pairs.append((begins.pop(), place))
        else:
            lonely += 1
    if not events:
        return
    numbers = np.array([event[0] for event in events])
    is_first = np.concatenate(([True], numbers[1:] != numbers[:-1]))
    begin, end, unmatched = _matched(np.array([event[1] for event in events]), is_first)
    assert sorted(zip(begin.tolist(), end.tolist(), strict=True)) == sorted(pairs)
    assert unmatched == lonely


def test_a_trace_that_viztracer_wrote(tmp_path: Path) -> None:
    pytest.importorskip("viztracer")
    script = tmp_path / "program.py"
    script.write_text("def inner():\n    return sum(range(10))\ndef outer():\n    return inner()\nouter()\n")
    file = tmp_path / "viz.json"
    subprocess.run(
        [sys.executable, "-m", "viztracer", "--quiet", "-o", str(file), str(script)],
        check=True,
        capture_output=True,
        cwd=tmp_path,
    )
    recording = import_files(tmp_path / "recording", file)
    found = rows(recording, "slices")
    outer = next(row for row in found if row["name"].startswith("outer "))
    inner = next(row for row in found if row["name"].startswith("inner "))
    assert inner["parent_id"] == outer["slice_id"]
    document = json.loads(file.read_text())
    assert len(found) == sum(event["ph"] == "X" for event in document["traceEvents"])
