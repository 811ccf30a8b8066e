"""Tiles against a brute-force reading of the same slices."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stallscope.analysis.tile_index import TileIndex, tile_index
from stallscope.analysis.tiles import BINS, MAGIC, Tile, encode, tile
from stallscope.profiler.recording.reader import open_recording
from stallscope.profiler.recording.writer import RecordingWriter

ORIGIN = 1_000_000


def recording_of(folder: Path, rows: list[tuple[int, int, int, int]]) -> TileIndex:
    """The index of slices (track, line, start, length), where the slices of a line do not overlap."""
    writer = RecordingWriter.create(folder)
    rank = writer.rank(0)
    tracks = sorted({row[0] for row in rows})
    rank.append(
        "tracks",
        {"track_id": tracks, "rank": [0] * len(tracks), "kind": ["thread"] * len(tracks), "name": ["t"] * len(tracks)},
    )
    rank.append("slices", {
        "slice_id": list(range(len(rows))), "rank": [0] * len(rows), "track_id": [row[0] for row in rows],
        "kind": ["complete"] * len(rows), "ts": [row[2] for row in rows], "dur": [row[3] for row in rows],
        "lane": [0] * len(rows), "depth": [row[1] for row in rows], "name": [f"slice {n}" for n in range(len(rows))],
        "category": ["op"] * len(rows),
    })  # fmt: skip
    rank.close()
    return tile_index(open_recording(folder))


@st.composite
def lines(draw: st.DrawFn) -> list[tuple[int, int, int, int]]:
    rows = []
    for track in range(draw(st.integers(1, 3))):
        for line in range(draw(st.integers(1, 2))):
            time = ORIGIN + draw(st.integers(0, 3000))
            for _ in range(draw(st.integers(1, 60))):
                length = draw(st.one_of(st.integers(0, 3), st.integers(0, 400), st.integers(0, 20_000)))
                rows.append((track, line, time, length))
                time += length + draw(st.one_of(st.just(0), st.integers(0, 50), st.integers(0, 5000)))
    return rows


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=lines(), level=st.integers(0, 9), number=st.integers(0, 12))
def test_a_tile_holds_what_a_slow_reading_finds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[int, int, int, int]], level: int, number: int
) -> None:
    index = recording_of(tmp_path_factory.mktemp("recording") / "r", rows)
    base, width = ORIGIN + number * (BINS << level), 1 << level
    for place, track in enumerate(index.tracks):
        found = tile(index, place, level, number, ORIGIN)
        mine = [row for row in rows if row[0] == track.track_id]
        starting = [row for row in mine if base <= row[2] < base + BINS * width]
        running_in = [row for row in mine if row[2] < base < row[2] + row[3]]
        assert int(found.count.sum()) == len(starting) + len(running_in)
        long = sorted((row[2] - base, row[3]) for row in [*(r for r in starting if r[3] >= width), *running_in])
        whole = [(int(s), int(d)) for s, d, n in zip(found.start, found.dur, found.count, strict=True) if n == 1]
        assert all(one in whole for one in long)
        short_time = sum(row[3] for row in starting if row[3] < width)
        blocks = found.count > 1
        drawn = found.cover[blocks].sum() * width + sum(d for s, d in whole if d < width and (s, d) not in long)
        singles_clipped = 1e-6 * max(1, short_time)
        assert drawn <= short_time + singles_clipped
        assert drawn >= short_time - width * int((found.cover[blocks] >= 1).sum()) - singles_clipped


def test_blocks_name_one_of_their_own(tmp_path: Path) -> None:
    rows = [(0, 0, ORIGIN + 10 * n, 5) for n in range(5000)]
    index = recording_of(tmp_path / "r", rows)
    found = tile(index, 0, 8, 0, ORIGIN)
    for start, dur, count, entry in zip(found.start, found.dur, found.count, found.entry, strict=True):
        assert ORIGIN + start <= index.start[entry] <= ORIGIN + start + dur
        assert count <= 26
    assert int(found.count.sum()) == 5000
    assert np.allclose(found.cover[1:-1], 0.5, atol=0.03)


def test_the_bytes_say_what_the_tile_holds(tmp_path: Path) -> None:
    index = recording_of(tmp_path / "r", [(0, 0, ORIGIN, 100), (0, 1, ORIGIN + 10, 20), (1, 0, ORIGIN + 50, 7)])
    tiles: list[Tile] = [tile(index, place, 0, 0, ORIGIN) for place in (0, 1)]
    data = encode(tiles, 0)
    assert struct.unpack_from("<8I", data) == (MAGIC, 0, 2, 3, 0, 2, 1, 1)
    assert len(data) == 32 + 3 * (6 * 4 + 2 + 1)
    assert struct.unpack_from("<3f", data, 32) == (0.0, 10.0, 50.0)
    assert encode([], 3)[:16] == struct.pack("<4I", MAGIC, 3, 0, 0)


@pytest.mark.parametrize(("track", "level", "number"), [(-1, 0, 0), (9, 0, 0), (0, -1, 0), (0, 53, 0), (0, 0, -1)])
def test_what_is_not_there_is_refused(tmp_path: Path, track: int, level: int, number: int) -> None:
    index = recording_of(tmp_path / "r", [(0, 0, ORIGIN, 100)])
    with pytest.raises(ValueError, match=r"track|range"):
        tile(index, track, level, number, ORIGIN)


def test_an_empty_recording_has_an_empty_index(tmp_path: Path) -> None:
    RecordingWriter.create(tmp_path / "r").rank(0).close()
    assert len(tile_index(open_recording(tmp_path / "r"))) == 0


def test_the_index_of_a_real_trace_holds_every_slice(traces: Path) -> None:
    recording = open_recording(traces / "kineto" / "v100_rank1_stacks_graphs.json.gz")
    index = tile_index(recording)
    assert sorted(index.slice_id) == sorted(recording.table("slices").column("slice_id").to_pylist())
    for row in range(len(index.row_start) - 1):
        first, last = index.row_start[row], index.row_start[row + 1]
        assert (index.start[first + 1 : last] >= index.end[first : last - 1]).all(), "slices of a row overlap"
    number, line = index.track_of(len(index) - 1)
    assert (number, line) == (len(index.tracks) - 1, index.tracks[-1].rows - 1)
