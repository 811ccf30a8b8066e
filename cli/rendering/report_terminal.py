"""A report on a terminal page."""

from __future__ import annotations

import textwrap

from rich.text import Text

from .page import Page
from .report import Report, Section
from .tables import Cell, print_table
from .text import printable

_STYLES = {"": "", "worse": "red", "better": "green", "warn": "yellow", "quiet": "dim"}


def print_head(page: Page, report: Report) -> None:
    """Prints what is said first."""
    for piece in textwrap.wrap(printable(report.title), page.width, break_on_hyphens=False):
        page.print(Text(piece, "bold"))
    page.print()
    for line in report.lines:
        _wrapped(page, "> ", line, "bold")
    for line in report.warnings:
        _wrapped(page, "! ", line, "yellow")
    for line in report.notes:
        _wrapped(page, "  ", line, "dim")


def print_section(page: Page, section: Section) -> None:
    """Prints a heading and its table."""
    page.heading(section.title, section.note)
    rows = [[Cell(printable(cell.text), _STYLES[cell.tone]) for cell in row] for row in section.rows]
    print_table(page, section.columns, rows, indent=2)
    if section.more:
        page.print(f"  ... {section.more:,} more: --limit 0 shows all")


def _wrapped(page: Page, mark: str, line: str, style: str) -> None:
    for place, piece in enumerate(textwrap.wrap(printable(line), page.width - 2, break_on_hyphens=False)):
        page.print(Text.assemble((mark if not place or mark == "  " else "  "), (piece, style)))
