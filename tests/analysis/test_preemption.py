"""Stretches in which a thread had no core: only where the scheduler says so, and only in ops."""

from __future__ import annotations

import pytest

from stallscope.analysis.stalls import stalls
from tests.builders import TraceBuilder

US = 1000


def slow_op(delay_ns: int | None, category: str = "op") -> TraceBuilder:
    """An op of the main thread takes 3 ms between two kernels; the sampler counted a wait for a core around it."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, 90 * US))
    trace.slice(main, "aten::mm", category, 100 * US, 3000 * US)
    trace.launched(main, gpu, call=(3101 * US, 5 * US), work=(3110 * US, 100 * US))
    for ts, delay in ((0, 0), (5000 * US, delay_ns)):
        state = None if delay is None else "runnable"
        trace.row("samples", track_id=main, ts=ts, stack_id=None, state=state, run_delay_ns=delay)
    return trace


@pytest.mark.parametrize(
    ("delay_ns", "category", "cause"),
    [
        (2_900_000, "op", "preempted"),
        (1_000_000, "op", "dispatch"),
        (None, "op", "dispatch"),
        (2_900_000, "input", "input"),
    ],
)
def test_a_slow_op_is_preemption_where_the_scheduler_counted_it(
    delay_ns: int | None, category: str, cause: str
) -> None:
    frame = stalls(slow_op(delay_ns, category).recording())
    longest = frame.loc[frame["dur"].idxmax()]
    assert longest["root_cause"] == cause
    assert ("core" in longest["reason"]) == (cause == "preempted")
