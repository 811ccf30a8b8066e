"""The rows of one table of one attempt, from whatever files hold them, however damaged."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from .errors import FormatError
from .layout import TableFile, table_files
from .rows import in_order
from .schema import Table

Window = tuple[int, int]
"""[start, end) in ns."""


@dataclass(slots=True)
class Damage:
    """Files that could not be read whole: path -> what went wrong, in words."""

    files: dict[Path, str] = field(default_factory=dict)


def read_rows(
    folders: Sequence[Path], table: Table, columns: Sequence[str], window: Window | None, damage: Damage
) -> list[pa.Table]:
    """The rows of an attempt in the table's order.

    Args:
        folders: The folders that hold tables of the attempt.
        table: Which table.
        columns: Which columns, in that order.
        window: Only rows that overlap it; None: all. Ignored by tables without ``ts``.
        damage: Takes the files that cannot be read; the row groups of them that can be are returned.

    Returns:
        One table, or none where there are no rows.

    Raises:
        FormatError: A file lacks a column that cannot be null, or holds another type.
    """
    found: list[pa.Table] = []
    for folder in folders:
        try:
            found += _read_folder(folder, len(folders) > 1, table, columns, window, damage)
        except FileNotFoundError:
            # The writer merged the parts after they were listed; the merged file holds their rows.
            found += _read_folder(folder, len(folders) > 1, table, columns, window, damage)
    rows = in_order(table, pa.concat_tables(found)) if len(found) > 1 else found[0] if found else None
    if rows is not None and table.key and len(found) > 1:
        rows = _first_of_each(table, rows)
    return [] if rows is None else [rows.select(list(columns))]


def _first_of_each(table: Table, rows: pa.Table) -> pa.Table:
    """The first row of each thing that the table's key tells apart; a segment may describe what another one did."""
    seen: set[tuple[object, ...]] = set()
    kept = []
    for place, key in enumerate(zip(*(rows.column(name).to_pylist() for name in table.key), strict=True)):
        if key not in seen:
            seen.add(key)
            kept.append(place)
    return rows.take(pa.array(kept, pa.int64()))


def _read_folder(
    folder: Path,
    is_one_of_many: bool,
    table: Table,
    columns: Sequence[str],
    window: Window | None,
    damage: Damage,
) -> list[pa.Table]:
    """The rows of each file that has any, with the columns that their order needs if there may be several files."""
    files = table_files(folder, table.name)
    order = (*table.order, *table.key) if is_one_of_many or len(files) > 1 else ()
    needed = list(dict.fromkeys([*columns, *_window_columns(table, window), *order]))
    read = [_read_file(file, table, needed, window, damage) for file in files]
    return [rows for rows in read if rows.num_rows]


def in_window(table: Table, rows: pa.Table, window: Window) -> pa.Table:
    """The rows that overlap the window.

    With a duration: [ts, ts + dur) meets [start, end); one without an end reaches on for ever; one of no length counts
    where its ts lies. Without a duration: ts lies in the window. A null ts is never in a window.
    """
    start, end = window
    names = rows.schema.names
    ts = rows.column("ts")
    before_end = pc.less(ts, end)
    if "dur" not in names or table.name == "losses":
        keep = pc.and_(pc.greater_equal(ts, start), before_end)
    else:
        dur = rows.column("dur")
        reaches = pc.or_(pc.greater(pc.add(ts, pc.fill_null(dur, 0)), start), pc.equal(ts, start))
        keep = pc.and_(before_end, pc.or_(reaches, pc.is_null(dur)))
    return rows.filter(keep)


def _window_columns(table: Table, window: Window | None) -> list[str]:
    if window is None:
        return []
    return [column.name for column in table.columns if column.name in ("ts", "dur")]


def _read_file(
    file: TableFile, table: Table, columns: Sequence[str], window: Window | None, damage: Damage
) -> pa.Table:
    try:
        parquet = pq.ParquetFile(file.path, page_checksum_verification=True)
    except FileNotFoundError:
        raise
    except (pa.ArrowException, OSError) as error:
        damage.files[file.path] = _reason(error)
        return table.schema.empty_table().select(list(columns))
    with parquet:
        present = [name for name in columns if name in parquet.schema_arrow.names]
        groups = _row_groups(parquet, table, window)
        rows = _fitted(_read_groups(parquet, groups, present, file.path, damage), table, columns, file.path)
    return rows if window is None or "ts" not in rows.schema.names else in_window(table, rows, window)


def _read_groups(
    parquet: pq.ParquetFile, groups: Sequence[int], columns: Sequence[str], path: Path, damage: Damage
) -> pa.Table:
    """The row groups' rows; where some are damaged, those of the others."""
    try:
        return parquet.read_row_groups(list(groups), columns=list(columns))
    except (pa.ArrowException, OSError) as error:
        reason = _reason(error)
    whole = []
    lost = 0
    for group in groups:
        try:
            whole.append(parquet.read_row_group(group, columns=list(columns)))
        except (pa.ArrowException, OSError):
            lost += parquet.metadata.row_group(group).num_rows
    damage.files[path] = f"{lost} rows cannot be read: {reason}"
    empty = parquet.schema_arrow.empty_table().select(list(columns))
    return pa.concat_tables([empty, *whole])


def _row_groups(parquet: pq.ParquetFile, table: Table, window: Window | None) -> list[int]:
    """The row groups that can hold rows of the window, as far as the bounds of ``ts`` and ``dur`` tell."""
    metadata = parquet.metadata
    groups = list(range(metadata.num_row_groups))
    names = parquet.schema_arrow.names
    if window is None or "ts" not in names:
        return groups
    position = {metadata.schema.column(place).path: place for place in range(metadata.num_columns)}
    has_duration = "dur" in names and table.name != "losses"
    kept = []
    for group in groups:
        columns = metadata.row_group(group)
        ts = columns.column(position["ts"]).statistics
        dur = columns.column(position["dur"]).statistics if has_duration else None
        if _can_reach(ts, dur, window, has_duration=has_duration):
            kept.append(group)
    return kept


def _can_reach(ts: Any, dur: Any, window: Window, *, has_duration: bool) -> bool:
    """Whether a row group may hold a row of the window, from its statistics; True where they do not tell."""
    if ts is None or not ts.has_min_max:
        return True
    if ts.min >= window[1]:
        return False
    if not has_duration:
        return bool(ts.max >= window[0])
    is_bounded = dur is not None and dur.has_min_max and dur.has_null_count and dur.null_count == 0
    return not is_bounded or bool(ts.max + dur.max >= window[0])


def _fitted(rows: pa.Table, table: Table, columns: Sequence[str], path: Path) -> pa.Table:
    """The rows with exactly these columns in the schema's types; a nullable one that the file lacks is null."""
    arrays = []
    fields = []
    for name in columns:
        field_ = table.schema.field(name)
        fields.append(field_)
        if name not in rows.schema.names:
            if not field_.nullable:
                raise FormatError(f"{path}: column {name!r} is missing and cannot be null.")
            arrays.append(pa.nulls(rows.num_rows, field_.type))
            continue
        column = rows.column(name)
        try:
            arrays.append(column if column.type == field_.type else _cast(column, field_.type))
        except pa.ArrowException as error:
            raise FormatError(f"{path}: column {name!r} is {column.type}, expected {field_.type}: {error}.") from error
    return pa.table(arrays, schema=pa.schema(fields)) if arrays else rows.select([])


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(column.type):
        column = column.cast(wanted.value_type).dictionary_encode()
    return column.cast(wanted)


def _reason(error: Exception) -> str:
    return str(error).splitlines()[0] if str(error) else type(error).__name__
