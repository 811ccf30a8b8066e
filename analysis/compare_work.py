"""Which kernels, ops and lines of one side the other has too, and what each costs in the mean step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from .compare_lines import Place, same_lines
from .compare_parts import mean_over_runs, mean_parts
from .run_facts import RunMeasures, WorkRow
from .run_work import OTHERS

Change = Literal["new", "gone", "count", "time", "same", "not listed"]
"""What became of a kernel: only on the new side; only on the base side; another number a step; the same number taking
another time; neither; or on one side among those that were not kept by name."""

SAME_FRAC = 0.02
"""A time that differs by less than this share of the base side's is the same."""

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class WorkDifference:
    """One kernel (by name and grid), op (by name) or line in the mean step of both sides.

    Attributes:
        name: Full name, or ``file:line``.
        detail: Grid and block of a kernel; the function of a line.
        short_name: The readable form of the name.
        change: What became of it.
        base_count: How often in a step, on average.
        new_count: The same on the new side.
        base_device_ns: Device time in a step.
        new_device_ns: The same on the new side.
        device_difference_ns: New minus base.
        base_host_ns: Self time on the host in a step.
        new_host_ns: The same on the new side.
        host_difference_ns: New minus base.
    """

    name: str
    detail: str
    short_name: str
    change: Change
    base_count: float
    new_count: float
    base_device_ns: int
    new_device_ns: int
    device_difference_ns: int
    base_host_ns: int
    new_host_ns: int
    host_difference_ns: int


def work_differences(
    base: Sequence[RunMeasures], new: Sequence[RunMeasures], table: Callable[[RunMeasures], tuple[WorkRow, ...]]
) -> tuple[WorkDifference, ...]:
    """Every row of either side, the largest difference (of device and host time together) first.

    The device times add up to the device time of the mean step on each side, the host times to its host time, exactly.
    Runs that were kept without tables do not count; there is no row where a side has no other.

    Args:
        base: The base side's runs.
        new: The new side's runs.
        table: Which table of a run: its kernels, ops or lines.
    """
    if not all(any(run.has_tables for run in runs) for runs in (base, new)):
        return ()
    sides = [_side(runs, table) for runs in (base, new)]
    short = {(row.name, row.detail): row.short_name for run in (*new, *base) for row in table(run)}
    cut = [(OTHERS, "") in side.device for side in sides]
    rows = [_difference(key, name, sides, cut) for key, name in short.items()]
    order = sorted(rows, key=lambda row: (row.name, row.detail))
    return tuple(sorted(order, key=lambda row: -abs(row.device_difference_ns) - abs(row.host_difference_ns)))


def line_differences(base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> tuple[WorkDifference, ...]:
    """The same for lines of source, where a line that moved, or whose file did, is the same line.

    It has the name that it has on the new side.
    """
    places = [{_place(row): (row.name, row.detail) for run in runs for row in run.lines} for runs in (base, new)]
    same = {places[1][now]: old for now, old in same_lines(*places).items()}
    keys = {key: places[0].get(old, key) for key, old in same.items()}
    shown = {old: key for key, old in keys.items()}
    called = [replace(run, lines=tuple(_renamed(row, keys) for row in run.lines)) for run in new]
    rows = work_differences(base, called, lambda run: run.lines)
    back = [(row, shown.get((row.name, row.detail), (row.name, row.detail))) for row in rows]
    return tuple(replace(row, name=name, detail=detail, short_name=name) for row, (name, detail) in back)


def _place(row: WorkRow) -> Place:
    file, colon, line = row.name.rpartition(":")
    return (file, int(line), row.detail) if colon and line.isdigit() else (row.name, 0, row.detail)


def _renamed(row: WorkRow, keys: Mapping[Key, Key]) -> WorkRow:
    name, detail = keys[row.name, row.detail]
    return replace(row, name=name, detail=detail)


@dataclass(frozen=True, slots=True)
class _Side:
    count: Mapping[Key, float]
    device: Mapping[Key, int]
    host: Mapping[Key, int]


def _side(runs: Sequence[RunMeasures], table: Callable[[RunMeasures], tuple[WorkRow, ...]]) -> _Side:
    measured = [run for run in runs if run.device_steps and run.has_tables]
    if not measured:
        return _Side({}, {}, {})
    counts: dict[Key, float] = {}
    device, host = [], []
    for run in measured:
        rows = {(row.name, row.detail): row for row in table(run)}
        for key, row in rows.items():
            counts[key] = counts.get(key, 0.0) + row.count / run.device_steps / len(measured)
        device.append(mean_parts({key: row.device_ns for key, row in rows.items()}, run.device_steps))
        host.append(mean_parts({key: row.host_ns for key, row in rows.items()}, run.device_steps))
    return _Side(counts, mean_over_runs(device), mean_over_runs(host))


def _difference(key: Key, short_name: str, sides: Sequence[_Side], cut: Sequence[bool]) -> WorkDifference:
    (base, new) = sides
    counts = base.count.get(key, 0.0), new.count.get(key, 0.0)
    device = base.device.get(key, 0), new.device.get(key, 0)
    host = base.host.get(key, 0), new.host.get(key, 0)
    return WorkDifference(
        name=key[0],
        detail=key[1],
        short_name=short_name,
        change=_change(key, sides, cut),
        base_count=round(counts[0], 3),
        new_count=round(counts[1], 3),
        base_device_ns=device[0],
        new_device_ns=device[1],
        device_difference_ns=device[1] - device[0],
        base_host_ns=host[0],
        new_host_ns=host[1],
        host_difference_ns=host[1] - host[0],
    )


def _change(key: Key, sides: Sequence[_Side], cut: Sequence[bool]) -> Change:
    base, new = sides
    there = [key in side.device for side in sides]
    if not all(there):
        if cut[there.index(False)]:
            return "not listed"
        return "gone" if there[0] else "new"
    if round(base.count[key], 2) != round(new.count[key], 2):
        return "count"
    old, now = base.device[key] + base.host[key], new.device[key] + new.host[key]
    return "same" if abs(now - old) <= SAME_FRAC * old else "time"
