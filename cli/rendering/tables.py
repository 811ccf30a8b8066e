"""Tables of plain columns that never exceed the page: numbers keep their width, names give way.

Laid out here rather than by rich, whose tables take a millisecond a row and wrap a long name over several lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from .page import Page
from .text import shortened

GAP = "  "
NARROWEST_NAME = 10


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        title: Its heading.
        right: Whether its cells stand at the right, as numbers do.
        fit: For a column that may be narrowed: makes a cell fit a width. None for one that keeps its width.
        weight: How much of the free width this column takes, next to the other ones that may be narrowed.
        style: The rich style of its cells.
    """

    title: str
    right: bool = False
    fit: Callable[[str, int], str] | None = None
    weight: int = 1
    style: str = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell with a style of its own."""

    text: str
    style: str


def number_column(title: str, style: str = "") -> Column:
    """A column of numbers."""
    return Column(title, right=True, style=style)


def name_column(title: str, weight: int = 1, fit: Callable[[str, int], str] = shortened) -> Column:
    """A column of names, which is narrowed where the page is too narrow."""
    return Column(title, fit=fit, weight=weight)


def print_table(page: Page, columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]], indent: int = 0) -> None:
    """Prints a heading and the rows, none wider than the page. Cells must be printable already (``text.printable``)."""
    for line in table_lines(columns, rows, page.width - indent):
        page.print(Text(" " * indent).append_text(line))


def table_lines(columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]], width: int) -> list[Text]:
    """The heading and the rows of a table in at most ``width`` columns."""
    cells = [[_cell(item, column) for item, column in zip(row, columns, strict=True)] for row in rows]
    widths = _widths(columns, cells, width)
    lines = [_line([Cell(column.title, "bold") for column in columns], columns, widths)]
    lines += [_line(row, columns, widths) for row in cells]
    return lines


def _cell(item: str | Cell, column: Column) -> Cell:
    return item if isinstance(item, Cell) else Cell(item, column.style)


def _widths(columns: Sequence[Column], cells: list[list[Cell]], width: int) -> list[int]:
    """The width of each column: what its cells want, the columns with a ``fit`` cut down to what is left."""
    wanted = [
        max([cell_len(column.title), *(cell_len(row[index].text) for row in cells)])
        for index, column in enumerate(columns)
    ]
    free = width - len(GAP) * (len(columns) - 1) - sum(w for w, c in zip(wanted, columns, strict=True) if not c.fit)
    flexible = [index for index, column in enumerate(columns) if column.fit]
    while flexible:
        weights = sum(columns[index].weight for index in flexible)
        content = [i for i in flexible if wanted[i] <= free * columns[i].weight // weights]
        if not content:
            for index in flexible:
                wanted[index] = max(NARROWEST_NAME, free * columns[index].weight // weights)
            break
        for index in content:
            free -= wanted[index]
            flexible.remove(index)
    return wanted


def _line(row: list[Cell], columns: Sequence[Column], widths: list[int]) -> Text:
    line = Text(no_wrap=True, end="")
    for index, (cell, column, width) in enumerate(zip(row, columns, widths, strict=True)):
        text = fitted(cell.text, width, column.fit or shortened)
        padding = " " * (width - cell_len(text))
        last = index == len(columns) - 1
        line.append(f"{padding}{text}" if column.right else text if last else f"{text}{padding}", cell.style or None)
        if not last:
            line.append(GAP)
    return line


def columns_that_fit(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int) -> int:
    """How many of the first columns fit the width when names are narrowed as far as they go; at least one."""
    needed = -len(GAP)
    for index, column in enumerate(columns):
        wanted = max([cell_len(column.title), *(cell_len(row[index]) for row in rows)])
        needed += len(GAP) + (min(wanted, NARROWEST_NAME) if column.fit else wanted)
        if needed > width:
            return max(index, 1)
    return len(columns)


def fitted(text: str, width: int, fit: Callable[[str, int], str] = shortened) -> str:
    """The text in at most ``width`` columns of the terminal, also where characters are two columns wide."""
    if cell_len(text) <= width:
        return text
    short = fit(text, width)
    return short if cell_len(short) <= width else set_cell_size(short, width).rstrip()
