"""Reads a recording table by table and hands it to the writer of Chrome traces."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa
import pyarrow.compute as pc

from .call_stacks import CallStacks
from .chrome_places import Places
from .chrome_trace import SLICE_COLUMNS, ChromeCounts, ChromeTraceWriter
from .row_batches import row_batches

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording

Windows = Mapping[int, tuple[int, int] | None]


def export_chrome_trace(recording: Recording, windows: Windows, stream: TextIO) -> ChromeCounts:
    """Writes ranks of a recording as one Chrome trace.

    Args:
        recording: Where from.
        windows: The ranks, each with the part of its time in ns (None: all). Slices that overlap it are written whole.
        stream: Where to.

    Raises:
        FormatError: A file of the recording cannot be read.
    """
    ranks = tuple(windows)
    tracks = recording.table("tracks", ranks=ranks).to_pylist()
    processes = recording.table("processes", ranks=ranks).to_pylist()
    places = Places(tracks, processes, name_ranks=len(ranks) > 1)
    writer = ChromeTraceWriter(stream, places, CallStacks(recording, ranks), _first_stamp(recording, windows))
    writer.begin(_header(recording, ranks))
    writer.slices(_rows(recording, "slices", windows, SLICE_COLUMNS))
    writer.flows(_rows(recording, "flows", dict.fromkeys(ranks), None))
    writer.counters(_rows(recording, "counters", windows, None))
    writer.memory(_rows(recording, "memory", windows, None))
    return writer.end()


def _rows(
    recording: Recording, table: str, windows: Windows, columns: tuple[str, ...] | None
) -> Iterator[pa.RecordBatch]:
    for rank, window in windows.items():
        yield from row_batches(recording, table, (rank,), window, columns)


def _first_stamp(recording: Recording, windows: Windows) -> int:
    """The earliest stamp that will be written, ns; 0 where there is none."""
    first = [
        pc.min(batch.column("ts")).as_py()
        for table in ("slices", "counters", "memory")
        for batch in _rows(recording, table, windows, ("ts",))
        if batch.num_rows
    ]
    return int(min(first, default=0))


def _header(recording: Recording, ranks: tuple[int, ...]) -> dict[str, Any]:
    """The keys before the events, as torch.profiler writes them."""
    header: dict[str, Any] = {"deviceProperties": _device_properties(recording, ranks)}
    if len(ranks) == 1:
        world_size = recording.info.get("world_size") or len(recording.ranks)
        header["distributedInfo"] = {"rank": ranks[0], "world_size": world_size} | _groups(recording, ranks)
    return header


def _groups(recording: Recording, ranks: tuple[int, ...]) -> dict[str, Any]:
    """The process groups, as torch.distributed describes them to the profiler; empty where there are none."""
    rows = recording.table("groups", ranks=ranks).to_pylist()
    groups = [
        {"pg_name": row["name"], "pg_desc": row["description"] or "", "ranks": row["ranks"] or []} for row in rows
    ]
    return {"pg_config": groups} if groups else {}


def _device_properties(recording: Recording, ranks: tuple[int, ...]) -> list[dict[str, Any]]:
    found = []
    for device in recording.table("devices", ranks=ranks).to_pylist():
        if device["device_type"] == "cpu":
            continue
        named = {"id": device["device_index"], "name": device["name"], "totalGlobalMem": device["memory_bytes"]}
        extra = json.loads(device["properties"]) if device["properties"] else {}
        found.append({k: v for k, v in named.items() if v is not None} | (extra if isinstance(extra, dict) else {}))
    return found
