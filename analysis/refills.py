"""Memory that was given back to the driver and had to be asked for again: which call gave it back.

An allocator that keeps what it has would not have had to ask. So a call that takes memory from the driver belongs to
the latest call before it that gave memory back and has not been made up for, while there is one.
"""

from __future__ import annotations

import re

import numpy as np

from .timeline import Ints, Timeline

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


def _kind(name: str) -> int:
    """-1 for a call that gives memory back, 1 for one that takes it, 0 for any other."""
    if _GIVES_BACK.search(name):
        return -1
    return 1 if _TAKES.search(name) else 0
