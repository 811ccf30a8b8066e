"""Small recordings for tests, written by hand in a few readable lines.

    trace = TraceBuilder()
    main, gpu = trace.thread("main"), trace.stream(7)
    trace.slice(main, "aten::mm", "op", 0, 100)
    trace.launched(main, gpu, call=(10, 5), work=(40, 100), name="gemm")
    recording = trace.recording()

Times are ns. Parents, depths and lanes are worked out as an importer would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stallscope.profiler.recording.ids import id_base
from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.schema import TABLES
from stallscope.profiler.recording.writer import RecordingWriter


class MemoryRecording:
    """What ``open_recording`` returns, as far as the analyses use it, without files."""

    fingerprint = "in memory"

    def __init__(self, rows: dict[str, list[dict[str, Any]]], ranks: tuple[int, ...]) -> None:
        self.ranks = ranks
        self.info: dict[str, Any] = {}
        self.identity: dict[str, Any] = {}
        self._tables = {
            name: pa.Table.from_pylist(rows.get(name, []), schema=table.schema) for name, table in TABLES.items()
        }

    def rank_info(self, rank: int) -> dict[str, Any]:
        return {"rank": rank, "status": "completed"}

    def table(
        self,
        name: str,
        ranks: tuple[int, ...] | None = None,
        window: tuple[int, int] | None = None,
        columns: list[str] | None = None,
    ) -> pa.Table:
        table = self._tables[name]
        if ranks is not None and "rank" in table.column_names:
            table = table.filter(pc.is_in(table["rank"], value_set=pa.array(ranks, type=pa.int64())))
        if window is not None:
            ends = pc.add(table["ts"], pc.fill_null(table["dur"], 0)) if "dur" in table.column_names else table["ts"]
            table = table.filter(pc.and_(pc.less(table["ts"], window[1]), pc.greater_equal(ends, window[0])))
        return table if columns is None else table.select(columns)

    def frame(self, name: str, **choice: Any) -> Any:
        return self.table(name, **choice).to_pandas()


class TraceBuilder:
    """Collects the rows of one rank."""

    def __init__(self, rank: int = 0) -> None:
        self.rank = rank
        self.rows: dict[str, list[dict[str, Any]]] = {name: [] for name in TABLES}
        self._next_id = id_base(rank)
        self._next_correlation = 0

    def new_id(self) -> int:
        self._next_id += 1
        return self._next_id - 1

    def row(self, table: str, **columns: Any) -> None:
        """A row of any table; columns that are not given are null, and ``rank`` is this builder's."""
        known = TABLES[table].schema.names
        self.rows[table].append(({"rank": self.rank} if "rank" in known else {}) | columns)

    def thread(self, name: str = "main", *, process_id: int = 1, thread_id: int | None = None) -> int:
        """A host thread; returns its track id."""
        track_id = self.new_id()
        thread_id = track_id if thread_id is None else thread_id
        self.row("tracks", track_id=track_id, kind="thread", name=name, process_id=process_id, thread_id=thread_id)
        return track_id

    def stream(self, stream_id: int = 7, *, device_index: int = 0, device_type: str = "cuda") -> int:
        """A stream of a device; returns its track id."""
        track_id = self.new_id()
        place = {"device_type": device_type, "device_index": device_index, "stream_id": stream_id}
        self.row("tracks", track_id=track_id, kind="stream", name=f"stream {stream_id}", **place)
        return track_id

    def slice(self, track: int, name: str, category: str, ts: int, dur: int | None, **columns: Any) -> int:
        """A slice; returns its id. ``dur`` None makes it unfinished."""
        slice_id = self.new_id()
        kind = "unfinished" if dur is None else "complete"
        row = {"slice_id": slice_id, "track_id": track, "kind": kind, "ts": ts, "dur": dur, "name": name}
        self.row("slices", **row, category=category, **columns)
        return slice_id

    def flow(self, source: int, target: int, kind: str = "launch") -> None:
        """An arrow between two slices."""
        self.row("flows", from_slice_id=source, to_slice_id=target, kind=kind)

    def launched(
        self,
        thread: int,
        stream: int,
        *,
        call: tuple[int, int],
        work: tuple[int, int],
        name: str = "gemm",
        category: str = "kernel",
        call_name: str = "cudaLaunchKernel",
        call_category: str = "runtime",
    ) -> tuple[int, int]:
        """Device work with the call that launches it, each as (ts, dur); returns the two slice ids."""
        self._next_correlation += 1
        correlation = self._next_correlation
        source = self.slice(thread, call_name, call_category, *call, correlation_id=correlation)
        target = self.slice(stream, name, category, *work, correlation_id=correlation)
        self.flow(source, target)
        return source, target

    def step(self, number: int, ts: int, dur: int, *, phase: str | None = None) -> None:
        """A step as the host saw it."""
        self.row("steps", step=number, ts=ts, dur=dur, basis="host", phase=phase)

    def python(self, thread: int, place: str, ts: int, dur: int) -> int:
        """A call of a Python function, named as torch.profiler names it: ``file.py(12): function``."""
        return self.slice(thread, place, "python", ts, dur)

    def recording(self, *others: TraceBuilder) -> MemoryRecording:
        """The recording of this rank and the others given, in memory."""
        everyone = sorted((self, *others), key=lambda builder: builder.rank)
        rows: dict[str, list[dict[str, Any]]] = {
            name: [row for builder in everyone for row in builder.rows[name]] for name in TABLES
        }
        rows["slices"] = _nested(rows["slices"])
        return MemoryRecording(rows, tuple(builder.rank for builder in everyone))

    def write(self, path: Path, *others: TraceBuilder) -> Recording:
        """The same recording as files in the folder ``path``, opened."""
        with RecordingWriter.create(path) as writer:
            for builder in (self, *others):
                memory = builder.recording()
                rank = writer.rank(builder.rank)
                for name in TABLES:
                    table = memory.table(name)
                    if table.num_rows:
                        rank.append(name, table)
                rank.close()
        return open_recording(path)


def _nested(slices: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The slices sorted by (track, ts, longest first), with lane, depth and parent."""
    far = max((row["ts"] + (row["dur"] or 0) for row in slices), default=0)
    ends = {row["slice_id"]: row["ts"] + row["dur"] if row["dur"] is not None else far for row in slices}
    ordered = sorted(slices, key=lambda row: (row["track_id"], row["ts"], -ends[row["slice_id"]]))
    lanes: dict[int, list[list[dict[str, Any]]]] = {}
    for row in ordered:
        end = ends[row["slice_id"]]
        track = lanes.setdefault(row["track_id"], [])
        for lane in range(len(track) + 1):
            if lane == len(track):
                track.append([])
            open_slices = track[lane]
            while open_slices and ends[open_slices[-1]["slice_id"]] <= row["ts"]:
                open_slices.pop()
            if not open_slices or end <= ends[open_slices[-1]["slice_id"]]:
                break
        parent = open_slices[-1]["slice_id"] if open_slices else None
        row |= {"lane": lane, "depth": len(open_slices), "parent_id": parent}
        open_slices.append(row)
    return ordered
