"""Memory that was given back to the driver and had to be asked for again: which call gave it back.

An allocator that keeps what it has would not have had to ask. So a call that takes memory from the driver belongs to
the latest call before it that gave memory back and has not been made up for, while there is one. Before memory may go
back, the device has to be through with it: the wait right in front of such a call is a part of giving back.
"""

from __future__ import annotations

import re

import numpy as np

from .timeline import Ints, Timeline

_AT_ONCE_NS = 20_000
"""A wait that begins so soon after memory was given back is a part of that: allocators wait before and after."""

_GIVES_BACK = re.compile(r"(?i)free|release|unmap|destroy")
_TAKES = re.compile(r"(?i)alloc|create|map")


def gave_back(t: Timeline) -> Ints:
    """Per row of an allocating call the call that gave back the memory that it asks for; -1 for none and elsewhere."""
    result = np.full(len(t), -1, dtype=np.int64)
    rows = np.flatnonzero(t.is_category("allocation"))
    rows = rows[np.argsort(t.ts[rows], kind="stable")]
    kinds = {name: _kind(t.names[name]) for name in set(t.name[rows].tolist())}
    missing: list[int] = []
    for row in rows.tolist():
        kind = kinds[int(t.name[row])]
        if kind < 0:
            missing.append(row)
        elif kind > 0 and missing:
            result[row] = missing.pop()
    return result


def waits_to_give_back(t: Timeline) -> Ints:
    """Rows of the waits right before a call that gives memory back, or right after one, in the same slice."""
    rows = np.flatnonzero(t.is_category("synchronization") & t.is_on(t.threads))
    frees = np.array([*(_kind(name) < 0 for name in t.names), False], dtype=np.bool_)
    gives_back = np.append(t.is_category("allocation") & frees[t.name], False)
    following = np.full(len(rows), -1, dtype=np.int64)
    for track in np.unique(t.track[rows]).tolist():
        place, mine = t.rows_of_track(track), np.flatnonzero(t.track[rows] == track)
        after = place.start + np.searchsorted(t.ts[place], t.end[rows[mine]], side="left")
        following[mine] = np.where(after < place.stop, after, -1)
    parent, end = np.append(t.parent, -2), np.append(t.end, 0)
    before = gives_back[following] & (parent[following] == t.parent[rows])
    earlier = np.where((rows > 0) & (t.track[rows] == t.track[rows - 1]), rows - 1, -1)
    at_once = t.ts[rows] - end[earlier] <= _AT_ONCE_NS
    result: Ints = rows[before | (gives_back[earlier] & (parent[earlier] == t.parent[rows]) & at_once)]
    return result


def _kind(name: str) -> int:
    """-1 for a call that gives memory back, 1 for one that takes it, 0 for any other."""
    if _GIVES_BACK.search(name):
        return -1
    return 1 if _TAKES.search(name) else 0
