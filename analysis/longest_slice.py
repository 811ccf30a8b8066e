"""Which single slice stands for a row of the tables of kernels and ops: the longest one of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..profiler.recording.categories import CATEGORIES
from .device_activity import rank_activity
from .event_arguments import number_lists
from .nesting import Mask
from .ops import op_rows
from .selection import device_selection, host_selection
from .timeline import Timeline, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


def longest_of_kernel(
    recording: Recording, rank: int, name: str, category: str, *, grid: str | None = None, step: int | None = None
) -> int | None:
    """The id of the longest slice in a row of ``kernels``; None where there is none.

    Args:
        recording: The recording.
        rank: The rank.
        name: The row's name.
        category: The row's category.
        grid: The row's grid, where rows are made by name and grid.
        step: The step that the table is about; the steady steps by default.
    """
    t = timeline(recording, rank)
    chosen: Mask = np.zeros(len(t), dtype=np.bool_)
    for device in rank_activity(recording, rank).devices:
        if device.device is not None:
            inside = device_selection(recording, rank, device, step=step).holds(t.ts[device.rows])
            chosen[device.rows[inside]] = True
    if category in CATEGORIES:
        chosen &= t.category == CATEGORIES.index(category)
    return _longest(recording, t, chosen, name, grid, ("grid", "block"))


def longest_of_op(
    recording: Recording, rank: int, name: str, *, shape: str | None = None, step: int | None = None
) -> int | None:
    """The id of the longest call in a row of ``ops``; None where there is none.

    Args:
        recording: The recording.
        rank: The rank.
        name: The row's op.
        shape: The row's shape, where rows are made by name and shape.
        step: The step that the table is about; the steady steps by default.
    """
    t = timeline(recording, rank)
    chosen = op_rows(t) & host_selection(recording, rank, step=step).holds(t.ts)
    return _longest(recording, t, chosen, name, shape, ("Input Dims",))


def _longest(
    recording: Recording, t: Timeline, chosen: Mask, name: str, numbers: str | None, keys: tuple[str, ...]
) -> int | None:
    named = np.array([one == name for one in t.names], dtype=np.bool_)
    chosen = chosen & named[t.name]
    if numbers is not None:
        known, code = number_lists(recording, t, *keys)
        chosen &= np.append(np.array([one == numbers for one in known], dtype=np.bool_), False)[code]
    rows = np.flatnonzero(chosen)
    return int(t.slice_id[rows[t.dur[rows].argmax()]]) if len(rows) else None
