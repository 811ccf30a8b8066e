"""What happened more or less often: ops that fell back to the CPU, recompilations, graph breaks.

Such counts hardly vary from run to run, so a new one is worth a line even where the step time cannot tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .compare_lines import NOWHERE, Place, same_lines
from .compare_parts import nearest
from .run_facts import FallbackMeasure, RunMeasures

MOST_NOTES = 5


@dataclass(frozen=True, slots=True)
class FallbackDifference:
    """One op that falls back to the CPU at one place: calls and time in a run, the mean over a side's runs."""

    op: str
    root_op: str
    file: str | None
    line: int | None
    base_count: int
    new_count: int
    base_ns: int
    new_ns: int


@dataclass(frozen=True, slots=True)
class CompilationDifference:
    """A recompilation or graph break at one place for one reason: how often in a run, the mean over a side's runs."""

    kind: Literal["recompiled", "graph break"]
    name: str
    file: str | None
    line: int | None
    reason: str
    base_count: int
    new_count: int


def fallback_differences(base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> tuple[FallbackDifference, ...]:
    """Fallbacks of either side, those first whose time differs most.

    A line that an edit moved is the same line; it has the number that it has on the new side.
    """
    sums: dict[tuple[str, str, Place], list[int]] = {}
    places = [[_place(one) for run in runs for one in run.fallbacks] for runs in (base, new)]
    now = {old: place for place, old in same_lines(*places).items()}
    for side, runs in enumerate((base, new)):
        for run in runs:
            for one in run.fallbacks:
                place = _place(one)
                row = sums.setdefault((one.op, one.root_op, place if side else now.get(place, place)), [0, 0, 0, 0])
                row[side] += one.count
                row[2 + side] += one.host_ns
    sizes = (len(base), len(new), len(base), len(new))
    found = [
        FallbackDifference(
            op, root_op, file or None, line or None,
            *(nearest(value, size) for value, size in zip(row, sizes, strict=True)),
        )
        for (op, root_op, (file, line, _)), row in sums.items()
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda one: (-abs(one.new_ns - one.base_ns), one.op, one.file or "", one.line or 0)))


def _place(one: FallbackMeasure) -> Place:
    return (one.file, one.line or 0, one.function or "") if one.file else NOWHERE


def compilation_differences(
    base: Sequence[RunMeasures], new: Sequence[RunMeasures]
) -> tuple[CompilationDifference, ...]:
    """Recompilations and graph breaks of either side, those first whose number differs most."""
    kinds: tuple[Literal["recompiled", "graph break"], ...] = ("recompiled", "graph break")
    sums: dict[tuple[int, str, str | None, int | None, str], list[int]] = {}
    for side, runs in enumerate((base, new)):
        for run in runs:
            for kind, rows in enumerate((run.compilation.recompiles, run.compilation.graph_breaks)):
                for one in rows or ():
                    key = (kind, one.name, one.file, one.line, one.reason)
                    sums.setdefault(key, [0, 0])[side] += one.count
    found = [
        CompilationDifference(kinds[kind], name, file, line, reason, nearest(old, len(base)), nearest(now, len(new)))
        for (kind, name, file, line, reason), (old, now) in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: (-abs(one.new_count - one.base_count), one.kind, one.name, one.reason)))


def new_counts(
    fallbacks: Sequence[FallbackDifference], compilations: Sequence[CompilationDifference]
) -> tuple[str, ...]:
    """A sentence for each op that falls back, and each recompilation or break, that the base side has not."""
    found = []
    for op in sorted({one.op for one in fallbacks}):
        mine = [one for one in fallbacks if one.op == op]
        if not any(one.base_count for one in mine):
            where = next((f" ({one.file}:{one.line})" for one in mine if one.file), "")
            times = sum(one.new_count for one in mine)
            found.append(f"New: {op} falls back to the CPU, {times} times a run{where}.")
    for again in compilations:
        if again.new_count and not again.base_count:
            where = f" ({again.file}:{again.line})" if again.file else ""
            what = f"{again.name} is compiled again" if again.kind == "recompiled" else "the graph breaks"
            found.append(f"New: {what}, {again.new_count} times a run{where}: {again.reason or 'no reason recorded'}.")
    more = len(found) - MOST_NOTES
    return (*found[:MOST_NOTES], *((f"New: {more} more ops, recompilations or graph breaks.",) if more > 0 else ()))
