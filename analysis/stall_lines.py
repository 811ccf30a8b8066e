"""Which line of source a stall belongs to: the line behind its root cause.

A slice's line is that of its innermost user frame. Where its own parents name none (the range that a DataLoader opens
has no stack), the first op inside it does; where nothing of the host is recorded, the Python function that covered most
of that time; and for a thread without Python, what the training loop ran meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .device_activity import RankActivity, rank_activity
from .host_activity import Pieces, innermost
from .nesting import above, nearest
from .source_position import RowLines, row_lines
from .stall_rows import StallRows
from .timeline import Ints, Timeline, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

LINE_SOURCES = ("function", "stack")
"""``function``: the line of the function's ``def``; ``stack``: the line that ran, from a stack taken at an op."""


def stall_lines(recording: Recording, rank: int, rows: StallRows) -> tuple[RowLines, Ints, npt.NDArray[np.int8]]:
    """The line of each stall row.

    Returns:
        The lines of the rank; per stall row an index into ``lines.lines``, -1 where no line is known; and per stall row
        an index into ``LINE_SOURCES``, -1 with it.
    """
    activity = rank_activity(recording, rank)
    t, lines = activity.timeline, row_lines(recording, rank)
    if not lines.lines or not len(rows):
        nothing = np.full(len(rows), -1, dtype=np.int64)
        return lines, nothing, nothing.astype(np.int8)
    of_row = np.append(lines.line.astype(np.int64), -1)
    anchor = rows.root_row
    found = of_row[anchor]
    inside = memoized(recording, ("first_inside", rank), lambda: _first_inside(t, lines))
    found = np.where((found < 0) & (anchor >= 0), of_row[np.append(inside, -1)[anchor]], found)
    python = memoized(recording, ("python_pieces", rank), lambda: _python_pieces(activity))
    starts = np.where(anchor >= 0, np.append(t.ts, 0)[anchor], rows.root_ts)
    ends = np.where(anchor >= 0, np.append(t.end, 0)[anchor], rows.root_end)
    missing = np.flatnonzero((found < 0) & (starts < ends))
    found[missing] = of_row[_covering(python, starts[missing], ends[missing])]
    # The stacks of Python slices name a def; those that were taken at an op, or by a live collector, the line that ran.
    ran = (np.append(t.stack, -1)[anchor] >= 0) & (np.append(t.segment, 0)[anchor] < 0)
    if not t.is_category("python").any():
        ran[:] = True
    source = np.where(ran, LINE_SOURCES.index("stack"), LINE_SOURCES.index("function"))
    return lines, found, np.where(found >= 0, source, -1).astype(np.int8)


def _first_inside(t: Timeline, lines: RowLines) -> Ints:
    """Per row the first row with a line that starts inside it on the same track; -1 for none."""
    number = np.arange(len(t), dtype=np.int64)
    following = np.minimum.accumulate(np.where(lines.line >= 0, number, len(t))[::-1])[::-1]
    known = following < len(t)
    result = np.full(len(t), -1, dtype=np.int64)
    place = following[known]
    good = (t.track[place] == t.track[known]) & (t.ts[place] < t.end[known])
    result[np.flatnonzero(known)[good]] = place[good]
    return result


def _python_pieces(activity: RankActivity) -> Pieces:
    """The innermost Python function that the training loop's thread was in, at every instant."""
    t, main = activity.timeline, activity.host.threads.main
    python = t.is_category("python")
    if main < 0 or not python.any():
        return Pieces(np.array(activity.host.extent, dtype=np.int64), np.array([-1], dtype=np.int64))
    place = t.rows_of_track(main)
    rows = (np.flatnonzero(python[place]) + place.start).astype(np.int32)
    return innermost(t, rows, above(t.parent, nearest(t.parent, python)), activity.host.extent)


def _covering(pieces: Pieces, starts: Ints, ends: Ints) -> Ints:
    """The row that holds for most of each window; -1 where none does."""
    result = np.full(len(starts), -1, dtype=np.int64)
    owner, piece, first, last = pieces.walk(starts, ends)
    named = pieces.rows[piece] >= 0
    owner, row, length = owner[named], pieces.rows[piece[named]], (last - first)[named]
    order = np.argsort(length, kind="stable")
    result[owner[order]] = row[order]
    return result
