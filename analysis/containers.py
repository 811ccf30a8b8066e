"""Which slice contains which, across the lanes of a track.

torch.profiler's slices stand in one lane of a thread and those that live collectors write (a checkpoint, a garbage
collection) in another, so the parent of a slice, which is of its own lane, misses what contains it in the other.
"""

from __future__ import annotations

import numpy as np

from .host_activity import innermost
from .timeline import Ints, Rows, Timeline

MAX_LANES = 8
"""Lanes of a track from this one on contain nothing but their own: so many overlap only in damaged traces."""


def containers(t: Timeline) -> Ints:
    """Per row the innermost slice of its track that contains it, in whatever lane; -1 where none does.

    Innermost is the one that started last; of those that started together the shorter one. Of two slices with the same
    start and end, the one in the lower lane contains the other.
    """
    result = t.parent.astype(np.int64)
    for track in np.unique(t.track[t.lane > 0]).tolist():
        place = t.rows_of_track(track)
        rows = np.arange(place.start, place.stop, dtype=np.int32)
        lanes = np.unique(t.lane[rows])
        for lane in lanes[:MAX_LANES].tolist():
            inside = rows[t.lane[rows] != lane]
            found = _containing(t, rows[t.lane[rows] == lane], inside)
            own = result[inside]
            nearer = (found >= 0) & ((own < 0) | _later(t, found, own))
            result[inside[nearer]] = found[nearer]
    return result


def _containing(t: Timeline, layer: Rows, rows: Rows) -> Ints:
    """Per row the innermost slice of one lane that contains it; -1 where none does."""
    extent = (int(t.ts[layer].min()), int(t.end[layer].max()))
    found = innermost(t, layer, t.parent.astype(np.int64), extent).at(t.ts[rows])
    while True:
        outside = (found >= 0) & ~_inside(t, rows.astype(np.int64), found)
        if not outside.any():
            return found
        found[outside] = t.parent[found[outside]]


def _inside(t: Timeline, inner: Ints, outer: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each inner slice lies in the outer one; of equals the one in the higher lane lies in the other."""
    within = (t.ts[outer] <= t.ts[inner]) & (t.end[inner] <= t.end[outer])
    same = (t.ts[outer] == t.ts[inner]) & (t.end[inner] == t.end[outer])
    return np.asarray(within & (~same | (t.lane[outer] < t.lane[inner])), dtype=np.bool_)


def _later(t: Timeline, first: Ints, second: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether the first slice starts after the second, or with it and is shorter."""
    together = t.ts[first] == t.ts[second]
    return np.asarray((t.ts[first] > t.ts[second]) | (together & (t.end[first] < t.end[second])), dtype=np.bool_)
