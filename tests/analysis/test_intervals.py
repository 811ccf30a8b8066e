"""Interval arithmetic against a twin that marks every nanosecond of a short axis in a bitmap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis import intervals as iv

SPAN = 60
PAIRS = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)), max_size=12)


def rows(pairs: list[tuple[int, int]]) -> np.ndarray:
    return iv.intervals([a for a, _ in pairs], [b for _, b in pairs])


def bitmap(array: np.ndarray) -> np.ndarray:
    marks = np.zeros(SPAN + 1, dtype=bool)
    for start, end in array:
        marks[start:end] = True
    return marks


def assert_is_union(array: np.ndarray, marks: np.ndarray) -> None:
    assert (bitmap(array) == marks).all()
    assert (array[:, 1] > array[:, 0]).all(), "an empty row"
    assert (array[1:, 0] > array[:-1, 1]).all(), "rows that overlap, touch or are out of order"
    assert iv.total(array) == int(marks.sum())


@given(PAIRS)
def test_union(pairs: list[tuple[int, int]]) -> None:
    assert_is_union(iv.union(rows(pairs)), bitmap(rows([p for p in pairs if p[0] < p[1]])))


@given(PAIRS, PAIRS)
def test_intersection_and_subtraction(first: list[tuple[int, int]], second: list[tuple[int, int]]) -> None:
    a, b = iv.union(rows(first)), iv.union(rows(second))
    assert_is_union(iv.intersection(a, b), bitmap(a) & bitmap(b))
    assert_is_union(iv.subtraction(a, b), bitmap(a) & ~bitmap(b))


@given(PAIRS, st.integers(0, SPAN), st.integers(0, SPAN))
def test_clip_gaps_and_covered(pairs: list[tuple[int, int]], start: int, end: int) -> None:
    a = iv.union(rows(pairs))
    inside = bitmap(rows([(start, end)]))
    assert_is_union(iv.clip(a, start, end), bitmap(a) & inside)
    assert_is_union(iv.gaps(a, start, end), ~bitmap(a) & inside)
    assert iv.covered(a, [start], [end]).tolist() == [int((bitmap(a) & inside).sum())]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=8))
def test_expand(pairs: list[tuple[int, int]]) -> None:
    low, high = np.array([a for a, _ in pairs], dtype=np.int64), np.array([b for _, b in pairs], dtype=np.int64)
    owner, member = iv.expand(low, high)
    expected = [(i, j) for i, (a, b) in enumerate(pairs) for j in range(a, b)]
    assert list(zip(owner.tolist(), member.tolist(), strict=True)) == expected


def test_epoch_nanoseconds_stay_exact() -> None:
    base = 1_767_189_312_000_000_001
    a = iv.union(rows([(base, base + 1), (base + 2, base + 4)]))
    assert iv.total(a) == 3
    assert iv.gaps(a, base, base + 4).tolist() == [[base + 1, base + 2]]


def test_starts_without_ends() -> None:
    with pytest.raises(ValueError, match="2 starts do not go with 1 ends"):
        iv.intervals([1, 2], [3])


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(0, 5)))
def test_rising(values: list[int]) -> None:
    assert iv.rising(np.array(values, dtype=np.int64)).tolist() == sorted(set(values))
