"""Tables of a recording as CSV or Parquet files: one file a table, all ranks in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from ...profiler.recording.plain_rows import plain_rows
from .row_batches import row_batches

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording


def write_csv(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes a CSV file with a heading; null is an empty field. Returns the number of rows."""
    from pyarrow import csv

    rows = 0
    plain_schema = plain_rows(schema.empty_table()).schema
    plain_schema = pa.schema(
        [pa.field(f.name, pa.string() if pa.types.is_null(f.type) else f.type) for f in plain_schema]
    )
    with csv.CSVWriter(path, plain_schema) as writer:
        for batch in batches:
            writer.write_table(plain_rows(pa.Table.from_batches([batch])).cast(plain_schema))
            rows += batch.num_rows
    return rows


def write_parquet(path: Path, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> int:
    """Writes a Parquet file; returns the number of rows."""
    import pyarrow.parquet as pq

    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for batch in batches:
            writer.write_batch(batch)
            rows += batch.num_rows
    return rows


WRITERS: dict[str, Callable[[Path, pa.Schema, Iterable[pa.RecordBatch]], int]] = {
    "csv": write_csv,
    "parquet": write_parquet,
}


def export_tables(
    recording: Recording,
    folder: Path,
    form: str,
    tables: Sequence[str],
    windows: Mapping[int, tuple[int, int] | None],
) -> dict[str, int]:
    """Writes ``folder/TABLE.csv`` or ``.parquet`` for each table that has rows.

    Args:
        recording: Where from.
        folder: Where to; made if it is not there.
        form: A key of ``WRITERS``.
        tables: Which tables.
        windows: The ranks, each with the part of its time (None: all).

    Returns:
        The rows of each file, by table.
    """
    from ...profiler.recording.schema import TABLES

    written = {}
    folder.mkdir(parents=True, exist_ok=True)
    for name in tables:
        batches = chain.from_iterable(row_batches(recording, name, (rank,), window) for rank, window in windows.items())
        path = folder / f"{name}.{form}"
        rows = WRITERS[form](path, TABLES[name].schema, batches)
        if rows:
            written[name] = rows
        else:
            path.unlink()
    return written
