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
from .nesting import above, nearest
from .run_facts import CompilationMeasures, PlacedCount
from .selection import host_selection
from .source_position import row_lines
from .steps import device_steps, host_steps

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

RECOMPILED, GRAPH_BREAK = "recompiled: ", "graph break"
"""How the compile collector names its instants."""


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
    steady = np.flatnonzero(np.array(cut.steady, dtype=np.bool_))
    begins = int(cut.starts[steady[0]]) if len(steady) else (end if len(cut) else start)
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
    sums = [_compiled(recording, rank) for rank in ranks]
    watched = all("compile" in (recording.rank_info(rank).get("collectors") or {}) for rank in ranks)
    instants = _instants(recording, ranks) if watched else {}
    return CompilationMeasures(
        count=sum(one[0] for one in sums),
        ns=sum(one[1] for one in sums),
        steady_count=sum(one[2] for one in sums),
        steady_ns=sum(one[3] for one in sums),
        recompiles=_placed(instants, RECOMPILED) if watched else None,
        graph_breaks=_placed(instants, GRAPH_BREAK) if watched else None,
    )


def _compiled(recording: Recording, rank: int) -> tuple[int, int, int, int]:
    """Outermost compilations and their time: in all, and of those that begin in a steady step."""
    activity = rank_activity(recording, rank)
    t, causes = activity.timeline, activity.causes
    compiling = causes.cause == CAUSE_CODE["compile"]
    opens = compiling & (causes.context == np.arange(len(t))) & (t.end > t.ts)
    rows = np.flatnonzero(opens & (above(t.parent, nearest(t.parent, opens)) < 0))
    selection = host_selection(recording, rank)
    inside = rows[selection.holds(t.ts[rows])] if selection.steps else rows[:0]
    lengths = [iv.total(iv.union(iv.intervals(t.ts[some], t.end[some]))) for some in (rows, inside)]
    return len(rows), lengths[0], len(inside), lengths[1]


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
