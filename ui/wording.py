"""Figures and places as people read them on a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd

from ..analysis.finding_texts import duration_text

ABSENT = "–"
_MOST_NUMBERS = 8
_MICROSECONDS = re.compile(r"(?<=\d) us\b")
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def duration(ns: Any) -> str:
    """A length of time in three digits; a dash where it is not known."""
    return ABSENT if _missing(ns) else duration_text(int(ns)).replace("us", "µs")


def with_micro(text: str) -> str:
    """A sentence of the analysis, which writes ``us`` as terminals can, with the sign that ``duration`` uses."""
    return _MICROSECONDS.sub(" µs", text)


def share(frac: Any) -> str:
    """A share in per cent; a dash where it is not known."""
    return ABSENT if _missing(frac) else f"{100 * float(frac):.1f} %"


def size(count: Any) -> str:
    """An amount of memory in binary units; a dash where it is not known."""
    if _missing(count):
        return ABSENT
    value, unit = float(count), 0
    while abs(value) >= 1024 and unit < len(_UNITS) - 1:
        value, unit = value / 1024, unit + 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.3g} {_UNITS[unit]}"


def quantity(value: Any, unit: str) -> str:
    """A number with its unit, bytes in binary units; a dash where it is not known."""
    if _missing(value):
        return ABSENT
    if unit.startswith("bytes"):
        return size(value) + unit.removeprefix("bytes")
    return f"{float(value):,.4g} {unit}".strip()


def place(file: Any, line: Any, function: Any = None, line_source: Any = None) -> str:
    """``train.py:12 in step``; where only the function is known, that it is so; a dash where nothing is."""
    if _missing(file) or file == "":
        return ABSENT
    words = str(file) if _missing(line) else f"{file}:{int(line)}"
    if _missing(function) or not function:
        return words
    return f"in {function} ({words})" if line_source == "function" else f"{words} in {function}"


def counted(numbers: Sequence[int]) -> str:
    """``step 20`` or ``steps 20, 41``; the first of them where there are many."""
    shown = ", ".join(map(str, numbers[:_MOST_NUMBERS])) + (" and more" if len(numbers) > _MOST_NUMBERS else "")
    return f"step{'s' if len(numbers) > 1 else ''} {shown}"


def how_many(count: int, noun: str) -> str:
    """``1 recording`` or ``2 recordings``."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")


def editor_address(file: str, line: int) -> str | None:
    """The address that opens an absolute path in VS Code; None for any other path."""
    return f"vscode://file{quote(file)}:{line}" if file.startswith("/") else None


def _missing(value: Any) -> bool:
    return bool(pd.isna(value))
