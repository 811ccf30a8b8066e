"""Bands tile each device's window and add up to the breakdown; stalls keep their ids. Also counters and areas."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from stallscope.analysis.area_statistics import area_states, area_statistics, entries_within
from stallscope.analysis.counter_bins import CounterSeries, counter_bins
from stallscope.analysis.device_bands import BAND_CODES, device_bands
from stallscope.analysis.slice_facts import longest_stall, slice_facts, stall_facts, stalls_resting_on
from stallscope.analysis.slice_search import entry_of_slice, search_slices
from stallscope.analysis.stalls import stalls
from stallscope.analysis.step_breakdown import STATE_COLUMNS, step_breakdown
from stallscope.analysis.tile_index import TileIndex, tile_index
from stallscope.analysis.tiles import BINS
from stallscope.profiler.recording.reader import Recording, open_recording
from tests.analysis.random_traces import traces as random_traces
from tests.builders import TraceBuilder


def check(recording: Any) -> None:
    bands = device_bands(recording)
    index = bands.index
    frame = step_breakdown(recording)
    whole = frame[frame["step"].isna() & (frame["device_type"] != "all")].to_dict("records")
    rows = {int(row["stall_id"]): row for row in stalls(recording).to_dict("records")}
    seen = set()
    for number, (device, expected) in enumerate(zip(bands.devices, whole, strict=True)):
        assert device.rank == expected["rank"]
        first, last = int(index.row_start[number]), int(index.row_start[number + 1])
        start, end = index.start[first:last], index.end[first:last]
        if not len(start):
            assert expected["dur"] == 0
            continue
        assert start[0] == expected["ts"]
        assert end[-1] == expected["ts"] + expected["dur"]
        assert (start[1:] == end[:-1]).all()
        assert (index.busy[first:last] == start - start[0]).all()
        sums = dict.fromkeys(STATE_COLUMNS, 0)
        for code, stall_id, ts, dur in zip(
            index.category[first:last], index.slice_id[first:last], start, end - start, strict=True
        ):
            state = BAND_CODES[code] if BAND_CODES[code] in ("compute", "communication", "data_movement") else "stall"
            sums[f"{state}_ns"] += int(dur)
            if state in ("stall", "data_movement"):
                row = rows[int(stall_id)]
                assert (row["ts"], row["dur"], row["state"]) == (ts, dur, state)
                assert state != "stall" or row["root_cause"] == BAND_CODES[code]
                seen.add(int(stall_id))
        assert sums == {column: expected[column] for column in STATE_COLUMNS}
    assert seen == set(rows)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(random_traces())
def test_bands_of_random_traces(trace: TraceBuilder) -> None:
    check(trace.recording())


@pytest.mark.parametrize("name", ["v100_resnet50_workers0.json.gz", "dlrm_v100x8", "cpu_only_rank34.json.gz"])
def test_bands_of_real_traces(traces: Path, name: str) -> None:
    check(open_recording(traces / "kineto" / name))


def test_a_recording_without_work_has_no_bands() -> None:
    recording = TraceBuilder().recording()
    bands = device_bands(recording)
    assert bands.devices == ()
    assert len(bands.index) == 0
    assert bands.entry_of_stall(0) is None


def small(tmp_path: Path) -> tuple[Recording, TileIndex]:
    trace = TraceBuilder()
    main, gpu = trace.thread("main"), trace.stream(7)
    for n in range(20):
        trace.slice(main, f"op{n % 3}", "op", 100 * n, 90 - n)
        trace.slice(main, "inner", "python", 100 * n + 10, 20)
        trace.launched(main, gpu, call=(100 * n + 40, 5), work=(100 * n + 60, 30), name="Gemm")
    recording = trace.write(tmp_path / "recording")
    return recording, tile_index(recording)


@pytest.mark.parametrize("window", [(0, 2000), (250, 251), (0, 1), (95, 99), (333, 1234), (5000, 6000), (7, 7)])
def test_area_against_every_slice(tmp_path: Path, window: tuple[int, int]) -> None:
    _, index = small(tmp_path)
    start, end = window
    tracks = list(range(len(index.tracks)))
    inside = (index.start < end) & ((index.end > start) | (index.start >= start))
    assert sorted(entries_within(index, tracks, start, end).tolist()) == np.flatnonzero(inside).tolist()
    frame = area_statistics(index, tracks, start, end)
    assert frame["count"].sum() == inside.sum()
    for row in frame.to_dict("records"):
        named = inside & np.array([index.names[code] == row["name"] for code in index.name])
        dur = np.sort((index.end - index.start)[named])
        overlap = np.minimum(index.end, end)[named] - np.maximum(index.start, start)[named]
        assert (row["count"], row["total_ns"], row["inside_ns"]) == (len(dur), dur.sum(), overlap.sum())
        assert (row["min_ns"], row["max_ns"], row["p50_ns"]) == (dur[0], dur[-1], dur[(len(dur) + 1) // 2 - 1])
        assert (index.end - index.start)[row["longest"]] == dur[-1]


def test_states_of_an_area_add_up(tmp_path: Path) -> None:
    recording, _ = small(tmp_path)
    bands = device_bands(recording)
    frame = area_states(bands, 100, 900)
    assert frame["inside_ns"].sum() == 800
    assert frame.set_index("state").loc["compute", "inside_ns"] == 8 * 30


def test_search_ignores_case_and_gives_the_longest_first(tmp_path: Path) -> None:
    recording, index = small(tmp_path)
    found = search_slices(index, " OP ", limit=5)
    assert found.count == 20
    assert (index.end - index.start)[found.entries].tolist() == [90, 89, 88, 87, 86]
    assert search_slices(index, "gEMM").count == 20
    assert search_slices(index, "  ").count == search_slices(index, "absent").count == 0
    for slice_id in recording.table("slices")["slice_id"].to_pylist():
        entry = entry_of_slice(index, slice_id)
        assert entry is not None
        assert index.slice_id[entry] == slice_id
    assert entry_of_slice(index, -5) is None


def test_facts_of_a_slice_and_of_a_stall(tmp_path: Path) -> None:
    recording, index = small(tmp_path)
    entry = int(search_slices(index, "gemm", limit=1).entries[0])
    slice_id = int(index.slice_id[entry])
    known = slice_facts(recording, 0, slice_id, int(index.start[entry]))
    assert known is not None
    assert known.fields["name"] == "Gemm"
    assert [(arrow.to_slice_id, arrow.kind) for arrow in known.arrows] == [(slice_id, "launch")]
    assert slice_facts(recording, 0, -1, 0) is None
    for row in stalls(recording).to_dict("records"):
        facts = stall_facts(recording, 0, row["stall_id"])
        assert facts is not None
        assert facts["dur"] == row["dur"]
        for piece in row["evidence"]:
            assert row["stall_id"] in set(stalls_resting_on(recording, 0, piece)["stall_id"])
    frame = stalls(recording)
    for cause in frame["root_cause"].unique():
        longest = longest_stall(recording, 0, root_cause=cause)
        assert longest is not None
        of_cause = frame[frame["root_cause"] == cause]
        assert of_cause.set_index("stall_id").loc[longest, "dur"] == of_cause["dur"].max()
    assert longest_stall(recording, 0, root_cause="gc") is None


@pytest.mark.parametrize("level", [0, 2, 5])
@pytest.mark.parametrize("number", [0, 1, 3])
def test_counter_bins_against_every_instant(level: int, number: int) -> None:
    random = np.random.default_rng(level * 10 + number)
    ts = np.sort(random.integers(50, 4 * (BINS << level), 300)).astype(np.int64)
    value = random.normal(size=300)
    series = CounterSeries(0, "c", "", ts, value)
    least, greatest = counter_bins(series, level, number, origin=0)
    for n in range(0, BINS, 7):
        low = (number * BINS + n) << level
        seen = [v for t, v in zip(ts, value, strict=True) if low <= t < low + (1 << level)]
        held = [v for t, v in zip(ts, value, strict=True) if t <= low][-1:]
        if seen or held:
            assert (least[n], greatest[n]) == (min(seen + held), max(seen + held))
        else:
            assert np.isnan(least[n])
            assert np.isnan(greatest[n])
