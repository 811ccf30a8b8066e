from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.group_statistics import (
    distinct,
    group_statistics,
    group_sum,
    group_union,
    largest_part,
)

ROWS = st.lists(st.tuples(st.integers(-1, 3), st.integers(-50, 50), st.integers(0, 12)), max_size=60)


def columns(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    table = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1], table[:, 2]


@given(ROWS)
def test_statistics_are_over_the_single_values(rows: list[tuple[int, int, int]]) -> None:
    group, values, _ = columns(rows)
    found = group_statistics(group, values, 5)
    for g in range(5):
        mine = sorted(v for h, v, _ in rows if h == g)
        assert found.count[g] == len(mine)
        assert found.total[g] == sum(mine)
        if not mine:
            assert math.isnan(found.mean[g])
            continue
        assert found.mean[g] == sum(mine) / len(mine)
        assert found.p50[g] == mine[math.ceil(len(mine) * 0.5) - 1]
        assert found.p99[g] == mine[-(-len(mine) * 99 // 100) - 1]
        assert (found.low[g], found.high[g]) == (mine[0], mine[-1])


@given(ROWS)
def test_union_counts_each_instant_of_a_group_once(rows: list[tuple[int, int, int]]) -> None:
    base = 1_694_128_201_429_795_003
    group, starts, lengths = columns(rows)
    found = group_union(group, starts + base, starts + base + lengths, 5)
    for g in range(5):
        assert found[g] == len({t for h, s, n in rows if h == g for t in range(s, s + n)})


@given(ROWS)
def test_largest_part_is_the_one_with_the_greatest_sum(rows: list[tuple[int, int, int]]) -> None:
    group, _, weight = columns(rows)
    part = weight % 4 - 1
    found = largest_part(group, part, weight, 5)
    for g in range(5):
        sums = {p: sum(w for h, w in zip(group, weight, strict=True) if h == g and (w % 4 - 1) == p) for p in range(4)}
        present = {p: s for p, s in sums.items() if any((group == g) & (part == p))}
        assert found[g] == (min(present, key=lambda p: (-present[p], p)) if present else -1)


def test_sums_beyond_what_a_float_can_hold() -> None:
    large = 2**53 + 1
    assert group_sum(np.array([0, 0, -1]), np.array([large, 2, 7]), 1).tolist() == [large + 2]


@given(ROWS, st.sampled_from([1, 1_000_003]))
def test_distinct_rows_are_those_of_a_set(rows: list[tuple[int, int, int]], spread: int) -> None:
    first, second, _ = columns(rows)
    second = second * spread
    (left, right), number = distinct(first, second)
    combinations = sorted(set(zip(first.tolist(), second.tolist(), strict=True)))
    assert list(zip(left.tolist(), right.tolist(), strict=True)) == combinations
    assert [combinations[n] for n in number.tolist()] == list(zip(first.tolist(), second.tolist(), strict=True))


def test_values_too_far_apart_for_one_key_are_still_sorted_within_their_group() -> None:
    far = np.iinfo(np.int64).max // 2
    found = group_statistics(np.array([1, 1, 0, 1]), np.array([far, -far + 2, 5, 0]), 2)
    assert found.p50.tolist() == [5, 0]
    assert found.low.tolist() == [5, -far + 2]
    assert found.high.tolist() == [5, far]
