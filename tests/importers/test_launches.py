"""Which call started which device operation, which forward op belongs to which backward op."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stallscope.collectors.importers.arrows import latest_before

from .small_traces import GPU, HOST, STREAM, THREAD, call, imported, kernel, links, losses, op


def arrow(phase: str, ts: float, identity: int, pid: Any, tid: Any, name: str = "ac2g") -> dict[str, Any]:
    return {"ph": phase, "id": identity, "pid": pid, "tid": tid, "ts": ts, "cat": name, "name": name}


def test_one_call_starts_all_kernels_with_its_correlation(tmp_path: Path) -> None:
    kernels = [kernel(f"k{n}", 20 + n, 1, 5) for n in range(300)]
    recording = imported(tmp_path, [call("cudaGraphLaunch", 1, 5, 5), call("cudaLaunchKernel", 8, 2, 6), *kernels])
    assert links(recording, "launch") == [("cudaGraphLaunch", f"k{n}") for n in range(300)]
    assert "device_op_without_launch" not in losses(recording)


def test_an_operation_without_a_launch_is_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [call("launch", 1, 2, 5), kernel("known", 4, 1, 5), kernel("unknown", 6, 1, 77)])
    assert links(recording, "launch") == [("launch", "known")]
    assert losses(recording)["device_op_without_launch"] == 1


def test_a_kernel_before_its_launch_is_kept_linked_and_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [call("launch", 10, 2, 5), kernel("early", 8, 1, 5)])
    assert links(recording, "launch") == [("launch", "early")]
    assert losses(recording)["device_op_before_launch"] == 1


def test_of_two_calls_with_one_correlation_the_later_one_before_the_kernel_counts(tmp_path: Path) -> None:
    events = [call("outer", 1, 9, 5), call("inner", 2, 3, 5), kernel("k", 12, 1, 5), call("again", 20, 1, 5)]
    assert links(imported(tmp_path, events), "launch") == [("inner", "k")]


def test_arrows_are_the_second_source(tmp_path: Path) -> None:
    events = [
        op("aten::mm", 0, 10), op("cudaLaunchKernel", 2, 3, cat="cuda_runtime"), kernel("k", 20, 4),
        arrow("s", 2, 9, HOST, THREAD), arrow("f", 20, 9, GPU, STREAM),
        arrow("f", 5, 11, HOST, THREAD),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    assert links(recording, "launch") == [("cudaLaunchKernel", "k")]
    assert losses(recording)["flow_without_start"] == 1


def test_a_correlation_beats_an_arrow_that_disagrees(tmp_path: Path) -> None:
    events = [
        call("right", 1, 1, 5), call("wrong", 4, 1, 6), kernel("k", 9, 1, 5),
        arrow("s", 4, 5, HOST, THREAD), arrow("f", 9, 5, GPU, STREAM),
    ]  # fmt: skip
    assert links(imported(tmp_path, events), "launch") == [("right", "k")]


def test_ends_of_a_repeated_id_follow_the_latest_start_before_them(tmp_path: Path) -> None:
    events = [
        op("one", 0, 2, cat="cuda_runtime"), op("two", 10, 2, cat="cuda_runtime"),
        kernel("a", 5, 1), kernel("b", 15, 1),
        arrow("s", 0, 3, HOST, THREAD), arrow("f", 5, 3, GPU, STREAM),
        arrow("s", 10, 3, HOST, THREAD), arrow("f", 15, 3, GPU, STREAM),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    assert links(recording, "launch") == [("one", "a"), ("two", "b")]
    assert losses(recording)["repeated_flow_start"] == 1


def test_an_annotation_on_a_stream_has_no_launch_and_contains_no_kernel(tmp_path: Path) -> None:
    annotation = op("forward", 10, 50, cat="gpu_user_annotation", pid=GPU, tid=STREAM, correlation=5)
    recording = imported(tmp_path, [call("launch", 1, 2, 5), annotation, kernel("k", 12, 4, 5)])
    assert links(recording, "launch") == [("launch", "k")]
    lanes = {row["name"]: (row["lane"], row["depth"]) for row in recording.table("slices").to_pylist()}
    assert lanes["k"] == (0, 0)
    assert lanes["forward"] == (1, 0)


def test_overlapping_kernels_of_a_stream_are_kept_in_lanes_and_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [kernel("a", 0, 10), kernel("b", 5, 10), kernel("c", 12, 8)])
    lanes = {row["name"]: row["lane"] for row in recording.table("slices").to_pylist()}
    assert lanes == {"a": 0, "b": 1, "c": 0}
    assert losses(recording)["overlapping_slices"] == 1


def test_a_pid_and_tid_of_zero_are_a_thread_and_a_stream_at_once(tmp_path: Path) -> None:
    python = op("run", 0, 100, cat="python_function", pid=0, tid=0)
    recording = imported(tmp_path, [python, call("launch", 1, 2, 5), kernel("k", 12, 4, 5, tid=0)])
    kinds = {row["kind"] for row in recording.table("tracks").to_pylist()}
    assert kinds == {"thread", "stream"}
    assert links(recording, "launch") == [("launch", "k")]


def test_forward_to_backward_by_the_arrows_of_the_trace(tmp_path: Path) -> None:
    events = [
        op("forward", 0, 10), op("inside", 1, 2), op("backward", 50, 10, tid=7),
        arrow("s", 0, 1, HOST, THREAD, "fwdbwd"), arrow("f", 55, 1, HOST, 7, "fwdbwd"),
    ]  # fmt: skip
    assert links(imported(tmp_path, events), "forward_backward") == [("forward", "backward")]


def test_launches_and_forward_backward_pairs_may_use_the_same_ids(tmp_path: Path) -> None:
    # The pairs of ids are crossed in time, so that matching by id alone would take the other category's start.
    events = [
        op("launch", 4, 2, cat="cuda_runtime"), kernel("k", 20, 1),
        op("forward", 10, 5), op("backward", 50, 10, tid=7),
        arrow("s", 4, 1, HOST, THREAD), arrow("s", 10, 1, HOST, THREAD, "fwdbwd"),
        arrow("f", 20, 1, GPU, STREAM), arrow("f", 55, 1, HOST, 7, "fwdbwd"),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    assert links(recording, "launch") == [("launch", "k")]
    assert links(recording, "forward_backward") == [("forward", "backward")]
    assert not {"repeated_flow_start", "flow_without_start", "flow_without_end"} & set(losses(recording))


def test_an_end_does_not_belong_to_a_start_of_another_category(tmp_path: Path) -> None:
    events = [
        op("launch", 4, 2, cat="cuda_runtime"), kernel("k", 20, 1),
        arrow("s", 4, 1, HOST, THREAD, "fwdbwd"), arrow("f", 20, 1, GPU, STREAM),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    assert links(recording, "launch") == []
    lost = losses(recording)
    assert (lost["flow_without_start"], lost["flow_without_end"]) == (1, 1)


def numbered(name: str, ts: float, sequence: int, forward_thread: int, tid: int = THREAD) -> dict[str, Any]:
    return op(name, ts, 1, tid=tid, **{"Sequence number": sequence, "Fwd thread id": forward_thread})


def test_forward_to_backward_by_sequence_numbers(tmp_path: Path) -> None:
    events = [
        numbered("zero_grad", 0, 4, 0), numbered("forward", 2, 4, 0), numbered("other", 4, 5, 0),
        numbered("evaluate", 50, 4, 1, tid=7), numbered("inner", 52, 4, 1, tid=7),
    ]  # fmt: skip
    assert links(imported(tmp_path, events), "forward_backward") == [("forward", "evaluate")]


def test_a_sequence_number_of_two_threads_tells_nothing(tmp_path: Path) -> None:
    events = [numbered("a", 0, 4, 0), numbered("b", 2, 4, 0, tid=8), numbered("backward", 9, 4, 1, tid=7)]
    assert links(imported(tmp_path, events), "forward_backward") == []


@given(st.lists(st.lists(st.integers(0, 20), min_size=1, max_size=5), min_size=1, max_size=6), st.data())
def test_latest_before(groups: list[list[int]], data: st.DataObject) -> None:
    groups = [sorted(group) for group in groups]
    ts = np.array([stamp for group in groups for stamp in group], np.int64)
    last = np.cumsum([len(group) for group in groups])
    first = last - [len(group) for group in groups]
    wanted = np.array([data.draw(st.integers(-1, 21)) for _ in groups], np.int64)
    for start, found, group, limit in zip(first, latest_before(ts, first, last, wanted), groups, wanted, strict=True):
        before = [place for place, stamp in enumerate(group) if stamp <= limit]
        assert found - start == (before[-1] if before else 0)
