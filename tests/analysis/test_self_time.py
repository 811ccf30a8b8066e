from __future__ import annotations

import numpy as np
from hypothesis import given

from stallscope.analysis.self_time import self_time

from .forests import Forest, forest_of, forests


def test_a_parent_loses_its_children_and_not_its_grandchildren() -> None:
    forest = forest_of([(0, 100), (10, 40), (20, 30), (50, 60), (100, 120)])
    assert self_time(forest.starts, forest.ends, forest.parent).tolist() == [60, 20, 10, 10, 20]


def test_epoch_nanoseconds_keep_every_nanosecond() -> None:
    base = 1_694_128_201_429_795_003
    starts, ends = np.array([base, base + 1]), np.array([base + 3, base + 2])
    assert self_time(starts, ends, np.array([-1, 0])).tolist() == [2, 1]


def test_a_child_that_reaches_past_its_parent_counts_as_far_as_the_parent_goes() -> None:
    starts, ends = np.array([0, 5]), np.array([10, 20])
    assert self_time(starts, ends, np.array([-1, 0])).tolist() == [5, 15]


@given(forests())
def test_self_time_is_the_part_that_no_child_covers(forest: Forest) -> None:
    result = self_time(forest.starts, forest.ends, forest.parent)
    for row in range(len(result)):
        children = [r for r in range(len(result)) if forest.parent[r] == row]
        covered = {t for r in children for t in range(forest.starts[r], forest.ends[r])}
        assert result[row] == len(set(range(forest.starts[row], forest.ends[row])) - covered)
    roots = forest.parent < 0
    assert result.sum() == (forest.ends - forest.starts)[roots].sum()
