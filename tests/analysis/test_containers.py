"""Containment across lanes, against a twin that tries every pair."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.containers import containers
from stallscope.analysis.timeline import Timeline, timeline
from tests.builders import TraceBuilder

SLICES = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 30), st.integers(1, 15)), max_size=14)


def contains(t: Timeline, outer: int, inner: int) -> bool:
    """Whether a slice contains another: a proper ancestor of the lane, or by time in another lane."""
    if t.track[outer] != t.track[inner] or outer == inner:
        return False
    if t.lane[outer] == t.lane[inner]:
        above = int(t.parent[inner])
        while above >= 0 and above != outer:
            above = int(t.parent[above])
        return above == outer
    within = t.ts[outer] <= t.ts[inner] and t.end[inner] <= t.end[outer]
    same = t.ts[outer] == t.ts[inner] and t.end[outer] == t.end[inner]
    return bool(within and (not same or t.lane[outer] < t.lane[inner]))


@given(SLICES)
def test_the_container_is_the_innermost_that_contains(slices: list[tuple[int, int, int]]) -> None:
    trace = TraceBuilder()
    threads = [trace.thread("a"), trace.thread("b")]
    for thread, ts, dur in slices:
        trace.slice(threads[thread], "x", "op", ts, dur)
    t = timeline(trace.recording(), 0)
    found = containers(t)
    for row in range(len(t)):
        around = [other for other in range(len(t)) if contains(t, other, row)]
        if not around:
            assert found[row] == -1
            continue
        best = max(around, key=lambda o: (t.ts[o], -t.end[o], t.lane[o], t.depth[o]))
        chosen = int(found[row])
        assert chosen in around
        assert (t.ts[chosen], t.end[chosen]) == (t.ts[best], t.end[best])


@given(SLICES)
def test_there_is_no_cycle(slices: list[tuple[int, int, int]]) -> None:
    trace = TraceBuilder()
    main = trace.thread()
    for _, ts, dur in slices:
        trace.slice(main, "x", "op", ts, dur)
    t = timeline(trace.recording(), 0)
    found = containers(t)
    at = np.arange(len(t))
    for _ in range(len(t) + 1):
        at = np.where(at >= 0, found[at], -1)
    assert (at == -1).all()
