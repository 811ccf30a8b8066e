"""How long a slice itself took: its duration minus that of the slices directly inside it on the same lane."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from .nesting import Ints, sum_of_children


def self_time(starts: Ints, ends: Ints, parent: npt.NDArray[Any]) -> Ints:
    """Self time of every row in ns: ``dur`` minus the ``dur`` of its children.

    Children of a lane are disjoint and lie within their parent, so the self times of a lane add up to the durations of
    its outermost slices, exactly. A child that a damaged trace lets reach past its parent counts only as far as the
    parent goes, so self time is never negative through it.

    Args:
        starts: Start of every row.
        ends: End of every row, exclusive.
        parent: Row of the innermost slice of the same lane that contains it, -1 for none.
    """
    inside = ends - starts
    has = parent >= 0
    above = np.where(has, parent, 0)
    within = np.minimum(ends, ends[above]) - np.maximum(starts, starts[above])
    inside = np.where(has, np.maximum(within, 0), inside)
    return (ends - starts) - sum_of_children(parent, inside)
