"""What a thread did at every instant, against a twin that asks at every tick."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope.analysis.causes import host_causes
from stallscope.analysis.host_activity import HostActivity, Pieces, innermost, training_threads
from stallscope.analysis.timeline import Timeline, timeline
from tests.builders import TraceBuilder

SPAN = 40
SLICES = st.lists(
    st.tuples(st.integers(0, SPAN), st.integers(0, 15), st.sampled_from(["op", "python", "runtime"])), max_size=15
)


def assert_pieces(pieces: Pieces, extent: tuple[int, int]) -> None:
    assert (pieces.edges[0], pieces.edges[-1]) == extent
    assert len(pieces.edges) == len(pieces.rows) + 1 or extent[0] == extent[1]
    assert (np.diff(pieces.edges) > 0).all()
    assert (pieces.rows[1:] != pieces.rows[:-1]).all()


@settings(deadline=None)
@given(SLICES)
def test_the_innermost_slice_is_the_one_that_started_last(slices: list[tuple[int, int, str]]) -> None:
    trace = TraceBuilder()
    main = trace.thread()
    trace.slice(main, "whole", "annotation", 0, SPAN + 20)
    for ts, dur, category in slices:
        trace.slice(main, "x", category, ts, dur)
    t = timeline(trace.recording(), 0)
    host = HostActivity(t, np.full(len(t), -1, dtype=np.int64), ranges=False)
    pieces = host.work_pieces(t.threads[0])
    assert_pieces(pieces, t.extent)
    chosen = t.is_category("op", "runtime")
    for instant in range(SPAN + 20):
        active = np.flatnonzero(chosen & (t.ts <= instant) & (instant < t.end))
        found = int(pieces.at(np.array([instant]))[0])
        if not len(active):
            assert found == -1
        else:
            assert t.ts[found] == t.ts[active].max() and found in active


@settings(deadline=None)
@given(SLICES, st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=6))
def test_a_walk_tiles_its_windows(slices: list[tuple[int, int, str]], windows: list[tuple[int, int]]) -> None:
    trace = TraceBuilder()
    main = trace.thread()
    for ts, dur, category in [*slices, (0, SPAN + 20, "annotation")]:
        trace.slice(main, "x", category, ts, dur)
    t = timeline(trace.recording(), 0)
    pieces = innermost(t, np.arange(len(t), dtype=np.int32), t.parent.astype(np.int64), t.extent)
    starts, ends = (np.array([w[i] for w in windows], dtype=np.int64) for i in (0, 1))
    owner, piece, first, last = pieces.walk(starts, ends)
    for i, (start, end) in enumerate(windows):
        mine = owner == i
        start, end = max(start, t.extent[0]), min(end, t.extent[1])
        if end <= start:
            assert not mine.any()
            continue
        assert first[mine][0] == start and last[mine][-1] == end
        assert (first[mine][1:] == last[mine][:-1]).all()
        assert (pieces.at(first[mine]) == pieces.rows[piece[mine]]).all()


def at(t: Timeline, pieces: Pieces, instant: int) -> str:
    row = int(pieces.at(np.array([instant]))[0])
    return t.name_of(row) if row >= 0 else ""


def test_the_token_passes_to_the_thread_that_the_launching_one_waits_for() -> None:
    trace = TraceBuilder()
    main, autograd, gpu = trace.thread("main"), trace.thread("autograd"), trace.stream()
    trace.slice(main, "ProfilerStep#1", "annotation", 0, 1000)
    trace.slice(main, "aten::loss", "op", 0, 100)
    trace.launched(autograd, gpu, call=(400, 10), work=(420, 10))
    trace.slice(autograd, "AddmmBackward", "op", 300, 200)
    trace.slice(main, "torch/serialization.py(9): save", "python", 600, 100)
    trace.slice(trace.thread("overhead"), "Activity Buffer Request", "overhead", 50, 10)
    t = timeline(trace.recording(), 0)
    host = HostActivity(t, host_causes(t).context, ranges=False)
    assert [t.tracks[i].name for i in host.threads.training] == ["autograd", "main"]
    assert t.tracks[host.threads.main].name == "main"
    token = host.token(host.threads.training[0])
    expected = {
        10: "aten::loss",
        55: "Activity Buffer Request",
        200: "",
        350: "AddmmBackward",
        405: "cudaLaunchKernel",
        650: "torch/serialization.py(9): save",
        800: "",
    }
    assert {instant: at(t, token, instant) for instant in expected} == expected


def test_threads_without_ops_or_launches_are_not_training_threads() -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread("watchdog"), "cudaEventQuery", "runtime", 0, 10)
    trace.slice(trace.thread("main"), "aten::mm", "op", 0, 10)
    t = timeline(trace.recording(), 0)
    assert [t.tracks[i].name for i in training_threads(t).training] == ["main"]
    assert training_threads(timeline(TraceBuilder().recording(), 0)).main == -1
