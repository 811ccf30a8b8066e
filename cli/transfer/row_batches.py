"""The rows of a table batch by batch, so that a recording of any size passes through bounded memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ...profiler.recording.errors import FormatError
from ...profiler.recording.schema import TABLES
from ...profiler.recording.table_reader import in_window

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording

BATCH_ROWS = 65_536


def row_batches(
    recording: Recording,
    table: str,
    ranks: Sequence[int],
    window: tuple[int, int] | None = None,
    columns: Sequence[str] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Batches of a table's rows, file after file; sorted within a file.

    Args:
        recording: Where from.
        table: A name of ``schema.TABLES``.
        ranks: Whose rows.
        window: Only rows that overlap it (as ``Recording.table``), where the table has ``ts``.
        columns: Which columns, in that order; None: all.

    Raises:
        FormatError: A file cannot be read.
    """
    schema = TABLES[table].schema
    wanted = list(columns or schema.names)
    timed = window if "ts" in schema.names else None
    needed = list(dict.fromkeys([*wanted, *(c for c in ("ts", "dur") if timed and c in schema.names)]))
    for path in recording.files(table, ranks):
        try:
            with pq.ParquetFile(path) as file:
                present = [name for name in needed if name in file.schema_arrow.names]
                for batch in file.iter_batches(BATCH_ROWS, columns=present):
                    rows = _fitted(batch, schema, needed)
                    rows = in_window(TABLES[table], rows, timed) if timed else rows
                    yield from rows.select(wanted).to_batches()
        except pa.ArrowException as error:
            raise FormatError(
                f"{path} cannot be read: {str(error).splitlines()[0]}", hint="`stallscope info` lists damaged files."
            ) from error


def _fitted(batch: pa.RecordBatch, schema: pa.Schema, columns: Sequence[str]) -> pa.Table:
    """The batch with exactly these columns, null where an older writer had none."""
    fields = [schema.field(name) for name in columns]
    arrays = [
        batch.column(field.name).cast(field.type)
        if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in fields
    ]
    return pa.table(arrays, schema=pa.schema(fields))
