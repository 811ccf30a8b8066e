"""Questions about slices that contain each other: the nearest ancestor of a kind, sums over what lies beneath.

A forest is given as ``parent``: for every row the row of the innermost slice that contains it, -1 for none. Depth is
the number of slices that contain a row. All functions work on whole columns; none loops over rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


def nearest(parent: npt.NDArray[Any], wanted: Mask) -> Ints:
    """For every row the nearest row at or above it that is wanted, -1 where there is none.

    A row that is wanted is its own answer. Works by pointer doubling: as many passes as the depth has binary digits,
    each over the rows that have not arrived yet.
    """
    sink = len(parent)
    stays = np.append(wanted, True)
    jump = np.append(parent, sink).astype(np.int64, copy=False)
    jump[jump < 0] = sink
    arrived = np.flatnonzero(wanted)
    jump[arrived] = arrived
    moving = np.flatnonzero(~stays[jump])
    while len(moving):
        jump[moving] = jump[jump[moving]]
        moving = moving[~stays[jump[moving]]]
    found = jump[:-1]
    found[found == sink] = -1
    return found


def above(parent: npt.NDArray[Any], nearest_row: Ints) -> Ints:
    """Turns an answer of ``nearest`` into the one that leaves out the row itself: the nearest proper ancestor."""
    has = parent >= 0
    result = np.full(len(parent), -1, dtype=np.int64)
    result[has] = nearest_row[parent[has]]
    return result


def sum_of_children(parent: npt.NDArray[Any], values: Ints) -> Ints:
    """For every row the sum of the values of the rows directly beneath it, in exact integers."""
    result = np.zeros(len(parent), dtype=np.int64)
    has = np.flatnonzero(parent >= 0)
    np.add.at(result, parent[has], values[has])
    return result


def sum_beneath(parent: npt.NDArray[Any], depth: npt.NDArray[Any], values: Ints) -> Ints:
    """For every row its own value plus those of all rows beneath it, in exact integers."""
    result = values.astype(np.int64, copy=True)
    depth = _small(depth)
    order = np.argsort(depth, kind="stable")
    levels = np.flatnonzero(np.diff(depth[order])) + 1
    for rows in reversed(np.split(order, levels)):
        below = rows[parent[rows] >= 0]
        np.add.at(result, parent[below], result[below])
    return result


def outermost(parent: npt.NDArray[Any], depth: npt.NDArray[Any], group: npt.NDArray[Any]) -> Mask:
    """Whether no row above has the same group: the rows whose totals add up without counting a nested one twice.

    Rows of a negative group are never outermost.
    """
    result = group >= 0
    if not result.any():
        return result
    enter, leave = preorder(parent, depth)
    rows = np.flatnonzero(result)
    rows = rows[np.lexsort((enter[rows], group[rows]))]
    # Position on one axis where every group has a stretch of its own, so that one running maximum serves all groups.
    base = group[rows].astype(np.int64) * (len(parent) + 1)
    reach = np.maximum.accumulate(base + leave[rows])
    nested = rows[1:][base[1:] + enter[rows[1:]] < reach[:-1]]
    result[nested] = False
    return result


def preorder(parent: npt.NDArray[Any], depth: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Numbers rows so that row j lies at or beneath row i exactly when ``enter[i] <= enter[j] < leave[i]``.

    Returns:
        Two columns, enter (a permutation of 0..n-1) and leave.
    """
    size = sum_beneath(parent, depth, np.ones(len(parent), dtype=np.int64))
    enter = np.zeros(len(parent), dtype=np.int64)
    depth = _small(depth)
    order = np.lexsort((parent, depth))
    levels = np.flatnonzero(np.diff(depth[order])) + 1
    for rows in np.split(order, levels):
        # Siblings are adjacent in this order: each starts where those before it end.
        before = np.cumsum(size[rows]) - size[rows]
        above_row = parent[rows]
        first = np.searchsorted(above_row, above_row, side="left")
        inside = before - before[first]
        enter[rows] = np.where(above_row >= 0, enter[above_row] + 1, 0) + inside
    return enter, enter + size


def _small(depth: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The depths in 16 bits where they fit: numpy sorts those by radix, many times faster."""
    return depth.astype(np.int16) if len(depth) and int(depth.max()) <= np.iinfo(np.int16).max else depth
