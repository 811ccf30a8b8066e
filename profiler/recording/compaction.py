"""Parts merged into one file in the table's order, with little memory however long the recording.

Every file is sorted in itself, so a k-way merge does it: from each file some rows are held; those that no file can
undercut any more are sorted together and written. Memory: ``HELD_ROWS`` rows over all files and one row group of
output, for any number of rows; a process that merged 1.2 to 4.8 million slices with 90 bytes of args each stayed below
480 MB. More than ``FAN_IN`` files are merged in several rounds, each of which leaves a readable recording.

Tables whose order is by text (devices, losses, ...) are small and sorted whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .arrow_arrays import numbers_of
from .layout import TableFile, all_table_files, table_files
from .parquet_files import ROW_GROUP_ROWS, RUN_GROUP_ROWS, sync_folder, temporary_name, write_parquet
from .rows import in_order
from .schema import Table

HELD_ROWS = 131_072
"""Rows of all files together that a merge holds."""

SMALLEST_BATCH = 4096
"""Rows read at a time from a file, however many files there are."""

FAN_IN = 32
"""Files that one round merges."""

_NULL_KEY = np.iinfo(np.int64).max
"""Sorts nulls last."""

Keys = list[np.ndarray[Any, np.dtype[np.int64]]]


def compact(attempt: Path, table: Table) -> None:
    """Merges the table's files into one and removes those that it replaces; does nothing where that is done already.

    Raises:
        OSError: The disk is full: the parts stay as they are.
        pyarrow.ArrowException: A part is damaged: all parts stay as they are.
    """
    while (files := table_files(attempt, table.name)) and not _is_final(files):
        groups = _groups(files)
        group_rows = ROW_GROUP_ROWS if len(groups) == 1 else RUN_GROUP_ROWS
        for group in groups:
            if len(group) > 1 or len(groups) == 1:
                _merge_into_one(attempt / table.name, table, group, group_rows)
    for file in all_table_files(attempt, table.name):
        if file not in files:
            file.path.unlink(missing_ok=True)


def _is_final(files: Sequence[TableFile]) -> bool:
    """Whether there is one file, in row groups of full size."""
    if len(files) > 1:
        return False
    metadata = pq.read_metadata(files[0].path)
    return bool(metadata.num_row_groups <= -(-metadata.num_rows // ROW_GROUP_ROWS))


def _groups(files: Sequence[TableFile]) -> list[Sequence[TableFile]]:
    """Neighbouring files in groups of at most FAN_IN, as even as they can be."""
    groups = -(-len(files) // FAN_IN)
    size = -(-len(files) // groups)
    return [files[start : start + size] for start in range(0, len(files), size)]


def merged(paths: Sequence[Path], table: Table) -> Iterator[pa.Table]:
    """The rows of sorted files, batch by batch in the table's order; equal keys in the order of the files.

    Raises:
        pyarrow.ArrowException: A file is damaged.
    """
    if not all(pa.types.is_integer(table.column(name).type) for name in table.order) or not table.order:
        yield in_order(table, pa.concat_tables([_read(path) for path in paths]))
        return
    size = max(SMALLEST_BATCH, HELD_ROWS // max(1, len(paths)))
    runs = [_Run(path, table, size) for path in paths]
    while held := [run for run in runs if run.fill()]:
        yield in_order(table, pa.concat_tables(_settled(held)))


def _read(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read()


def _settled(runs: Sequence[_Run]) -> list[pa.Table]:
    """Takes from each run the rows that come before everything that is still in the files."""
    unread = [(run.last_key(), position) for position, run in enumerate(runs) if not run.is_exhausted]
    if not unread:
        return [run.take(run.count) for run in runs]
    bound, bounding = min(unread)
    # A later file's rows with the bounding key wait for the rest of those rows in the bounding file.
    return [run.take(run.position(bound, inclusive=position <= bounding)) for position, run in enumerate(runs)]


class _Run:
    """A sorted file that is read from the front."""

    def __init__(self, path: Path, table: Table, batch_rows: int) -> None:
        self._table = table
        self._batches = pq.ParquetFile(path, pre_buffer=False).iter_batches(batch_size=batch_rows, use_threads=False)
        self._rows: pa.Table = table.schema.empty_table()
        self._keys: Keys = []
        self.is_exhausted = False
        self.count = 0

    def fill(self) -> bool:
        """Reads on if nothing is held; whether anything is held then."""
        while self.count == 0 and not self.is_exhausted:
            batch = next(self._batches, None)
            if batch is None:
                self.is_exhausted = True
            else:
                self._hold(pa.Table.from_batches([batch]).select(self._table.schema.names).cast(self._table.schema))
        return self.count > 0

    def last_key(self) -> tuple[int, ...]:
        return tuple(int(key[-1]) for key in self._keys)

    def position(self, bound: tuple[int, ...], *, inclusive: bool) -> int:
        """How many of the held rows have a smaller key than the bound, or with ``inclusive`` no larger one."""
        low, high = 0, self.count
        for key, value in zip(self._keys, bound, strict=True):
            within = key[low:high]
            low, high = low + int(within.searchsorted(value)), low + int(within.searchsorted(value, side="right"))
        return high if inclusive else low

    def take(self, count: int) -> pa.Table:
        """The first rows that are held, which are held no longer."""
        taken = self._rows.slice(0, count)
        self._rows = self._rows.slice(count)
        self._keys = [key[count:] for key in self._keys]
        self.count -= count
        return taken

    def _hold(self, rows: pa.Table) -> None:
        self._rows, self.count = rows, rows.num_rows
        self._keys = [_key(rows.column(name)) for name in self._table.order]


def _key(column: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.int64]]:
    return numbers_of(column.cast(pa.int64()), _NULL_KEY)


def _merge_into_one(folder: Path, table: Table, files: Sequence[TableFile], group_rows: int) -> None:
    temporary = temporary_name(folder / "merged")
    final = folder / f"sorted-{files[0].first:05d}-{files[-1].last:05d}.parquet"
    try:
        write_parquet(temporary, table, merged([file.path for file in files], table), group_rows=group_rows)
        temporary.replace(final)
    finally:
        temporary.unlink(missing_ok=True)
    sync_folder(folder)
    for file in files:
        if file.path != final:
            file.path.unlink(missing_ok=True)
