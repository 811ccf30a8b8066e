"""Rows in types that a CSV file can hold."""

from __future__ import annotations

import json

import pyarrow as pa


def plain_rows(rows: pa.Table) -> pa.Table:
    """The rows in types that a CSV file can hold: repeated text as text, a list as a JSON array."""
    columns, fields = [], []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        elif pa.types.is_nested(field.type):
            column = pa.array([None if v is None else json.dumps(v, default=str) for v in column.to_pylist()])
        columns.append(column)
        fields.append(pa.field(field.name, column.type))
    return pa.table(columns, schema=pa.schema(fields))
