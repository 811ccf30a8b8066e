"""What a run cost before its first steady step and after its last one, and what it compiled."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from . import intervals as iv
from .causes import CAUSE_CODE
from .device_activity import rank_activity
from .nesting import Ints, Mask, above, nearest
from .run_facts import CompilationMeasures, CompiledPlace, PlacedCount
from .selection import host_selection
from .slice_lines import slice_lines
from .source_position import row_lines
from .steps import device_steps, host_steps
from .timeline import Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

RECOMPILED, GRAPH_BREAK = "recompiled: ", "graph break"
"""How the compile collector names its instants."""

MOST_PLACES = 24
"""Kept of what was compiled where; a network of many layers compiles most of its ops at few lines."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Preparation, execution and completion of a run (see ``RunMeasures``)."""

    all_steps: int
    preparation_steps: int
    cold_start_ns: int
    preparation_ns: int
    execution_ns: int
    completion_ns: int


def spans(recording: Recording, ranks: tuple[int, ...]) -> Spans:
    """The spans of the rank that was recorded longest, by its host; all zero where nothing was recorded."""
    extents = {rank: rank_activity(recording, rank).host.extent for rank in ranks}
    if not extents:
        return Spans(0, 0, 0, 0, 0, 0)
    rank = max(extents, key=lambda one: (extents[one][1] - extents[one][0], -one))
    start, end = extents[rank]
    cut = host_steps(recording, rank)
    prepared = np.flatnonzero(~np.array(cut.cold, dtype=np.bool_))
    begins = int(cut.starts[prepared[0]]) if len(prepared) else (end if len(cut) else start)
    finish = max(int(cut.ends[-1]), begins) if len(cut) else end
    first = host_steps(recording, ranks[0])
    cold = max((_cold_start(recording, one) for one in ranks), default=0)
    return Spans(len(first), first.cold.count(True), cold, begins - start, finish - begins, end - finish)


def _cold_start(recording: Recording, rank: int) -> int:
    """How long the steps took that prepared or warmed up, on the rank's first device."""
    devices = rank_activity(recording, rank).devices
    if not devices:
        return 0
    cut = device_steps(recording, rank, devices[0])
    return int((cut.ends - cut.starts)[np.array(cut.cold, dtype=np.bool_)].sum())


def compilation(recording: Recording, ranks: tuple[int, ...]) -> CompilationMeasures:
    """What was compiled in the whole recording."""
    found = [_compiled(recording, rank) for rank in ranks]
    watched = all("compile" in (recording.rank_info(rank).get("collectors") or {}) for rank in ranks)
    instants = _instants(recording, ranks) if watched else {}
    return CompilationMeasures(
        count=sum(len(one.rows) for one in found),
        ns=sum(one.total_ns(one.rows) for one in found),
        steady_count=sum(int(one.steady.sum()) for one in found),
        steady_ns=sum(one.total_ns(one.rows[one.steady]) for one in found),
        recompiles=_placed(instants, RECOMPILED) if watched else None,
        graph_breaks=_placed(instants, GRAPH_BREAK) if watched else None,
        places=_compiled_places(recording, found),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Compiled:
    """The outermost compilations of a rank, as rows of its timeline, and which of them begin in a steady step."""

    timeline: Timeline
    rows: Ints
    steady: Mask

    def total_ns(self, rows: Ints) -> int:
        """How long some of them took together."""
        return iv.total(iv.union(iv.intervals(self.timeline.ts[rows], self.timeline.end[rows])))


def _compiled(recording: Recording, rank: int) -> _Compiled:
    activity = rank_activity(recording, rank)
    t, causes = activity.timeline, activity.causes
    compiling = causes.cause == CAUSE_CODE["compile"]
    opens = compiling & (causes.context == np.arange(len(t))) & (t.end > t.ts)
    rows = np.flatnonzero(opens & (above(t.parent, nearest(t.parent, opens)) < 0))
    selection = host_selection(recording, rank)
    steady = selection.holds(t.ts[rows]) if selection.steps else np.zeros(len(rows), dtype=np.bool_)
    return _Compiled(t, rows, steady)


def _compiled_places(recording: Recording, found: list[_Compiled]) -> tuple[CompiledPlace, ...]:
    """What was compiled where, over all ranks."""
    sums: dict[tuple[str, str | None, int | None, str | None], tuple[int, int, int]] = {}
    for one in found:
        t = one.timeline
        lines, line = slice_lines(recording, t.rank, one.rows)
        op = nearest(t.parent, t.is_category("op", "fallback"))[one.rows]
        named = np.where(op >= 0, op, one.rows)
        for row, code, steady, name in zip(one.rows.tolist(), line.tolist(), one.steady.tolist(), named, strict=True):
            place = lines[code] if code >= 0 else None
            where = (place.file, place.line or None, place.function) if place else (None, None, None)
            key = (t.name_of(int(name)), *where)
            count, of_steady, ns = sums.get(key, (0, 0, 0))
            sums[key] = (count + 1, of_steady + int(steady), ns + int(t.dur[row]))
    places = [CompiledPlace(key[0], *values, *key[1:]) for key, values in sums.items()]
    places.sort(key=lambda one: (-one.steady_count, -one.count, -one.ns, one.name, one.file or "", one.line or 0))
    return tuple(places[:MOST_PLACES])


Key = tuple[str, str | None, int | None, str]


def _instants(recording: Recording, ranks: tuple[int, ...]) -> dict[Key, int]:
    """The instants of the compile collector: (name, file, line, reason) -> count."""
    counts: dict[Key, int] = {}
    for rank in ranks:
        table = recording.table("slices", ranks=(rank,), columns=["slice_id", "kind", "category", "name", "args"])
        chosen = pc.and_(
            pc.equal(table["kind"].cast("string"), "instant"), pc.equal(table["category"].cast("string"), "compile")
        )
        table = table.filter(chosen)
        if not table.num_rows:
            continue
        activity, lines = rank_activity(recording, rank), row_lines(recording, rank)
        at = activity.timeline.rows_of(table["slice_id"].to_numpy())
        for row, name, args in zip(at.tolist(), table["name"].to_pylist(), table["args"].to_pylist(), strict=True):
            place = lines.lines[lines.line[row]] if row >= 0 and lines.line[row] >= 0 else None
            key = (name, place.file if place else None, place.line if place else None, _reason(args))
            counts[key] = counts.get(key, 0) + 1
    return counts


def _reason(args: str | None) -> str:
    try:
        told = json.loads(args) if args else {}
    except ValueError:
        return ""
    return str(told.get("reason", "")) if isinstance(told, dict) else ""


def _placed(instants: dict[Key, int], prefix: str) -> tuple[PlacedCount, ...]:
    found = [
        PlacedCount(name.removeprefix(RECOMPILED), count, file, line, reason)
        for (name, file, line, reason), count in instants.items()
        if name.startswith(prefix)
    ]
    return tuple(sorted(found, key=lambda one: (-one.count, one.name, one.file or "", one.line or 0, one.reason)))
