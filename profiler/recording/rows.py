"""Rows made to fit a table: the right columns, types and order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .arrow_arrays import array_of, array_of_numbers, numbers_of
from .errors import CaptureError
from .schema import Table

Rows: TypeAlias = pa.Table | pa.RecordBatch | Mapping[str, Any]
"""What can be appended: Arrow, or a list or numpy array for each column."""


def conform(table: Table, rows: Rows, defaults: Mapping[str, Any] | None = None) -> pa.Table:
    """The rows with the table's columns, in its order and types.

    A column that is absent becomes its default, or null where the schema allows null. Text is dictionary-encoded where
    the schema says so. Values are cast, never rounded or wrapped.

    Args:
        table: The table that the rows belong to.
        rows: Columns of one length; a list may hold None.
        defaults: One value for every row of a column that the rows lack.

    Raises:
        CaptureError: A column is unknown, has another length, cannot be cast, or lacks a value that it must have.
    """
    given = _columns(rows)
    known = {column.name for column in table.columns}
    for name in given:
        if name not in known:
            raise CaptureError(f"table {table.name} has no column {name!r}; it has {', '.join(sorted(known))}.")
    count = max((len(values) for values in given.values()), default=0)
    arrays = []
    for field in table.schema:
        if field.name in given:
            values = _cast(table, field, given[field.name])
        elif defaults is not None and field.name in defaults:
            values = _cast(table, field, [defaults[field.name]] * count)
        elif field.nullable:
            values = pa.nulls(count, field.type)
        else:
            raise CaptureError(f"rows for table {table.name} lack column {field.name!r}, which cannot be null.")
        if len(values) != count:
            raise CaptureError(f"{table.name}.{field.name} has {len(values)} values where others have {count}.")
        if not field.nullable and values.null_count:
            raise CaptureError(f"{table.name}.{field.name} has {values.null_count} nulls and cannot be null.")
        arrays.append(values)
    return pa.table(arrays, schema=table.schema)


def in_order(table: Table, rows: pa.Table) -> pa.Table:
    """The rows in the table's order; rows with equal keys keep the order they came in, nulls come last."""
    rows = rows.unify_dictionaries()
    if rows.num_rows < 2 or not table.order:
        return rows.combine_chunks()
    indices = _sort_indices(table, rows)
    return rows.combine_chunks() if indices is None else rows.combine_chunks().take(array_of_numbers(indices))


def is_in_order(table: Table, rows: pa.Table) -> bool:
    """Whether no row belongs before the one above it."""
    if rows.num_rows < 2 or not table.order:
        return True
    indices = _sort_indices(table, rows.unify_dictionaries())
    return indices is None or bool(np.all(indices[1:] > indices[:-1]))


def _sort_indices(table: Table, rows: pa.Table) -> np.ndarray[Any, np.dtype[np.int64]] | None:
    """The stable permutation that puts the rows in the table's order; None where they are in order already."""
    keys = [rows.column(name) for name in table.order]
    if all(pa.types.is_integer(key.type) and key.null_count == 0 for key in keys):
        numbers = [numbers_of(key) for key in keys]
        if _ascending(numbers):
            return None
        return np.lexsort(numbers[::-1])
    plain = [key.cast(pa.string()) if pa.types.is_dictionary(key.type) else key for key in keys]
    names = [str(position) for position in range(len(plain))]
    order = pc.sort_indices(pa.table(plain, names=names), sort_keys=[(n, "ascending") for n in names])
    indices: np.ndarray[Any, np.dtype[np.int64]] = numbers_of(order).astype(np.int64)
    return indices


def _ascending(keys: Sequence[np.ndarray[Any, Any]]) -> bool:
    """Whether no row has a smaller key than the row before, the first key deciding first."""
    equal = np.ones(len(keys[0]) - 1, dtype=bool)
    for key in keys:
        if bool(np.any(equal & (key[1:] < key[:-1]))):
            return False
        equal &= key[1:] == key[:-1]
    return True


def _columns(rows: Rows) -> dict[str, Any]:
    if isinstance(rows, pa.RecordBatch | pa.Table):
        return {name: rows.column(name) for name in rows.schema.names}
    return dict(rows)


def _cast(table: Table, field: pa.Field, values: Any) -> pa.ChunkedArray | pa.Array:
    try:
        if not isinstance(values, pa.ChunkedArray | pa.Array):
            is_numeric = isinstance(values, np.ndarray) and values.dtype.kind in "iufb"
            values = array_of_numbers(values) if is_numeric else array_of(values, field.type)
        if values.type == field.type:
            return values
        if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(values.type):
            values = values.cast(field.type.value_type).dictionary_encode()
        return values.cast(field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CaptureError(f"{table.name}.{field.name} cannot hold these values as {field.type}: {error}") from error
