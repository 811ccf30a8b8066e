"""What a column and a table of a recording are."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

INT64, INT32, UINT64, FLOAT64, BOOL = pa.int64(), pa.int32(), pa.uint64(), pa.float64(), pa.bool_()
TEXT = pa.string()
NAME = pa.dictionary(pa.int32(), pa.string())
"""Text that repeats: stored once, referred to by number."""
IDS = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: The column's name.
        type: Its Arrow type.
        meaning: What a value says, with the table that it refers to if it is an id.
        unit: The unit of a number ("ns", "bytes", ...); empty where there is none.
        null: What null means; empty where the column has none.
        source: The field that it comes from in a torch.profiler trace, or what sets it.
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    null: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a recording.

    Attributes:
        name: Its name.
        row: What one row is.
        columns: Its columns.
        order: The columns by which its files are sorted.
        key: The columns that tell one thing from another, where several segments may describe the same thing; readers
            see the first description.
    """

    name: str
    row: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()
    key: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; a column is nullable exactly where its ``null`` says what null means."""
        return pa.schema([pa.field(c.name, c.type, nullable=bool(c.null)) for c in self.columns])

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


RANK = Column("rank", INT64, "The rank in the job; 0 where the job has one.", source="distributedInfo.rank")
"""The column that most tables have."""
