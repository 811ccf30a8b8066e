"""Chains of small recordings whose order is written down by hand."""

from __future__ import annotations

import pytest

from stallscope.analysis.dependency_chain import MOST_A_HOP, DependencyChain, dependency_chain
from tests.builders import TraceBuilder


def _chain(trace: TraceBuilder, slice_id: int, hops: int = 4) -> DependencyChain:
    found = dependency_chain(trace.recording(), trace.rank, slice_id, hops=hops)  # type: ignore[arg-type]
    assert found is not None
    return found


def _arrows(chain: DependencyChain) -> set[tuple[int, int, str, bool]]:
    return {(arrow.from_slice_id, arrow.to_slice_id, arrow.kind, arrow.decided) for arrow in chain.arrows}


def test_a_late_launch_decides_and_the_chain_goes_up_to_its_op() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    outer = trace.slice(main, "aten::linear", "op", 100, 60)
    op = trace.slice(main, "aten::mm", "op", 102, 50)
    _, first = trace.launched(main, gpu, call=(0, 5), work=(10, 20), name="first")
    call, second = trace.launched(main, gpu, call=(110, 5), work=(120, 40), name="second")
    _, third = trace.launched(main, gpu, call=(126, 5), work=(165, 10), name="third")
    chain = _chain(trace, second, hops=4)
    assert _arrows(chain) >= {
        (first, second, "stream_order", False),
        (call, second, "launch", True),
        (op, call, "call", True),
        (outer, op, "within", True),
        (second, third, "stream_order", True),
    }
    hops = {one.slice_id: one.hop for one in chain.slices}
    assert (hops[outer], hops[op], hops[call], hops[first], hops[second], hops[third]) == (-3, -2, -1, -1, 0, 1)
    waits = {(arrow.from_slice_id, arrow.to_slice_id): arrow.wait_ns for arrow in chain.arrows}
    assert waits[call, second] == 10  # from the beginning of the call
    assert waits[first, second] == 90  # from the end of the operation before it


def test_a_wait_for_another_stream_decides_and_a_host_that_waits_follows() -> None:
    trace = TraceBuilder()
    main, compute, wire = trace.thread(), trace.stream(7), trace.stream(20)
    _, gemm = trace.launched(main, compute, call=(0, 5), work=(10, 100), name="gemm")
    call, reduce = trace.launched(main, wire, call=(6, 5), work=(112, 50), name="nccl", category="collective")
    trace.flow(gemm, reduce, "stream_wait")
    sync = trace.slice(main, "cudaStreamSynchronize", "synchronization", 20, 150)
    trace.flow(reduce, sync, "device_sync")
    chain = _chain(trace, reduce)
    assert _arrows(chain) >= {
        (gemm, reduce, "stream_wait", True),
        (call, reduce, "launch", False),
        (reduce, sync, "device_sync", True),
    }


def test_an_op_leads_to_the_kernels_that_it_launches_the_longest_first() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    op = trace.slice(main, "aten::many", "op", 0, 1000)
    count = MOST_A_HOP + 3
    calls = [
        trace.launched(main, gpu, call=(10 * n, 5 + (n > 2)), work=(2000 + 10 * n, 5))[0] for n in range(1, count + 1)
    ]
    chain = _chain(trace, op, hops=1)
    assert {one.slice_id for one in chain.slices if one.hop == 1} == set(calls[2 : 2 + MOST_A_HOP])
    assert chain.left_out == 3


def test_slices_of_a_thread_follow_each_other() -> None:
    trace = TraceBuilder()
    main = trace.thread()
    one, two, three = (trace.slice(main, f"aten::{n}", "op", 100 * n, 50) for n in range(3))
    trace.slice(main, "aten::part", "op", 110, 10)
    chain = _chain(trace, two, hops=1)
    assert _arrows(chain) == {(one, two, "thread_order", True), (two, three, "thread_order", True)}


def test_there_is_no_chain_of_a_slice_that_is_not_there() -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread(), "aten::a", "op", 0, 1)
    assert dependency_chain(trace.recording(), 0, 12345) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("hops", [1, 3, 10])
def test_arrows_lead_from_earlier_hops_to_later_ones(hops: int) -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    work = [trace.launched(main, gpu, call=(100 * n, 5), work=(100 * n + 10, 60 + 30 * (n % 3)))[1] for n in range(12)]
    chain = _chain(trace, work[6], hops=hops)
    hop = {one.slice_id: one.hop for one in chain.slices}
    assert all(hop[arrow.from_slice_id] < hop[arrow.to_slice_id] for arrow in chain.arrows)
    assert max(abs(value) for value in hop.values()) <= hops


def test_what_decided_the_next_slice_is_shown_beside_the_chain() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    _, first = trace.launched(main, gpu, call=(0, 5), work=(10, 20), name="first")
    call, late = trace.launched(main, gpu, call=(100, 5), work=(110, 20), name="late")
    assert _arrows(_chain(trace, first)) >= {(first, late, "stream_order", False), (call, late, "launch", True)}
