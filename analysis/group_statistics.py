"""Statistics of a column by group, over the single values and never over sums of them.

Groups are numbered 0..n-1; a row of a negative group belongs to none. Percentiles are by nearest rank (the smallest
value that at least that share of the values does not exceed), so a percentile is always a value that occurred.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class GroupStatistics:
    """One entry a group in every array; all but ``count`` and ``total`` mean nothing where the count is 0.

    Attributes:
        count: Rows of the group.
        total: Sum of its values, exact.
        mean: Total divided by count; nan for an empty group.
        p50: The median, by nearest rank.
        p99: The 99th percentile, by nearest rank.
        low: The smallest value.
        high: The largest value.
    """

    count: Ints
    total: Ints
    mean: Floats
    p50: Ints
    p99: Ints
    low: Ints
    high: Ints


def group_statistics(group: npt.NDArray[Any], values: npt.NDArray[Any], groups: int) -> GroupStatistics:
    """Count, sum, mean, median, 99th percentile, least and greatest of the values of each group."""
    kept = group >= 0
    group, values = group[kept], values[kept].astype(np.int64)
    total = group_sum(group, values, groups)
    values = _sorted_within(group, values, groups)
    count = np.bincount(group, minlength=groups).astype(np.int64)
    first = np.cumsum(count) - count
    some = count > 0

    def at(rank: Ints) -> Ints:
        result = np.zeros(groups, dtype=np.int64)
        result[some] = values[(first + rank)[some]]
        return result

    return GroupStatistics(
        count=count,
        total=total,
        mean=np.divide(total, count, out=np.full(groups, np.nan), where=some),
        p50=at((count + 1) // 2 - 1),
        p99=at((count * 99 + 99) // 100 - 1),
        low=at(np.zeros_like(count)),
        high=at(count - 1),
    )


def _sorted_within(group: npt.NDArray[Any], values: Ints, groups: int) -> Ints:
    """The values, group after group, rising in each."""
    low = int(values.min(initial=0))
    span = int(values.max(initial=0)) - low + 1
    if groups * span > np.iinfo(np.int64).max:
        in_order: Ints = values[np.lexsort((values, group))]
        return in_order
    # One sort of numbers is many times faster than finding an order by two keys.
    return np.sort(group.astype(np.int64) * span + (values - low)) % span + low


def group_sum(group: npt.NDArray[Any], values: npt.NDArray[Any], groups: int) -> Ints:
    """The exact sum of the values of each group."""
    result = np.zeros(groups, dtype=np.int64)
    kept = group >= 0
    np.add.at(result, group[kept], values[kept])
    return result


def group_union(group: npt.NDArray[Any], starts: Ints, ends: Ints, groups: int) -> Ints:
    """The length of the union of each group's half-open intervals, in ns; empty intervals count nothing."""
    result = np.zeros(groups, dtype=np.int64)
    kept = np.flatnonzero((group >= 0) & (ends > starts))
    if not len(kept):
        return result
    kept = kept[np.lexsort((starts[kept], group[kept]))]
    group, starts, ends = group[kept].astype(np.int64), starts[kept], ends[kept]
    # Times do not leave room to shift each group by an offset, their ranks do: a running maximum of
    # (group, rank of the end) never carries an end from one group into the next.
    levels, rank = np.unique(ends, return_inverse=True)
    reach_code = np.maximum.accumulate(group * len(levels) + rank)
    reach = levels[reach_code % len(levels)]
    same = np.append(False, group[1:] == group[:-1])
    covered_to = np.where(same, np.append(starts[0], reach[:-1]), starts)
    np.add.at(result, group, np.maximum(ends - np.maximum(starts, covered_to), 0))
    return result


def largest_part(group: npt.NDArray[Any], part: npt.NDArray[Any], weight: Ints, groups: int) -> Ints:
    """For each group the part (a code >= 0) whose weights add up to most; -1 where the group has no part.

    The smaller code wins a draw, so the answer does not depend on the order of rows.
    """
    result = np.full(groups, -1, dtype=np.int64)
    kept = (group >= 0) & (part >= 0)
    if not kept.any():
        return result
    group, part, weight = group[kept].astype(np.int64), part[kept].astype(np.int64), weight[kept]
    (owner, code), index = distinct(group, part)
    order = np.lexsort((-code, group_sum(index, weight, len(code)), owner))
    result[owner[order]] = code[order]
    return result


def distinct(*columns: npt.NDArray[Any]) -> tuple[tuple[Ints, ...], Ints]:
    """The different combinations of values that rows of several columns have, and which one each row has.

    Args:
        columns: Integer columns of equal length.

    Returns:
        The combinations, rising by the first column, then by the second and so on: one column for each given. And per
        row the number of its combination.
    """
    lows = [int(column.min(initial=0)) for column in columns]
    sizes = [int(column.max(initial=0)) - low + 1 for column, low in zip(columns, lows, strict=True)]
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column, low, size in zip(columns, lows, sizes, strict=True):
        key = key * size + (column.astype(np.int64) - low)
    span = math.prod(sizes)
    if span > 4 * len(key) + 65536:  # too many to have a place for each
        codes, number = np.unique(key, return_inverse=True)
        number = number.reshape(-1).astype(np.int64)
    else:
        occurs = np.zeros(span, dtype=np.bool_)
        occurs[key] = True
        codes = np.flatnonzero(occurs)
        number = (np.cumsum(occurs) - 1)[key]
    values: list[Ints] = []
    for low, size in zip(reversed(lows), reversed(sizes), strict=True):
        values.insert(0, codes % size + low)
        codes = codes // size
    return tuple(values), number
