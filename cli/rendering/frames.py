"""Tables of an analysis (pandas frames) as rows on a page, and as rows of JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from . import numbers, text
from .page import Page
from .tables import Cell, Column, print_table

Row = Mapping[str, Any]
WIDEST_NAME = 160


@dataclass(frozen=True, slots=True)
class Field:
    """A column on the page.

    Attributes:
        column: How it is laid out.
        cell: Makes its cell from a row of the frame.
    """

    column: Column
    cell: Callable[[Row], str | Cell]


def duration_field(key: str, title: str, style: str = "") -> Field:
    """A column of durations, from one in ns."""
    return Field(Column(title, right=True, style=style), lambda row: numbers.duration(row[key]))


def size_field(key: str, title: str) -> Field:
    """A column of amounts of memory, from one in bytes."""
    return Field(Column(title, right=True), lambda row: numbers.size(row[key]))


def count_field(key: str, title: str) -> Field:
    """A column of counts."""
    return Field(Column(title, right=True), lambda row: numbers.count(row[key]))


def share_field(key: str, title: str) -> Field:
    """A column of percentages, from one of shares (0..1)."""
    return Field(Column(title, right=True), lambda row: numbers.share(row[key], 1))


def part_field(part: str, whole: str, title: str) -> Field:
    """A column of percentages, from two columns of a part and its whole."""
    return Field(Column(title, right=True), lambda row: numbers.share(row[part], row[whole]))


def name_field(key: str, title: str, weight: int = 1) -> Field:
    """A column of names from a trace, which give way where the page is narrow."""
    return Field(Column(title, fit=text.shortened, weight=weight), lambda row: text.name(_text(row[key]), WIDEST_NAME))


def word_field(key: str, title: str) -> Field:
    """A column of our own words, such as a cause: short, and never cut."""
    return Field(Column(title), lambda row: text.name(_text(row[key]), WIDEST_NAME))


def line_field(weight: int = 1, *, unknown: str = numbers.ABSENT) -> Field:
    """A column of ``file:line``, of which the end stays; ``unknown`` where there is no file."""

    def cell(row: Row) -> str:
        if row["file"] is None:
            return unknown
        return text.source_line(_text(row["file"]), int(row["line"]) if row["line"] else None, WIDEST_NAME)

    return Field(Column("line", fit=text.path_end, weight=weight), cell)


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def records(frame: Any, limit: int = 0) -> list[dict[str, Any]]:
    """The first ``limit`` rows of a frame (0: all) as dicts of plain values; what is missing becomes None."""
    from .json_output import plain

    head = frame.head(limit) if limit else frame
    columns = {name: plain(head[name].tolist()) for name in head.columns}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def print_frame(page: Page, frame: Any, fields: Sequence[Field], *, limit: int = 0, indent: int = 0) -> None:
    """Prints the first rows of a frame, and says how many are left out."""
    rows = records(frame, limit)
    print_table(page, [f.column for f in fields], [[f.cell(row) for f in fields] for row in rows], indent)
    if len(frame) > len(rows):
        page.print(f"{'':>{indent}}... {len(frame) - len(rows):,} more: --limit 0 shows all")
