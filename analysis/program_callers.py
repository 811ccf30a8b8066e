"""Which frames stand above the recorded program: what ``stallscope record`` went through before it ran it.

The command line and the session call the program, so their functions last as long as it does, a dozen of them one
within the other. They say nothing about the program. A timeline or a tree begins beneath them; the recording, its
tables and every sum keep them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from .source_position import SourceLine
from .timeline import Timeline

Mask = npt.NDArray[np.bool_]

_FILE = r"(?:^|/)profiler/session/program\.py"
_RUNS_PROGRAM = re.compile(_FILE + r"\(\d+\): run_program$")
_RUNS_THREAD = re.compile(r"(?:^|/)(?:profiler/session/session|collectors/live/\w+)\.py\(\d+\): _run$")
_OWN_THREADS = "stallscope-"
_MOST_ABOVE_THREAD = 5
"""How many functions may stand above the one that runs a thread of ours."""
_NEARLY_ALL_FRAC = 0.99
_PROGRAM_FILE = re.compile(_FILE + "$")


def runs_program(names: Sequence[str]) -> Mask:
    """Which names of Python slices are those of the function that runs the program."""
    return np.array([_RUNS_PROGRAM.search(name or "") is not None for name in names], dtype=np.bool_)


def caller_rows(t: Timeline) -> Mask:
    """Which rows of a timeline are that function or contain it."""
    callers = np.zeros(len(t), dtype=np.bool_)
    if not len(t):
        return callers
    rows = np.flatnonzero(runs_program(t.names)[t.name]).astype(np.int64)
    while len(rows):
        callers[rows] = True
        above = np.unique(t.parent[rows]).astype(np.int64)
        rows = above[(above >= 0) & ~callers[above]]
    return callers


def caller_slices(
    start: npt.NDArray[np.int64],
    end: npt.NDArray[np.int64],
    lane: npt.NDArray[np.int64],
    depth: npt.NDArray[np.int64],
    runs: Mask,
) -> tuple[Mask, npt.NDArray[np.int64]]:
    """Of the slices of one track, in any order: which are callers, and how many of them contain each slice.

    Args:
        start: Starts, ns.
        end: Ends, ns.
        lane: Lanes.
        depth: How many slices of its lane contain each.
        runs: Which are the function that runs the program.
    """
    callers, inside = runs.copy(), np.zeros(len(start), dtype=np.int64)
    if not runs.any():
        return callers, inside
    shallow = np.flatnonzero(depth <= depth[runs].max())
    for one in np.flatnonzero(runs).tolist():
        contains = (start[shallow] <= start[one]) & (end[shallow] >= end[one])
        callers[shallow[contains & (lane[shallow] == lane[one]) & (depth[shallow] < depth[one])]] = True
    order = np.argsort(start, kind="stable")
    starts = start[order]
    for one in np.flatnonzero(callers).tolist():
        low, high = np.searchsorted(starts, (start[one], end[one]), side="left")
        held = order[low : max(high, low)]
        inside[held[(lane[held] == lane[one]) & (depth[held] > depth[one]) & (end[held] <= end[one])]] += 1
    return callers, inside


def recorder_threads(t: Timeline) -> frozenset[int]:
    """Indices of the tracks of threads that record: of their own name, or begun by a function that runs one."""
    found = {one.index for one in t.tracks if one.kind == "thread" and one.name.startswith(_OWN_THREADS)}
    begins = np.array([*(_RUNS_THREAD.search(name) is not None for name in t.names), False], dtype=np.bool_)
    top = np.flatnonzero(begins[t.name] & (t.depth <= _MOST_ABOVE_THREAD)).astype(np.int64)
    while len(top) and (t.parent[top] >= 0).any():
        top = np.unique(np.where(t.parent[top] >= 0, t.parent[top], top))
    for track in np.unique(t.track[top]).tolist():
        rows = np.arange(len(t))[t.rows_of_track(track)]
        whole, own = (
            int((t.end - t.ts)[chosen].sum()) for chosen in (rows[t.depth[rows] == 0], top[t.track[top] == track])
        )
        # A thread that is not known by name may stand on one track with others.
        if own >= _NEARLY_ALL_FRAC * whole:
            found.add(track)
    return frozenset(found)


def program_frames(stack: Sequence[SourceLine]) -> tuple[SourceLine, ...]:
    """A call stack, outermost first, without the frames above the program; unchanged where it has none of them."""
    runs = [
        number
        for number, line in enumerate(stack)
        if line.function == "run_program" and _PROGRAM_FILE.search(line.file or "")
    ]
    return tuple(stack[runs[-1] + 1 :]) if runs else tuple(stack)
