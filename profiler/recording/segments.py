"""Segments of torch's profiler: its JSON as the program wrote it, and the tables that it is turned into.

    raw/segment-00000.json          what torch exported (segment-00000.json.part while it is being written)
    raw/segment-00000.meta.json     what it is: written before the export, so that a half-written one is known too
    converted/segment-00000/slices/ its tables, there all at once or not at all: the folder is renamed into place

Converting is the same work wherever it is done: in the converter process while the program runs, or by whoever opens
the recording. Which importer does it is found by entry point.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .collective_notes import joined, read_notes
from .errors import FormatError
from .layout import SEGMENTS, table_files
from .parquet_files import sync_folder, temporary_name, write_atomically
from .rows import Rows, conform
from .schema import TABLES
from .segment import RAW, SIDECAR, Segment
from .writer import RankWriter

_IMPORTER = "torch_profiler"


def write_sidecar(attempt: Path, segment: Segment) -> Path:
    """Writes what is known of a segment; call again when more is."""
    path = attempt / RAW / f"{segment.name}{SIDECAR}"
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, json.dumps(asdict(segment)).encode(), durable=False)
    return path


def read_sidecar(path: Path) -> Segment:
    """The segment that a sidecar describes.

    Raises:
        FormatError: It is not a sidecar.
    """
    try:
        fields = json.loads(path.read_bytes())
        segment = Segment(**fields)
    except (OSError, ValueError, TypeError) as error:
        raise FormatError(f"{path} does not describe a segment: {error}.") from error
    if f"{segment.name}{SIDECAR}" != path.name:
        raise FormatError(f"{path} describes another segment, {segment.name!r}.")
    return segment


def raw_file(attempt: Path, segment: Segment) -> Path | None:
    """The segment's JSON, whole or as far as it came; None where there is none."""
    # torch writes under a further name before it gives the file the one that it was told.
    for name in (f"{segment.name}.json", f"{segment.name}.json.part", f"{segment.name}.json.part.tmp"):
        if (attempt / RAW / name).is_file():
            return attempt / RAW / name
    return None


def pending_segments(attempt: Path) -> list[Segment]:
    """The segments that have raw data and no tables yet, in the order in which they were recorded."""
    pending = []
    for path in sorted((attempt / RAW).glob(f"*{SIDECAR}")):
        try:
            segment = read_sidecar(path)
        except FormatError:
            continue
        if not (attempt / SEGMENTS / segment.name).exists() and raw_file(attempt, segment):
            pending.append(segment)
    return pending


def convert_segment(attempt: Path, segment: Segment, *, into: Path | None = None, keep_raw: bool = False) -> Path:
    """Turns one segment into tables; returns their folder. Where it fails, nothing has changed.

    Args:
        attempt: The folder of the rank's attempt, which is only read if ``into`` is given.
        segment: The segment.
        into: Where to put the segment's folder; by default beside the attempt's other segments, and then the raw file
            is removed.
        keep_raw: Do not remove it.

    Raises:
        FormatError: There is no raw file, or nothing in it can be read.
        CaptureError: The disk is full.
    """
    source = raw_file(attempt, segment)
    if source is None:
        raise FormatError(f"{attempt / RAW}: the file of {segment.name} is missing.")
    parent = into or attempt / SEGMENTS
    parent.mkdir(parents=True, exist_ok=True)
    final, draft = parent / segment.name, temporary_name(parent / segment.name)
    draft.mkdir()
    try:
        fields = {"rank": segment.rank, "attempt": segment.attempt}
        writer = _SegmentWriter(draft, fields, first_id=segment.first_id)
        segment_importer().import_segment(source, writer, segment)
        writer.write_collectives(attempt / RAW, segment)
        writer.close()
        draft.rename(final)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    sync_folder(parent)
    if into is None and not keep_raw:
        source.unlink(missing_ok=True)
    return final


class _SegmentWriter(RankWriter):
    """Holds the rows of ``collectives`` back until they can be joined with what the program noted of them."""

    def append(self, table: str, rows: Rows) -> None:
        """See ``RankWriter``."""
        if table == "collectives":
            self._held().append(conform(TABLES[table], rows, {"rank": self.rank}))
        else:
            super().append(table, rows)

    def _held(self) -> list[pa.Table]:
        held: list[pa.Table] = self.__dict__.setdefault("_held_collectives", [])
        return held

    def write_collectives(self, raw: Path, segment: Segment) -> None:
        """Joins and writes them."""
        end = segment.ts + segment.dur if segment.dur is not None else 1 << 62
        rows = [row for table in self._held() for row in table.to_pylist()]
        rows = joined(rows, self._starts(rows), read_notes(raw, segment.ts, end))
        if rows:
            columns = {name: [row.get(name) for row in rows] for name in TABLES["collectives"].schema.names}
            super().append("collectives", {**columns, "rank": [self.rank] * len(rows)})

    def _starts(self, rows: list[dict[str, Any]]) -> dict[int, int]:
        wanted = pa.array([row["slice_id"] for row in rows if row["slice_id"] is not None], pa.int64())
        found: dict[int, int] = {}
        if not len(wanted):
            return found
        for file in table_files(self.folder, "slices"):
            slices = pq.read_table(file.path, columns=["slice_id", "ts"], partitioning=None)
            slices = slices.filter(pc.is_in(slices["slice_id"], value_set=wanted))
            found.update(zip(slices["slice_id"].to_pylist(), slices["ts"].to_pylist(), strict=True))
        return found


def segment_importer() -> Any:
    """The importer that reads torch's JSON, as for a user's file.

    Raises:
        FormatError: None is installed.
    """
    for point in entry_points(group="stallscope.importers", name=_IMPORTER):
        return point.load()()
    raise FormatError(f"no importer named {_IMPORTER} is installed, so no segment can be converted.")
