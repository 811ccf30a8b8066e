"""Waits for the interpreter: a call of torch that does not come back while another thread runs Python."""

from __future__ import annotations

import pytest

from stallscope.analysis.source_lines import source_lines
from stallscope.analysis.stalls import stalls
from stallscope.analysis.why import why_largest
from tests.builders import TraceBuilder

US = 1000


def beside(
    *, other: str | None = "digest.py(3): digest", call: str = "<built-in function linear>", op: bool = True,
    sampled: tuple[int, ...] = (), other_ms: tuple[int, int] = (0, 6),
) -> TraceBuilder:  # fmt: skip
    """A call of the training loop lasts 4 ms, 20 us of it recorded; another thread has a slice, samples, or nothing."""
    trace = TraceBuilder()
    main, beside, gpu = trace.thread("MainThread"), trace.thread("Thread-1"), trace.stream()
    trace.python(main, "train.py(10): train", 0, 6000 * US)
    trace.launched(main, gpu, call=(50 * US, 5 * US), work=(60 * US, 90 * US))
    trace.python(main, call, 100 * US, 4000 * US)
    if op:
        trace.slice(main, "aten::linear", "op", 101 * US, 20 * US)
    trace.launched(main, gpu, call=(4150 * US, 5 * US), work=(4160 * US, 100 * US))
    if other:
        trace.python(beside, other, other_ms[0] * 1000 * US, (other_ms[1] - other_ms[0]) * 1000 * US)
    trace.row("frames", frame_id=1, file="/home/me/digest.py", line=5, function="digest", origin="user")
    trace.row("stacks", stack_id=1, frame_ids=[1])
    for ts in (0, *sampled):
        trace.row("samples", track_id=main, ts=ts * US, stack_id=None, state=None, run_delay_ns=None)
    for ts in sampled:
        trace.row("samples", track_id=beside, ts=ts * US, stack_id=1, state="running", run_delay_ns=None)
    return trace


def longest(trace: TraceBuilder) -> dict[str, object]:
    frame = stalls(trace.recording())
    return dict(frame.loc[frame["dur"].idxmax()])


@pytest.mark.parametrize(
    ("situation", "cause"),
    [
        ({}, "lock"),
        ({"other": None}, "python"),
        # The other thread waits itself, and while it does the interpreter is free.
        ({"other": "<built-in method acquire of _thread.lock object at 0x7f0000000000>"}, "python"),
        ({"other": "<built-in function sleep>"}, "python"),
        # It ran for too little of the time.
        ({"other_ms": (0, 1)}, "python"),
        # A call without an op in the user's own function may take what it takes.
        ({"call": "<built-in function sorted>", "op": False}, "python"),
        # The other thread's functions began before the recording: the sampler saw it run.
        ({"other": None, "sampled": (2000, 4100)}, "lock"),
        ({"other": None, "sampled": (1000,)}, "python"),
    ],
)
def test_whether_a_call_waited_for_the_interpreter(situation: dict[str, object], cause: str) -> None:
    found = longest(beside(**situation))  # type: ignore[arg-type]
    assert found["root_cause"] == cause
    assert ("another thread" in str(found["reason"])) == (cause == "lock")


def test_the_line_is_where_the_sampler_saw_the_thread_that_held_it() -> None:
    found = longest(beside(sampled=(2000, 4100)))
    assert (found["file"], found["line"], found["line_source"]) == ("/home/me/digest.py", 5, "sample")


DIGEST = """import queue

def digest(jobs):
    while True:
        count = jobs.get()
        total = 0
        for number in range(count):
            total += number * number % 7
"""


def test_a_thread_that_is_only_seen_waiting_spent_the_time_in_its_loop() -> None:
    trace = beside(sampled=(5000,))
    [thread] = [one for one in trace.recording().table("tracks").to_pylist() if one["name"] == "Thread-1"]
    blocked = "<built-in method get of _queue.SimpleQueue object at 0x7f0000000000>"
    trace.slice(thread["track_id"], blocked, "python", 4300 * US, 1700 * US)
    assert longest(trace)["root_cause"] == "lock"
    assert longest(trace)["file"] != "/home/me/digest.py"  # without its text nothing says more
    trace.row("sources", path="/home/me/digest.py", sha256="0" * 64, text=DIGEST)
    found = longest(trace)
    assert (found["root_cause"], found["file"], found["line"]) == ("lock", "/home/me/digest.py", 7)
    assert (found["function"], found["line_source"]) == ("digest", "source")


def test_a_wait_that_the_device_hid_owes_the_gaps_after_it() -> None:
    """Of the wait 4 ms the device hides 2.85; the dispatch after it would have been hidden behind that head start."""
    trace = TraceBuilder()
    main, other, gpu = trace.thread("MainThread"), trace.thread("Thread-1"), trace.stream()
    trace.python(main, "train.py(10): train", 0, 9000 * US)
    trace.launched(main, gpu, call=(50 * US, 5 * US), work=(60 * US, 2900 * US))
    trace.python(main, "<built-in function linear>", 100 * US, 4000 * US)
    trace.slice(main, "aten::linear", "op", 101 * US, 9 * US)
    trace.launched(main, gpu, call=(4105 * US, 5 * US), work=(4115 * US, 10 * US))
    trace.slice(main, "aten::mm", "op", 4110 * US, 4000 * US)
    trace.launched(main, gpu, call=(8110 * US, 5 * US), work=(8120 * US, 10 * US))
    trace.python(other, "digest.py(3): digest", 0, 4500 * US)
    frame = stalls(trace.recording())
    owed = frame[(frame["cause"] != "lock") & (frame["root_cause"] == "lock")]
    assert owed["dur"].sum() == (2960 - 110) * US
    assert set(frame["root_cause"]) == {"lock", "dispatch", "launch"}


def test_the_chain_names_the_thread_that_held_it() -> None:
    chain = why_largest(beside().recording())  # type: ignore[arg-type]
    assert any("Thread-1 ran Python meanwhile" in link.text for link in chain.links)


def test_samples_of_other_threads_are_no_cost_of_a_line() -> None:
    lines = source_lines(beside(sampled=(2000, 4100)).recording())
    assert lines["samples"].sum() == 3
    assert not (lines["file"] == "/home/me/digest.py").any()
