"""Rows of one table that wait to become a part."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

from .errors import CaptureError
from .layout import all_table_files
from .parquet_files import ROW_GROUP_ROWS, RUN_GROUP_ROWS, name_part, temporary_name, write_parquet
from .rows import in_order, is_in_order
from .schema import Table

PART_ROWS = 262_144
"""A part is closed at this many rows."""

KEPT_ROWS = 4 * PART_ROWS
"""Rows that are kept while the disk takes none; older ones are dropped and counted."""


class PartBuffer:
    """The waiting rows of one table of one attempt."""

    def __init__(self, table: Table, attempt: Path) -> None:
        self._table = table
        self._attempt = attempt
        self._folder = attempt / table.name
        self._waiting: list[pa.Table] = []
        self._rows = 0
        self._since = 0.0
        self._dropped = 0

    def add(self, rows: pa.Table) -> None:
        """Takes rows that have the table's schema; drops the oldest ones where KEPT_ROWS would be exceeded."""
        if not rows.num_rows:
            return
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(rows)
        self._rows += rows.num_rows
        while self._rows > KEPT_ROWS and len(self._waiting) > 1:
            oldest = self._waiting.pop(0)
            self._rows -= oldest.num_rows
            self._dropped += oldest.num_rows

    def take_dropped(self) -> int:
        """How many rows were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def close_part(self, age_s: float) -> None:
        """Writes the waiting rows if they fill a part or have waited for ``age_s``.

        Raises:
            OSError: The disk took none; the rows wait on.
        """
        if not self._waiting or (self._rows < PART_ROWS and time.monotonic() - self._since < age_s):
            return
        self._write([in_order(self._table, pa.concat_tables(self._waiting))], RUN_GROUP_ROWS)
        self._waiting, self._rows = [], 0

    def write_sorted(self, batches: Iterable[pa.Table]) -> int:
        """Writes rows that are in order as one part; returns how many.

        Raises:
            CaptureError: They are not in order.
            OSError: The disk is full.
        """
        return self._write(_checked(self._table, batches), ROW_GROUP_ROWS)

    def _write(self, batches: Iterable[pa.Table], group_rows: int) -> int:
        self._folder.mkdir(exist_ok=True)
        temporary = temporary_name(self._folder / "part")
        try:
            rows = write_parquet(temporary, self._table, batches, group_rows=group_rows)
            if rows:
                taken = [file.last for file in all_table_files(self._attempt, self._table.name)]
                name_part(temporary, self._folder, max(taken, default=-1) + 1)
        finally:
            temporary.unlink(missing_ok=True)
        return rows


def _checked(table: Table, batches: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same batches; CaptureError where one is out of order in itself or with the one before."""
    before: pa.Table | None = None
    for batch in batches:
        if not batch.num_rows:
            continue
        border = batch.slice(0, 1) if before is None else pa.concat_tables([before, batch.slice(0, 1)])
        if not is_in_order(table, border) or not is_in_order(table, batch):
            raise CaptureError(f"rows given as sorted are not in the order of {table.name}: {', '.join(table.order)}.")
        before = batch.take([batch.num_rows - 1])  # a slice would keep the whole batch alive
        yield batch
