"""A report as data: headings, notes and tables that a terminal, Markdown and HTML show alike."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .tables import Column

Tone = Literal["", "worse", "better", "warn", "quiet"]


@dataclass(frozen=True, slots=True)
class ReportCell:
    """A cell: its text, which may hold anything that a trace holds, and how it is meant.

    Attributes:
        text: The text, not escaped for any output.
        tone: Whether it is bad or good news; "" for neither.
    """

    text: str
    tone: Tone = ""


@dataclass(frozen=True, slots=True)
class Section:
    """A table with its heading.

    Attributes:
        title: The heading.
        note: What the numbers are, behind the heading.
        columns: Its columns.
        rows: Its rows.
        more: How many rows were left out.
    """

    title: str
    note: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[ReportCell]]
    more: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """What is said first, then the tables.

    Attributes:
        title: What it is about.
        lines: The verdict and the reasons, one sentence each.
        warnings: What to know before believing them.
        notes: What to know besides.
        sections: The tables.
    """

    title: str
    lines: Sequence[str]
    warnings: Sequence[str]
    notes: Sequence[str]
    sections: Sequence[Section]
