"""Parent, depth and lane, against a slow twin that follows the definition slice by slice."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from hypothesis import example, given
from hypothesis import strategies as st

from stallscope.collectors.importers.nesting import Nesting, nest

Ints = npt.NDArray[np.int64]
Interval = tuple[int, int]


def in_order(intervals: list[Interval]) -> tuple[Ints, Ints]:
    ordered = sorted(intervals, key=lambda interval: (interval[0], -interval[1]))
    starts, ends = np.array([i[0] for i in ordered], np.int64), np.array([i[1] for i in ordered], np.int64)
    return starts, ends


def twin(ts: Ints, end: Ints) -> list[tuple[int, int, int]]:
    """First fit, slice by slice, with no regard to time: for each lane every slice that is still open."""
    placed: list[tuple[int, int, int]] = []
    for row in range(ts.size):
        lane = 0
        while True:
            open_here = [j for j in range(row) if placed[j][2] == lane and end[j] > ts[row]]
            if all(end[j] >= end[row] for j in open_here):
                placed.append((max(open_here, default=-1), len(open_here), lane))
                break
            lane += 1
    return placed


def as_rows(found: Nesting) -> list[tuple[int, int, int]]:
    return list(zip(found.parent.tolist(), found.depth.tolist(), found.lane.tolist(), strict=True))


interval = st.tuples(st.integers(0, 30), st.integers(0, 12)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(interval, max_size=40))
@example([])
@example([(5, 5), (5, 5), (5, 9), (9, 9)])
def test_any_intervals_lie_as_the_twin_lays_them(intervals: list[Interval]) -> None:
    ts, end = in_order(intervals)
    assert as_rows(nest(ts, end)) == twin(ts, end)


@st.composite
def trees(draw: st.DrawFn) -> list[Interval]:
    """Intervals that nest: children are cut out of their parent."""
    found: list[Interval] = []

    def grow(start: int, end: int, levels: int) -> None:
        found.append((start, end))
        if levels:
            for cut in sorted(draw(st.lists(st.tuples(st.integers(start, end), st.integers(0, 5)), max_size=3))):
                begin = max([cut[0], *(e for s, e in found if start <= s < end and (s, e) != (start, end))])
                if begin + cut[1] <= end:
                    grow(begin, begin + cut[1], levels - 1)

    grow(0, draw(st.integers(0, 40)), 3)
    return found


@given(trees())
def test_slices_that_nest_need_one_lane(intervals: list[Interval]) -> None:
    ts, end = in_order(intervals)
    found = nest(ts, end)
    assert not found.lane.any()
    assert as_rows(found) == twin(ts, end)


@given(st.lists(st.tuples(interval, st.booleans(), st.integers(0, 2)), max_size=30))
def test_no_lane_holds_slices_that_overlap_without_nesting(marked: list[tuple[Interval, bool, int]]) -> None:
    marked.sort(key=lambda entry: (entry[0][0], -entry[0][1]))
    ts, end = in_order([entry[0] for entry in marked])
    movable, layer = np.array([e[1] for e in marked], np.bool_), np.array([e[2] for e in marked], np.int8)
    found = nest(ts, end, layer=layer, movable=movable)
    for row in range(ts.size):
        beside = [j for j in range(row) if found.lane[j] == found.lane[row] and end[j] > ts[row]]
        assert all(end[j] >= end[row] for j in beside)
        assert all(layer[j] == layer[row] for j in np.flatnonzero(found.lane == found.lane[row]))
        assert found.depth[row] == len(beside)
        assert found.parent[row] == max(beside, default=-1)


def test_of_equal_slices_the_first_contains_the_second() -> None:
    assert as_rows(nest(*in_order([(3, 8), (3, 8)]))) == [(-1, 0, 0), (0, 1, 0)]


def test_a_slice_of_no_length_lies_inside_what_starts_with_it_and_not_inside_what_ends_with_it() -> None:
    assert as_rows(nest(*in_order([(0, 5), (0, 0), (5, 5)]))) == [(-1, 0, 0), (0, 1, 0), (-1, 0, 0)]


def test_an_annotation_gives_way_to_calls_that_it_overlaps_at_its_start_or_its_end() -> None:
    # enter() contains the annotation's start, and exit() begins in it and ends after it.
    ts, end = np.array([0, 5, 10, 20, 95, 96]), np.array([8, 100, 90, 30, 110, 97])
    movable = np.array([False, True, False, False, False, False])
    found = nest(ts, end, movable=movable)
    assert found.lane.tolist() == [0, 1, 0, 0, 0, 0]
    assert found.parent.tolist() == [-1, -1, -1, 2, -1, 4]


def test_an_annotation_that_nests_stays() -> None:
    ts, end = np.array([0, 1, 2]), np.array([10, 9, 3])
    assert as_rows(nest(ts, end, movable=np.array([False, True, False]))) == [(-1, 0, 0), (0, 1, 0), (1, 2, 0)]


def test_the_middle_one_of_three_overlapping_kernels_is_kept() -> None:
    found = nest(np.array([0, 5, 12]), np.array([10, 15, 20]))
    assert found.lane.tolist() == [0, 1, 0]
