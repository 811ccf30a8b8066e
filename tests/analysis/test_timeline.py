"""The timeline's columns against what was put in."""

from __future__ import annotations

import time

import numpy as np
import pyarrow as pa
import pytest

from stallscope.analysis.timeline import COMPUTE, DATA_MOVEMENT, timeline
from stallscope.profiler.recording.ids import id_base
from stallscope.profiler.recording.schema import TABLES
from tests.builders import MemoryRecording, TraceBuilder


def small() -> tuple[TraceBuilder, dict[str, int]]:
    trace = TraceBuilder(rank=3)
    gpu, main = trace.stream(7), trace.thread("main")
    ids = {"copy": trace.slice(gpu, "Memcpy HtoD", "memcpy", 200, 10)}
    ids["op"] = trace.slice(main, "aten::mm", "op", 0, 100)
    ids["call"], ids["kernel"] = trace.launched(main, gpu, call=(10, 5), work=(40, 100))
    ids["label"] = trace.slice(gpu, "ProfilerStep#1", "annotation", 40, 170)
    ids["open"] = trace.slice(main, "aten::add", "op", 150, None)
    return trace, ids


def test_rows_references_and_states() -> None:
    trace, ids = small()
    t = timeline(trace.recording(), 3)
    row = {name: int(t.rows_of([i])[0]) for name, i in ids.items()}
    assert (np.diff(t.track) >= 0).all()
    assert t.parent[row["call"]] == row["op"] and t.parent[row["op"]] == -1
    assert t.launch[row["kernel"]] == row["call"] and t.launch[row["copy"]] == -1
    assert t.state[[row["kernel"], row["copy"], row["label"], row["op"]]].tolist() == [COMPUTE, DATA_MOVEMENT, -1, -1]
    assert t.name_of(row["op"]) == "aten::mm" and t.rows_of([12345]).tolist() == [-1]
    assert t.unfinished[row["open"]] and t.end[row["open"]] == 210
    assert t.extent == (0, 210)
    assert [d.rows.tolist() for d in t.devices] == [[row["kernel"], row["copy"]]]
    assert [t.tracks[i].name for i in t.threads] == ["main"]
    assert t.slice_id[t.rows_of_track(t.threads[0])].tolist() == [ids["op"], ids["call"], ids["open"]]


def test_built_once_per_recording_and_unknown_rank() -> None:
    recording = small()[0].recording()
    assert timeline(recording, 3) is timeline(recording, 3)
    with pytest.raises(KeyError, match="not 4"):
        timeline(recording, 4)


def test_empty_rank() -> None:
    t = timeline(TraceBuilder().recording(), 0)
    assert len(t) == 0 and t.devices == () and t.extent == (0, 0) and t.device_rows.tolist() == []


def test_a_negative_length_is_none_and_not_unfinished() -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread(), "x", "op", 100, -5)
    t = timeline(trace.recording(), 0)
    assert (t.ts.tolist(), t.end.tolist(), t.unfinished.tolist()) == ([100], [100], [False])


def test_two_devices_are_kept_apart() -> None:
    trace = TraceBuilder()
    for index in (1, 0):
        trace.slice(trace.stream(7, device_index=index), "k", "kernel", index, 5)
    assert [(d.device_index, len(d.rows)) for d in timeline(trace.recording(), 0).devices] == [(0, 1), (1, 1)]


@pytest.mark.parametrize("stride", [1, 1000], ids=["dense ids", "sparse ids"])
def test_unsorted_rows_in_chunks_with_their_own_dictionaries(stride: int) -> None:
    rng = np.random.default_rng(1)
    n, base = 500, id_base(1)
    order = rng.permutation(n)
    table = pa.table(
        {
            "slice_id": base + order * stride,
            "rank": np.ones(n, dtype=np.int64),
            "track_id": base + order % 2,
            "kind": ["complete"] * n,
            "ts": order * 10,
            "dur": np.full(n, 5),
            "lane": np.zeros(n, dtype=np.int32),
            "depth": np.zeros(n, dtype=np.int32),
            "name": [f"name {i}" for i in order],
            "category": ["op"] * n,
        }
    )
    missing = [f for f in TABLES["slices"].schema if f.name not in table.column_names]
    for field in missing:
        table = table.append_column(field.name, pa.nulls(n, field.type))
    table = table.select(TABLES["slices"].schema.names).cast(TABLES["slices"].schema)
    recording = MemoryRecording(
        {"tracks": [{"track_id": base + i, "rank": 1, "kind": "thread", "name": ""} for i in (0, 1)]}, (1,)
    )
    recording._tables["slices"] = pa.concat_tables([table.slice(0, 200), table.slice(200, 1), table.slice(201)])
    t = timeline(recording, 1)
    assert [t.name_of(row) for row in range(n)] == [f"name {i}" for i in [*range(0, n, 2), *range(1, n, 2)]]
    assert t.rows_of(t.slice_id).tolist() == list(range(n))
    assert t.rows_of(t.slice_id + stride * n).tolist() == [-1] * n


@pytest.mark.slow
def test_a_million_slices_take_less_than_a_second() -> None:
    n = 1_000_000
    ids = np.arange(n, dtype=np.int64)
    columns = {"slice_id": ids, "track_id": ids * 0, "ts": ids * 10, "dur": ids * 0 + 10, "rank": ids * 0}
    names = pa.DictionaryArray.from_arrays((ids % 1000).astype(np.int32), [f"aten::op{i}" for i in range(1000)])
    table = pa.table(columns | {"name": names})
    for field in TABLES["slices"].schema:
        if field.name not in table.column_names:
            fill = {"category": "op", "kind": "complete"}.get(field.name)
            values = pa.nulls(n, field.type) if fill is None else pa.repeat(fill, n).dictionary_encode()
            table = table.append_column(field.name, values)
    recording = MemoryRecording({"tracks": [{"track_id": 0, "rank": 0, "kind": "thread", "name": "main"}]}, (0,))
    recording._tables["slices"] = table
    begin = time.process_time()
    timeline(recording, 0)
    assert time.process_time() - begin < 1
