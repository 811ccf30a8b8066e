"""Kernels, ops and lines of a run's steady steps, over all ranks, as rows that another run's can be matched with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pandas as pd

from ..profiler.recording.short_names import short_name
from .kernels import kernels
from .ops import ops
from .run_facts import WorkRow
from .source_lines import source_lines

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

KEPT = 300
"""Rows of each table that are kept by name: the rest of a run adds up in one more."""

OTHERS = "(others)"

Key = tuple[str, str]
Values = tuple[int, int, int]
"""Count, device time, host time."""


def work_tables(
    recording: Recording, ranks: tuple[int, ...]
) -> tuple[tuple[WorkRow, ...], tuple[WorkRow, ...], tuple[WorkRow, ...]]:
    """Kernels by name and grid, ops by name, lines of source: each most time first, over the steady steps."""
    return (
        _table(recording, ranks, _kernel_rows, short_name),
        _table(recording, ranks, _op_rows),
        _table(recording, ranks, _line_rows),
    )


def _table(
    recording: Recording,
    ranks: tuple[int, ...],
    rows_of: Callable[[Recording, int], list[tuple[Key, Values]]],
    readable: Callable[[str], str | None] = lambda name: name,
) -> tuple[WorkRow, ...]:
    """The rows of all ranks added up; ``readable`` makes the short name, the name itself where it gives none."""
    sums: dict[Key, list[int]] = {}
    for rank in ranks:
        for key, values in rows_of(recording, rank):
            one = sums.setdefault(key, [0, 0, 0])
            for place, value in enumerate(values):
                one[place] += value
    rows = [WorkRow(name, detail, readable(name) or name, *values) for (name, detail), values in sums.items()]
    rows.sort(key=lambda row: (-row.device_ns - row.host_ns, row.name, row.detail))
    return _shortened(rows)


def _shortened(rows: list[WorkRow]) -> tuple[WorkRow, ...]:
    """The first rows, and one that holds the sums of the others."""
    if len(rows) <= KEPT + 1:
        return tuple(rows)
    rest = rows[KEPT:]
    sums = (sum(row.count for row in rest), sum(row.device_ns for row in rest), sum(row.host_ns for row in rest))
    return (*rows[:KEPT], WorkRow(OTHERS, "", f"{len(rest)} others", *sums))


def _kernel_rows(recording: Recording, rank: int) -> list[tuple[Key, Values]]:
    frame = kernels(recording, rank=rank, by="name+grid")
    keys = zip(_texts(frame["name"]), _texts(frame["grid"]), strict=True)
    return [(key, (count, ns, 0)) for key, count, ns in zip(keys, frame["count"], frame["total_ns"], strict=True)]


def _op_rows(recording: Recording, rank: int) -> list[tuple[Key, Values]]:
    frame = ops(recording, rank=rank)
    columns = (frame[name].tolist() for name in ("count", "device_self_ns", "host_self_ns"))
    return [((name, ""), values) for name, *values in zip(_texts(frame["op"]), *columns, strict=True)]  # type: ignore[misc]


def _line_rows(recording: Recording, rank: int) -> list[tuple[Key, Values]]:
    frame = source_lines(recording, rank=rank, training_only=True)
    found: list[tuple[Key, Values]] = []
    for file, line, function, calls, device, host in zip(
        _texts(frame["file"]), frame["line"], _texts(frame["function"]), frame["calls"], frame["device_ns"],
        frame["host_ns"], strict=True,
    ):  # fmt: skip
        place = f"{file}:{line}" if file and not pd.isna(line) else file
        found.append(((place, function), (0 if pd.isna(calls) else int(calls), int(device), int(host))))
    return found


def _texts(column: pd.Series[str]) -> Sequence[str]:
    return ["" if pd.isna(value) else str(value) for value in column]
