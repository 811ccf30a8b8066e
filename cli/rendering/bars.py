"""A span of time as a bar: one run of cells per state, as long as its share.

The states are told apart by their fill as well as by colour, so that the bar also reads in a log, on paper and
without colour vision.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.text import Text

from .numbers import duration, share


@dataclass(frozen=True, slots=True)
class Fill:
    """How a state is drawn: its cell with and without Unicode, its colour, and its words."""

    unicode: str
    ascii: str
    style: str
    words: str


FILLS = {
    "compute": Fill("█", "#", "green", "compute"),
    "communication": Fill("▓", "=", "cyan", "exposed communication"),
    "data_movement": Fill("▒", "-", "yellow", "exposed data movement"),
    "stall": Fill("░", ".", "red", "stall"),
}
"""The states of a device, in the order in which a bar shows them."""


def cells(parts: Mapping[str, int], width: int) -> dict[str, int]:
    """How many of ``width`` cells each part takes: the largest remainders round up, so that they sum to ``width``.

    >>> cells({"compute": 500, "communication": 250, "data_movement": 0, "stall": 250}, 10)
    {'compute': 5, 'communication': 3, 'data_movement': 0, 'stall': 2}
    """
    whole = sum(parts.values())
    if whole <= 0:
        return dict.fromkeys(parts, 0)
    given = {name: part * width // whole for name, part in parts.items()}
    by_remainder = sorted(parts, key=lambda name: -(parts[name] * width % whole))
    for name in by_remainder[: width - sum(given.values())]:
        given[name] += 1
    return given


def state_bar(parts: Mapping[str, int], width: int, *, unicode: bool) -> Text:
    """The bar of the states in ``FILLS``, ``width`` cells long (less where there is no time at all)."""
    bar = Text()
    for name, cell_count in cells({name: parts.get(name, 0) for name in FILLS}, width).items():
        fill = FILLS[name]
        bar.append((fill.unicode if unicode else fill.ascii) * cell_count, fill.style)
    return bar


def legend(parts: Mapping[str, int], *, unicode: bool, width: int) -> list[Text]:
    """What each fill means, which share and how long, for the states that have any time; lines of at most ``width``."""
    whole = sum(parts.get(name, 0) for name in FILLS)
    lines = [Text()]
    for name, fill in FILLS.items():
        part = parts.get(name, 0)
        if not part:
            continue
        item = Text.assemble(
            (fill.unicode if unicode else fill.ascii, fill.style),
            f" {fill.words} ",
            (share(part, whole), "bold"),
            (f" {duration(part)}", "dim"),
        )
        if lines[-1] and lines[-1].cell_len + 3 + item.cell_len > width:
            lines.append(Text())
        lines[-1].append("   " if lines[-1] else "").append_text(item)
    return lines
