from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.nesting import above, nearest, outermost, preorder, sum_beneath, sum_of_children

from .forests import Forest, forests


@given(forests(), st.randoms(use_true_random=False))
def test_agrees_with_a_walk_up_the_tree(forest: Forest, random):  # type: ignore[no-untyped-def]
    n = len(forest.parent)
    values = np.array([random.randrange(-5, 100) for _ in range(n)], dtype=np.int64)
    wanted = np.array([random.random() < 0.3 for _ in range(n)], dtype=np.bool_)
    group = np.array([random.randrange(-1, 4) for _ in range(n)], dtype=np.int64)
    found = nearest(forest.parent, wanted)
    proper = above(forest.parent, found)
    children = sum_of_children(forest.parent, values)
    beneath = sum_beneath(forest.parent, forest.depth, values)
    outer = outermost(forest.parent, forest.depth, group)
    enter, leave = preorder(forest.parent, forest.depth)
    assert sorted(enter.tolist()) == list(range(n))
    for row in range(n):
        up = forest.ancestors(row)
        assert found[row] == next((r for r in [row, *up] if wanted[r]), -1)
        assert proper[row] == next((r for r in up if wanted[r]), -1)
        assert children[row] == sum(values[r] for r in range(n) if forest.parent[r] == row)
        under = [r for r in range(n) if r == row or row in forest.ancestors(r)]
        assert beneath[row] == sum(values[r] for r in under)
        assert outer[row] == (group[row] >= 0 and all(group[r] != group[row] for r in up))
        assert sorted(under) == sorted(r for r in range(n) if enter[row] <= enter[r] < leave[row])


def test_no_rows() -> None:
    empty = np.zeros(0, dtype=np.int64)
    assert len(nearest(empty, empty.astype(bool))) == 0
    assert len(sum_beneath(empty, empty, empty)) == 0
    assert len(outermost(empty, empty, empty)) == 0
