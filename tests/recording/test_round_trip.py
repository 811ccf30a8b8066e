"""What is written is what is read: through parts, merging, windows and ranks."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stallscope.profiler.recording import compaction, part_buffer
from stallscope.profiler.recording.errors import CaptureError, UsageError
from stallscope.profiler.recording.layout import table_files
from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.schema import TABLES
from stallscope.profiler.recording.writer import RecordingWriter

from .builders import slices

ROW = st.tuples(
    st.integers(0, 3), st.integers(0, 20), st.one_of(st.none(), st.integers(0, 10)), st.sampled_from(["a", "b", "ü"])
)
PARTS = st.lists(st.lists(ROW, max_size=12), max_size=8)


def as_columns(rows: list[tuple[int, int, int | None, str]], first: int) -> dict[str, Any]:
    track, ts, dur, name = zip(*rows, strict=True)
    count = len(rows)
    return {
        "slice_id": list(range(first, first + count)),
        "track_id": track,
        "kind": ["complete"] * count,
        "ts": ts,
        "dur": dur,
        "lane": [0] * count,
        "depth": [0] * count,
        "name": name,
        "category": ["op"] * count,
    }


def multiset(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=PARTS, merge=st.booleans())
def test_rows_survive_parts_and_merging_and_come_in_order(
    parts: list[Any], merge: bool, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small limits make a few rows take the paths of millions: several rounds, several batches a file.
    monkeypatch.setattr(compaction, "HELD_ROWS", 8)
    monkeypatch.setattr(compaction, "SMALLEST_BATCH", 2)
    monkeypatch.setattr(compaction, "FAN_IN", 3)
    path = tmp_path_factory.mktemp("recording")
    writer = RecordingWriter.create(path).rank(0)
    expected: Counter[tuple[int, int, int | None, str]] = Counter()
    for number, rows in enumerate(parts):
        if rows:
            writer.append("slices", as_columns(rows, number * 100))
            writer.flush()
            expected.update(rows)
    if merge:
        writer.close()
        assert len(table_files(writer.folder, "slices")) <= 1
    table = open_recording(path).table("slices", columns=["track_id", "ts", "dur", "name", "slice_id"])
    assert Counter(tuple(row.values())[:4] for row in table.to_pylist()) == expected
    order = [(row["track_id"], row["ts"], row["slice_id"]) for row in table.to_pylist()]
    assert order == sorted(order), "by track and time, and equal keys as they were written"


@pytest.fixture
def three_ranks(tmp_path: Path) -> Recording:
    writer = RecordingWriter.create(tmp_path / "run", run_id="run")
    for rank in (0, 2, 5):
        with writer.rank(rank) as rows:
            for part in range(3):
                rows.append("slices", slices(200, seed=10 * rank + part, rank=rank, first=200 * part))
                rows.flush()
            rows.append("counters", {"track_id": [1, 1, 1], "ts": [5, 10, 15], "value": [1.0, 2.0, None]})
    return open_recording(tmp_path / "run")


@pytest.mark.parametrize("window", [(0, 1000), (100, 101), (500, 500), (990, 5000), (-5, 0), (250, 700), (2000, 3000)])
@pytest.mark.parametrize("ranks", [None, 2, (0, 5), (5, 0)])
def test_window_and_ranks_select_what_a_loop_over_all_rows_does(
    three_ranks: Recording, window: tuple[int, int], ranks: Any
) -> None:
    start, end = window
    chosen = (0, 2, 5) if ranks is None else (ranks,) if isinstance(ranks, int) else ranks

    def overlaps(row: dict[str, Any]) -> bool:
        if row["rank"] not in chosen or row["ts"] >= end:
            return False
        return row["dur"] is None or row["ts"] + row["dur"] > start or row["ts"] == start

    everything = three_ranks.table("slices").to_pylist()
    expected = [row for rank in chosen for row in everything if row["rank"] == rank and overlaps(row)]
    assert three_ranks.table("slices", ranks=ranks, window=window).to_pylist() == expected


def test_counters_are_in_a_window_by_their_time_alone(three_ranks: Recording) -> None:
    assert three_ranks.table("counters", ranks=0, window=(6, 15)).column("ts").to_pylist() == [10]


def test_a_window_needs_no_time_columns_among_those_asked_for(three_ranks: Recording) -> None:
    names = three_ranks.table("slices", window=(250, 700), columns=["name"])
    assert names.column_names == ["name"]
    assert names.num_rows == three_ranks.table("slices", window=(250, 700)).num_rows


def test_text_that_repeats_stays_a_dictionary(three_ranks: Recording) -> None:
    table = three_ranks.table("slices")
    assert table.schema.equals(TABLES["slices"].schema)
    dictionaries = [chunk.dictionary for chunk in table.column("name").chunks]
    assert all(dictionary.equals(dictionaries[0]) for dictionary in dictionaries)


def test_a_frame_keeps_integers_with_nulls_exact(three_ranks: Recording) -> None:
    frame = three_ranks.frame("slices", ranks=0)
    assert str(frame["dur"].dtype) == "Int64"
    assert str(frame["ts"].dtype) == "int64"
    assert frame["dur"].isna().sum() == three_ranks.table("slices", ranks=0).column("dur").null_count


def test_every_table_can_be_read_where_it_has_no_rows(three_ranks: Recording) -> None:
    for name, table in TABLES.items():
        if name not in ("slices", "counters"):
            assert three_ranks.table(name).num_rows == 0
            assert three_ranks.table(name).schema.equals(table.schema)


def test_merging_holds_few_rows_however_many_there_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "HELD_ROWS", 600)
    monkeypatch.setattr(compaction, "SMALLEST_BATCH", 10)
    held = []
    real = compaction._settled

    def settled(runs: Any) -> Any:
        held.append(sum(run.count for run in runs))
        return real(runs)

    monkeypatch.setattr(compaction, "_settled", settled)
    writer = RecordingWriter.create(tmp_path).rank(0)
    for part in range(12):
        writer.append("slices", slices(500, seed=part, first=500 * part))
        writer.flush()
    writer.close()
    assert len(held) > 10
    assert max(held) <= 600
    ids = open_recording(tmp_path).table("slices").column("slice_id").to_pylist()
    assert sorted(ids) == list(range(6000))


def test_a_kill_between_the_merge_and_the_removal_of_parts_doubles_no_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = RecordingWriter.create(tmp_path).rank(0)
    for part in range(3):
        writer.append("slices", slices(50, seed=part, first=50 * part))
        writer.flush()
    with monkeypatch.context() as killed:
        killed.setattr(Path, "unlink", lambda *_, **__: None)
        compaction.compact(writer.folder, TABLES["slices"])
    left = [path.name for path in (writer.folder / "slices").iterdir() if path.suffix == ".parquet"]
    assert len(left) == 4, "the merged file and the parts that it replaces"
    recording = open_recording(tmp_path)
    assert sorted(recording.table("slices").column("slice_id").to_pylist()) == list(range(150))
    assert recording.sql("select count(*) n from slices").to_pylist() == [{"n": 150}]
    compaction.compact(writer.folder, TABLES["slices"])
    assert [file.path.name for file in table_files(writer.folder, "slices")] == ["sorted-00000-00002.parquet"]
    assert len(list((writer.folder / "slices").glob("*.parquet"))) == 1


def test_a_forked_child_cannot_write_into_its_parents_rank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = RecordingWriter.create(tmp_path).rank(0)
    writer.append("slices", slices(5))
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        with pytest.raises(CaptureError, match="written by the process that forked this one"):
            writer.append("slices", slices(5))
        writer.close()
    assert open_recording(tmp_path).rank_info(0)["status"] == "running"
    writer.close()
    assert open_recording(tmp_path).table("slices").num_rows == 5


def test_a_window_skips_the_row_groups_that_cannot_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_buffer, "RUN_GROUP_ROWS", 10)
    writer = RecordingWriter.create(tmp_path).rank(0)
    writer.append("slices", as_columns([(0, 100 * n, 50, "a") for n in range(100)], 0))
    writer.flush()
    read: list[int] = []
    real = pq.ParquetFile.read_row_groups

    def counted(file: Any, groups: list[int], **options: Any) -> pa.Table:
        read.extend(groups)
        return real(file, groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", counted)
    window = open_recording(tmp_path).table("slices", window=(5000, 5100))
    assert window.column("ts").to_pylist() == [5000]
    assert read == [5]


def test_a_closed_rank_has_one_file_a_table_in_large_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_buffer, "RUN_GROUP_ROWS", 10)
    monkeypatch.setattr(compaction, "ROW_GROUP_ROWS", 80)
    for parts in (1, 3):
        writer = RecordingWriter.create(tmp_path / str(parts)).rank(0)
        for part in range(parts):
            writer.append("slices", slices(100, seed=part, first=100 * part))
            writer.flush()
        assert pq.read_metadata(table_files(writer.folder, "slices")[0].path).num_row_groups == 10
        writer.close()
        (file,) = table_files(writer.folder, "slices")
        metadata = pq.read_metadata(file.path)
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        assert groups == ([80, 20] if parts == 1 else [80, 80, 80, 60])
        assert sorted((writer.folder / "slices").iterdir()) == [file.path]


def test_the_encodings_are_what_was_chosen(tmp_path: Path) -> None:
    writer = RecordingWriter.create(tmp_path).rank(0)
    writer.append("slices", slices(500))
    writer.close()
    group = pq.read_metadata(table_files(writer.folder, "slices")[0].path).row_group(0)
    columns = {group.column(place).path_in_schema: group.column(place) for place in range(group.num_columns)}
    assert all(column.compression == "ZSTD" for column in columns.values())
    assert "DELTA_BINARY_PACKED" in columns["ts"].encodings
    assert all("RLE_DICTIONARY" in columns[name].encodings for name in ("name", "dur", "args"))
    assert all(columns[name].has_column_index for name in ("ts", "track_id"))


def test_sorted_rows_go_straight_into_one_part(tmp_path: Path) -> None:
    writer = RecordingWriter.create(tmp_path).rank(0)
    batches = [as_columns([(track, ts, 1, "a") for ts in range(5)], 10 * track) for track in range(4)]
    count = writer.add_sorted("slices", (pa.table(batch) for batch in batches))
    writer.close()
    assert count == 20
    assert [file.path.name for file in table_files(writer.folder, "slices")] == ["part-00000.parquet"]
    assert open_recording(tmp_path).table("slices").num_rows == 20


@pytest.mark.parametrize("where", ["within a batch", "between batches"])
def test_rows_that_are_not_sorted_are_refused(tmp_path: Path, where: str) -> None:
    writer = RecordingWriter.create(tmp_path).rank(0)
    rows = [(0, 5, 1, "a"), (0, 4, 1, "a")]
    batches = [as_columns(rows, 0)] if where == "within a batch" else [as_columns([row], 0) for row in rows]
    with pytest.raises(CaptureError, match="not in the order of slices: track_id, ts"):
        writer.add_sorted("slices", (pa.table(batch) for batch in batches))
    assert not any((writer.folder / "slices").iterdir())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"colour": ["red"]}, "no column 'colour'"),
        ({"name": None}, "lack column 'name'"),
        ({"name": [None]}, "cannot be null"),
        ({"dur": [2**70]}, "cannot hold"),
        ({"ts": np.array([0.5])}, "cannot hold"),
        ({"ts": [1, 2]}, "values where others have"),
    ],
)
def test_rows_that_do_not_fit_say_which_column(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    writer = RecordingWriter.create(tmp_path).rank(0)
    rows = {k: v for k, v in (as_columns([(0, 0, 1, "a")], 0) | change).items() if v is not None}
    with pytest.raises(CaptureError, match=message):
        writer.append("slices", rows)


def test_what_is_asked_for_wrongly_is_named(three_ranks: Recording) -> None:
    with pytest.raises(UsageError, match="no table 'slice'"):
        three_ranks.table("slice")
    with pytest.raises(UsageError, match="no column 'duration'"):
        three_ranks.table("slices", columns=["duration"])
    with pytest.raises(UsageError, match=r"no rank 1; it has 0, 2, 5"):
        three_ranks.table("slices", ranks=1)
    with pytest.raises(UsageError, match="does not exist"):
        open_recording(three_ranks.path / "nothing")


def test_ids_are_handed_out_once(tmp_path: Path) -> None:
    writer = RecordingWriter.create(tmp_path).rank(3)
    first, second = writer.reserve_ids(10), writer.reserve_ids(5)
    assert (first, second) == (3 << 40, (3 << 40) + 10)
