"""Everything that the recording says of one slice: fields, stack, arrows, and the stalls that it explains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .collective_parts import collective_parts
from .program_callers import program_frames
from .source_position import SourceLine, python_line, stack_lines
from .stalls import stalls
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class Arrow:
    """A flow of a slice: ``kind`` as in the table ``flows``."""

    from_slice_id: int
    to_slice_id: int
    kind: str


@dataclass(frozen=True, slots=True)
class SliceFacts:
    """What is known of a slice.

    Attributes:
        fields: The columns of ``slices`` that are not null.
        stack: Its call stack, outermost first, from the recorded program on; empty where none is known.
        arrows: Flows that begin or end at it, at most as many as were asked for.
        arrow_count: How many there are.
    """

    fields: dict[str, Any]
    stack: tuple[SourceLine, ...]
    arrows: tuple[Arrow, ...]
    arrow_count: int


def slice_facts(
    recording: Recording, rank: int, slice_id: int, ts: int, *, most_arrows: int = 400
) -> SliceFacts | None:
    """What is known of a slice.

    Args:
        recording: The recording.
        rank: Its rank.
        slice_id: Its id.
        ts: Its start, ns: only what overlaps that instant is read.
        most_arrows: How many flows to return.
    """
    rows = recording.table("slices", ranks=(rank,), window=(ts, ts + 1))
    rows = rows.filter(pc.equal(rows["slice_id"], slice_id))
    if not rows.num_rows:
        return None
    fields = {name: value for name, value in rows.slice(0, 1).to_pylist()[0].items() if value is not None}
    arrows = [*_arrows(recording, rank, slice_id), *_peers(recording, slice_id, str(fields["category"]))]
    shown = tuple(Arrow(*row) for row in arrows[:most_arrows])
    return SliceFacts(fields, _stack(recording, fields), shown, len(arrows))


def stall_facts(recording: Recording, rank: int, stall_id: int) -> dict[str, Any] | None:
    """The row of ``stalls`` with this id, without what is unknown; None where there is none."""
    frame = all_stalls(recording, rank)
    found = frame[frame["stall_id"] == stall_id]
    if not len(found):
        return None
    row = found.iloc[0].to_dict()
    return {str(name): value for name, value in row.items() if isinstance(value, list) or not pd.isna(value)}


def all_stalls(recording: Recording, rank: int) -> pd.DataFrame:
    """``stalls`` of a whole rank; worked out once per recording."""
    frame: pd.DataFrame = memoized(recording, ("all_stalls", rank), lambda: stalls(recording, ranks=(rank,)))
    return frame


def stalls_resting_on(recording: Recording, rank: int, slice_id: int) -> pd.DataFrame:
    """The stalls and exposed copies of a rank that have a slice among their evidence, the longest first."""
    slices, stall_rows = memoized(recording, ("evidence", rank), lambda: _evidence(recording, rank))
    low, high = np.searchsorted(slices, [slice_id, slice_id + 1])
    found: pd.DataFrame = all_stalls(recording, rank).iloc[stall_rows[low:high]]
    return found.sort_values("dur", ascending=False)


def of_the_program(stalls: pd.DataFrame) -> pd.DataFrame:
    """Rows of the table ``stalls`` without the recorder's own pauses: the line that ran did not cause them."""
    return stalls[stalls["root_cause"] != "overhead"]


def longest_stall(
    recording: Recording,
    rank: int,
    *,
    root_cause: str | None = None,
    state: str | None = None,
    place: tuple[str, int] | None = None,
    step: int | None = None,
) -> int | None:
    """The id of the longest stall of a rank with the root cause, state, line (file, number) and step that are given.

    Where no root cause is given, the recorder's own pauses count only if there is nothing else.
    """
    frame = all_stalls(recording, rank)
    chosen = pd.Series(True, index=frame.index)
    if root_cause is not None:
        chosen &= frame["root_cause"] == root_cause
    if state is not None:
        chosen &= frame["state"] == state
    if place is not None:
        chosen &= (frame["file"].fillna("") == place[0]) & (frame["line"].fillna(0) == place[1])
    if step is not None:
        chosen &= frame["step"] == step
    frame = frame[chosen.fillna(False).astype(bool)]
    if root_cause is None and len(of_the_program(frame)):
        frame = of_the_program(frame)
    return int(frame["stall_id"].to_numpy()[frame["dur"].to_numpy().argmax()]) if len(frame) else None


def _evidence(recording: Recording, rank: int) -> tuple[Any, Any]:
    evidence = all_stalls(recording, rank)["evidence"]
    sizes = np.array([len(ids) for ids in evidence], dtype=np.int64)
    slices = np.array([slice_id for ids in evidence for slice_id in ids], dtype=np.int64)
    rows = np.repeat(np.arange(len(sizes)), sizes)
    order = np.argsort(slices, kind="stable")
    return slices[order], rows[order]


def _arrows(recording: Recording, rank: int, slice_id: int) -> list[tuple[int, int, str]]:
    """The flows of a slice; those of the rank's table are sorted once by either end."""
    source, target, kind, by_source, by_target = memoized(
        recording, ("flow_ends", rank), lambda: _ends(recording, rank)
    )
    found: list[int] = []
    for ends, order in ((source, by_source), (target, by_target)):
        low, high = np.searchsorted(ends[order], [slice_id, slice_id + 1])
        found += order[low:high].tolist()
    return [(int(source[n]), int(target[n]), kind[n].as_py()) for n in dict.fromkeys(found)]


def _peers(recording: Recording, slice_id: int, category: str) -> list[tuple[int, int, str]]:
    """From a part of a collective to the parts of the other ranks, from the device's to the devices'."""
    if category != "collective" or len(recording.ranks) < 2:
        return []
    parts = collective_parts(recording)
    for ids in (parts.device_slice_id, parts.slice_id):
        mine = np.flatnonzero(ids == slice_id)
        if len(mine):
            others = ids[(parts.match == parts.match[mine[0]]) & (ids >= 0) & (ids != slice_id)]
            return [(slice_id, other, "collective") for other in others.tolist()]
    return []


def _ends(recording: Recording, rank: int) -> tuple[Any, Any, pa.ChunkedArray, Any, Any]:
    flows = recording.table("flows", ranks=(rank,), columns=["from_slice_id", "to_slice_id", "kind"])
    source, target = (flows[name].to_numpy() for name in ("from_slice_id", "to_slice_id"))
    return source, target, flows["kind"], np.argsort(source, kind="stable"), np.argsort(target, kind="stable")


def _stack(recording: Recording, fields: dict[str, Any]) -> tuple[SourceLine, ...]:
    stack_id = fields.get("stack_id")
    if stack_id is None:
        own = python_line(fields["name"])
        return (own,) if own is not None else ()
    stacks = stack_lines(recording)
    place = int(stacks.place(np.array([stack_id], dtype=np.int64))[0])
    return program_frames(stacks.lines_of(place)) if place >= 0 else ()
