"""Stalls and exposed copies added up by what the device waited for: the op whose work came late, or the step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import pandas as pd

from .nesting import Mask, above, nearest
from .slice_facts import all_stalls
from .timeline import Ints, Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

Work = Literal["op", "step"]
WORKS: tuple[Work, ...] = get_args(Work)

_KEYS = ["rank", "device_type", "device_index", "state", "root_cause"]
_STEP = "ProfilerStep#"


def stalls_by_work(
    recording: Recording, *, by: Work, ranks: tuple[int, ...] | None = None, step: int | None = None
) -> pd.DataFrame:
    """Stalls and exposed copies of whole ranks added up by root cause and work.

    Args:
        recording: The recording.
        by: ``op``: the outermost op that launched the operation which ended the stall, and the innermost annotation
            around it. ``step``: the step that the stall lies in.
        ranks: Whose stalls; all by default.
        step: Only those of this step.

    Returns:
        One row per rank, device, state, root cause and work, the longest first: rank, device_type, device_index, state,
        root_cause, op and within ("" where not known) or step (NA: outside all steps), dur (ns in all), count,
        longest_ns, longest (the stall_id of the longest).
    """
    chosen = recording.ranks if ranks is None else ranks
    frame = pd.concat([_of_rank(recording, rank, by) for rank in chosen], ignore_index=True)
    if step is not None:
        frame = frame[(frame["step"] == step).fillna(False).astype(bool)]
    names = ["op", "within"] if by == "op" else ["step"]
    # The first of each group is its longest.
    groups = frame.sort_values("dur", ascending=False, kind="stable").groupby(
        [*_KEYS, *names], dropna=False, observed=True, sort=False
    )
    sums = groups.agg(
        dur=("dur", "sum"), count=("dur", "size"), longest_ns=("dur", "max"), longest=("stall_id", "first")
    )
    return sums.reset_index().sort_values("dur", ascending=False, kind="stable", ignore_index=True)


def _of_rank(recording: Recording, rank: int, by: Work) -> pd.DataFrame:
    frame = all_stalls(recording, rank)[[*_KEYS, "step", "dur", "stall_id", "ended_by"]]
    if by == "step":
        return frame
    t = timeline(recording, rank)
    op, within = memoized(recording, ("op_and_annotation", rank), lambda: _op_and_annotation(t))
    ended = t.rows_of(frame["ended_by"].fillna(-1).to_numpy(dtype=np.int64))
    launch = np.append(t.launch, -1)[ended]
    names = np.array([*t.names, ""], dtype=object)
    name = np.append(t.name, -1)
    own, around = (names[name[np.append(rows, -1)[launch]]] for rows in (op, within))
    # Without a launch, as with ops on threads in a device's place, the operation itself is what came late.
    return frame.assign(op=np.where((own == "") & (launch < 0), names[name[ended]], own), within=around)


def _op_and_annotation(t: Timeline) -> tuple[Ints, Ints]:
    """Per row the outermost op at or above it, and the innermost annotation above, but for the step's; -1 for none."""
    ops = t.is_category("op")
    op = nearest(t.parent, ops)
    outer = above(t.parent, op)
    while True:
        higher = np.append(outer, -1)[op]
        if not (higher >= 0).any():
            break
        op = np.where(higher >= 0, higher, op)
    steps = np.array([*(name.startswith(_STEP) for name in t.names), False], dtype=np.bool_)
    marks: Mask = t.is_category("annotation") & ~steps[t.name]
    return op, nearest(t.parent, marks)
