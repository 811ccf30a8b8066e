"""Exact arithmetic on sets of half-open intervals of integer nanoseconds.

An interval set is an int64 array of shape (n, 2): a row is ``[start, end)``. Functions that take "a union" need rows
that are sorted, disjoint and not empty, with touching rows merged, which is what ``union`` and every function here
returns. No step goes through floating point, so lengths always add up to the nanosecond.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def intervals(starts: npt.ArrayLike, ends: npt.ArrayLike) -> Ints:
    """The (n, 2) array of the given starts and ends, rows as they come (not sorted, not merged).

    Raises:
        ValueError: The two differ in length.
    """
    first, last = np.asarray(starts, dtype=np.int64).reshape(-1), np.asarray(ends, dtype=np.int64).reshape(-1)
    if len(first) != len(last):
        raise ValueError(f"{len(first)} starts do not go with {len(last)} ends")
    return np.stack([first, last], axis=1)


def union(rows: Ints) -> Ints:
    """The sorted, disjoint union: touching rows merge, empty and reversed ones (end <= start) vanish."""
    rows = rows[rows[:, 1] > rows[:, 0]]
    if not len(rows):
        return rows
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    reach = np.maximum.accumulate(rows[:, 1])
    opens = np.flatnonzero(np.concatenate([[True], rows[1:, 0] > reach[:-1]]))
    return np.stack([rows[opens, 0], reach[np.append(opens[1:], len(rows)) - 1]], axis=1)


def intersection(first: Ints, second: Ints) -> Ints:
    """What two unions have in common, as a union."""
    low = np.searchsorted(second[:, 1], first[:, 0], side="right")
    high = np.searchsorted(second[:, 0], first[:, 1], side="left")
    mine, theirs = expand(low, high)
    starts = np.maximum(first[mine, 0], second[theirs, 0])
    return np.stack([starts, np.minimum(first[mine, 1], second[theirs, 1])], axis=1)


def gaps(rows: Ints, start: int, end: int) -> Ints:
    """What ``[start, end)`` has outside a union, as a union."""
    inside = clip(rows, start, end)
    edges = np.concatenate([[start], inside.reshape(-1), [max(start, end)]]).astype(np.int64).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def subtraction(first: Ints, second: Ints) -> Ints:
    """What the first union has outside the second, as a union."""
    if not len(first):
        return first
    return intersection(first, gaps(second, int(first[0, 0]), int(first[-1, 1])))


def clip(rows: Ints, start: int, end: int) -> Ints:
    """What a union has inside ``[start, end)``, as a union."""
    low = np.searchsorted(rows[:, 1], start, side="right")
    high = np.searchsorted(rows[:, 0], end, side="left")
    if low >= high or end <= start:
        return rows[:0]
    return np.clip(rows[low:high], start, end)


def rising(values: Ints) -> Ints:
    """The different values in rising order, as ``np.unique`` gives them, whose hashing is slow for many time stamps."""
    ordered = np.sort(values)
    result: Ints = ordered[np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]]
    return result


def total(rows: Ints) -> int:
    """The length of a union in ns."""
    return int((rows[:, 1] - rows[:, 0]).sum())


def covered(rows: Ints, starts: npt.ArrayLike, ends: npt.ArrayLike) -> Ints:
    """How many ns of a union lie in each ``[starts[i], ends[i])``; 0 where end <= start. Shape of ``starts``."""
    first, last = np.asarray(starts, dtype=np.int64), np.asarray(ends, dtype=np.int64)
    return np.where(last > first, _covered_before(rows, last) - _covered_before(rows, first), 0)


def _covered_before(rows: Ints, at: Ints) -> Ints:
    """How many ns of a union lie before each instant."""
    if not len(rows):
        return np.zeros_like(at)
    sums = np.concatenate([[0], np.cumsum(rows[:, 1] - rows[:, 0])])
    index = np.searchsorted(rows[:, 0], at, side="right")
    over = np.maximum(rows[np.maximum(index, 1) - 1, 1] - at, 0)
    result: Ints = sums[index] - np.where(index > 0, over, 0)
    return result


def expand(low: npt.NDArray[Any], high: npt.NDArray[Any]) -> tuple[Ints, Ints]:
    """Every pair (i, j) with ``low[i] <= j < high[i]``, in that order, as two arrays of equal length."""
    counts = np.maximum(high - low, 0)
    owner = np.repeat(np.arange(len(counts), dtype=np.int64), counts)
    offset = np.arange(len(owner), dtype=np.int64) - np.repeat(np.cumsum(counts) - counts, counts)
    return owner, np.repeat(low, counts) + offset
