"""The ledger of lost head start: what owes, and which debt pays for what."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.causes import CAUSE_NAMES
from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.host_activity import Pieces
from stallscope.analysis.run_ahead import FULL, HIDDEN, WAIT, WITH_ANOTHER, WITH_WAITS, Debts, debts, payments
from tests.builders import TraceBuilder

US = 1000
MOST = 12


def ledger(*rows: tuple[int, int]) -> Debts:
    kind, amount = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    zeros = np.zeros(len(rows), dtype=np.int64)
    most = np.full(len(rows), MOST, dtype=np.int64)
    return Debts(kind.astype(np.int8), zeros.astype(np.int8), amount, zeros, zeros, zeros, most, zeros - 1)


def per_ns(owed: Debts, positions: list[int], length: int, own: list[int] | None = None) -> list[int]:
    causes = np.array(own or [-1] * length, dtype=np.int64)
    pieces, _ = payments(owed, np.array(positions, dtype=np.int64), length, Pieces(np.arange(length + 1), causes))
    return np.repeat(pieces.rows, np.diff(pieces.edges)).tolist()


def besides(owed: Debts, positions: list[int], length: int, own: list[int] | None = None) -> list[int]:
    causes = np.array(own or [-1] * length, dtype=np.int64)
    _, pieces = payments(owed, np.array(positions, dtype=np.int64), length, Pieces(np.arange(length + 1), causes))
    return np.repeat(pieces.rows, np.diff(pieces.edges)).tolist()


def only_together(owed: Debts, positions: list[int], length: int, own: list[int] | None = None) -> list[bool]:
    return [one >= 0 for one in besides(owed, positions, length, own)]


def test_newest_first_waits_add_up_and_full_queues_settle() -> None:
    owed = ledger((WAIT, 4), (HIDDEN, 2), (WAIT, 3), (FULL, 0), (HIDDEN, 1))
    owed = replace(owed, cause=np.arange(5, dtype=np.int8))
    assert per_ns(owed, [1, 2, 6, 10, 11], 14) == [-1, 0, 1, 1, 0, 0, 2, 2, 2, 0, -1, 4, -1, -1]


def test_a_wait_takes_over_what_others_hid_which_comes_back_only_if_both_go() -> None:
    owed = replace(ledger((HIDDEN, 3), (WAIT, 2)), cause=np.array([3, 5], dtype=np.int8))
    assert per_ns(owed, [0, 1], 7) == [0, 1, 1, 1, 1, -1, -1]
    assert only_together(owed, [0, 1], 7) == [False, False, False, True, True, False, False]
    nothing_waited_for = replace(owed, amount=np.array([3, 0]))
    assert per_ns(nothing_waited_for, [0, 1], 5) == [0, 1, 1, -1, -1]
    assert only_together(nothing_waited_for, [0, 1], 5) == [False, True, True, False, False]


def test_a_debt_does_not_pay_for_time_of_its_own_cause() -> None:
    owed = replace(ledger((WAIT, 4), (WAIT, 4)), cause=np.array([3, 5], dtype=np.int8))
    assert per_ns(owed, [0, 0], 6, [5, 5, -1, 3, 3, -1]) == [0, 0, 1, 1, 1, 1]
    assert per_ns(owed, [0, 0], 3, [3, 5, 7]) == [1, 0, 1]


def test_hidden_work_pays_for_time_with_another_cause_and_not_for_more_of_its_own() -> None:
    assert per_ns(ledger((HIDDEN, 3)), [0], 5, [5, 0, -1, 0, 5]) == [0, -1, 0, -1, 0]


def test_time_with_a_cause_uses_up_what_comes_back_alone_and_leaves_the_debt() -> None:
    owed, own = ledger((WAIT, 3)), [5, 5, -1, -1, -1, -1]
    assert per_ns(owed, [0], 6, own) == [0, 0, 0, 0, 0, -1]
    assert only_together(owed, [0], 6, own) == [False, False, False, True, True, False]
    assert per_ns(owed, [0], 5, [5, 5, 5, 5, -1]) == [0, 0, 0, -1, 0]


def test_a_wait_takes_over_hidden_work_of_other_causes_only() -> None:
    owed = replace(ledger((HIDDEN, 2), (HIDDEN, 2), (WAIT, 1)), cause=np.array([3, 5, 5], dtype=np.int8))
    assert per_ns(owed, [0, 0, 0], 6) == [2, 2, 2, 1, 1, -1]


def test_a_wait_takes_over_no_more_than_a_queue_holds() -> None:
    owed = replace(ledger((HIDDEN, MOST + 5), (WAIT, 3)), cause=np.array([3, 5], dtype=np.int8))
    assert per_ns(owed, [0, 0], MOST + 2) == [1] * MOST + [-1] * 2


def test_waits_owe_no_more_than_a_queue_holds() -> None:
    owed = ledger((WAIT, MOST - 2), (WAIT, 5))
    assert per_ns(owed, [0, 0], MOST + 2) == [1] * 5 + [0] * (MOST - 5) + [-1] * 2


def test_what_a_wait_took_comes_back_only_together_with_a_later_wait_at_another_place() -> None:
    owed = replace(ledger((WAIT, 3), (WAIT, 2)), cause=np.array([3, 5], dtype=np.int8), place=np.array([7, 8]))
    assert per_ns(owed, [0, 1], 6) == [0, 1, 1, 0, 0, -1]
    assert besides(owed, [0, 1], 6) == [-1, -1, -1, WITH_WAITS, WITH_WAITS, -1]
    # Of time with a cause of its own it is the second cause likewise; what is left would need that to go as well.
    own = [4] * 5 + [-1]
    assert per_ns(owed, [0, 1], 6, own) == [0, 1, 1, 0, 0, 1]
    assert besides(owed, [0, 1], 6, own) == [-1, -1, -1, WITH_WAITS, WITH_WAITS, WITH_ANOTHER]
    nothing_waited_for = replace(owed, amount=np.array([3, 0]))
    assert only_together(nothing_waited_for, [0, 1], 5) == [False, True, True, False, False]


@pytest.mark.parametrize("places", [(7, 7), (7, -1), (-1, 7), (-1, -1)])
def test_waits_at_the_same_place_and_those_without_a_known_one_add_up(places: tuple[int, int]) -> None:
    owed = replace(ledger((WAIT, 3), (WAIT, 2)), place=np.array(places))
    assert per_ns(owed, [0, 1], 6) == [0, 1, 1, 0, 0, -1]
    assert not any(only_together(owed, [0, 1], 6))
    assert per_ns(owed, [0, 1], 6, [4] * 6) == [0, 1, 1, 0, 0, -1]


Event = tuple[int, int, int, int]
"""Kind, amount, when, and place."""


def test_of_second_causes_one_that_is_enough_comes_before_one_that_is_tied() -> None:
    owed = replace(ledger((WAIT, 2), (WAIT, 2)), cause=np.array([3, 5], dtype=np.int8), place=np.array([-1, 8]))
    later = replace(ledger((WAIT, 2), (WAIT, 2), (WAIT, 0)), cause=np.array([3, 5, 6], dtype=np.int8))
    later = replace(later, place=np.array([-1, 8, 9]))
    assert per_ns(owed, [0, 0], 5, [4] * 5) == [1, 1, 0, 0, -1]
    assert per_ns(later, [0, 0, 0], 5, [4] * 5) == [0, 0, 1, 1, -1]
    assert besides(later, [0, 0, 0], 5, [4] * 5) == [-1, -1, WITH_WAITS, WITH_WAITS, -1]


NEEDS = {"a": -1, "t": WITH_WAITS, "o": WITH_ANOTHER}


def second(stack: list[tuple[int, str]], own: int) -> tuple[int, int]:
    """Who is the second cause of a ns with a cause of its own, and what would have to go as well; uses it up."""
    for letter in "at":
        for place in reversed(range(len(stack))):
            number, left = stack[place]
            if number != own and letter in left:
                stack[place] = (number, left.replace(letter, "", 1) + "o")
                return number, NEEDS[letter]
    return -1, -1


def twin(events: list[Event], length: int, own: list[int]) -> tuple[list[int], list[int]]:
    """Who pays for each ns, and what would have to go as well, told ns by ns; the cause of each event is its number.

    An open debt is its number and one letter for each ns of it: a comes back alone, t is tied to other waits, o needs
    another delay to go.
    """
    payers: list[int] = []
    besides: list[int] = []
    stack: list[tuple[int, str]] = []
    for now in range(length):
        for number, (kind, amount, at, place) in enumerate(events):
            if at != now:
                continue
            hidden = "".join(left for n, left in stack if events[n][0] == HIDDEN)
            if kind == WAIT:
                stack = [(n, left) for n, left in stack if events[n][0] != HIDDEN]
                tied = [{place, events[n][3]} == {0, 1} for n, _ in stack]
                stack = [(n, left.replace("a", "t") if t else left) for (n, left), t in zip(stack, tied, strict=True)]
            stack = [] if kind == FULL else stack
            stack = [*stack, (number, "a" * amount + "o" * (len(hidden) if kind == WAIT else 0))]
            while kind == WAIT and sum(len(left) for _, left in stack) > max(MOST, amount):
                oldest = next(i for i, (_, left) in enumerate(stack) if left)
                stack[oldest] = (stack[oldest][0], stack[oldest][1][:-1])
        stack = [(n, left) for n, left in stack if left]
        payer, needs = (stack[-1][0], NEEDS[stack[-1][1][0]]) if stack else (-1, -1)
        if own[now] >= 0:
            payer, needs = second(stack, own[now])
        elif stack:
            stack[-1] = (stack[-1][0], stack[-1][1][1:])
        payers.append(payer)
        besides.append(needs)
    return payers, besides


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 9), st.integers(0, 25), st.integers(-1, 1)), max_size=8),
    st.integers(0, 25),
    st.lists(st.sampled_from([-1, -1, 0, 1, 99]), min_size=25, max_size=25),
)
def test_against_a_twin_that_pays_ns_by_ns(events: list[Event], length: int, own: list[int]) -> None:
    events = sorted(events, key=lambda event: event[2])
    events = [(kind, 0 if kind == FULL else amount, min(at, length), place) for kind, amount, at, place in events]
    owed = ledger(*[event[:2] for event in events]) if events else ledger((WAIT, 0))
    owed = replace(owed, cause=np.arange(len(owed), dtype=np.int8))
    owed = replace(owed, place=np.array([event[3] for event in events] or [-1], dtype=np.int64))
    positions = [event[2] for event in events] or [0]
    own = own[:length]
    found = per_ns(owed, positions, length, own), besides(owed, positions, length, own)
    assert found == twin(events, length, own)


def described(trace: TraceBuilder) -> list[tuple[int, str, int]]:
    recording = trace.recording()
    activity = rank_activity(recording, 0)
    owed = debts(recording, activity, activity.devices[0])
    kinds, causes = owed.kind.tolist(), owed.cause.tolist()
    return [(kind, CAUSE_NAMES[c], int(a) // US) for kind, c, a in zip(kinds, causes, owed.amount, strict=True)]


def busy(trace: TraceBuilder, until: int) -> tuple[int, int]:
    """A device that is busy from 10 us on; returns the thread and the stream."""
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5 * US), work=(10 * US, until - 10 * US))
    return main, gpu


def test_a_wait_owes_what_the_device_did_in_it() -> None:
    trace = TraceBuilder()
    main, _ = busy(trace, 300 * US)
    trace.slice(main, "cudaStreamSynchronize", "synchronization", 100 * US, 210 * US)
    trace.slice(main, "cudaStreamSynchronize", "synchronization", 320 * US, 300 * US)
    # The second one finds the device idle: it took nothing, and is a wait for whoever comes earlier.
    assert described(trace) == [(WAIT, "synchronization", 200), (WAIT, "synchronization", 0)]


def test_a_wait_inside_io_is_owed_by_io_and_hidden_work_does_not_count_it_twice() -> None:
    trace = TraceBuilder()
    main, _ = busy(trace, 900 * US)
    trace.slice(main, "torch/serialization.py(9): save", "python", 100 * US, 700 * US)
    trace.slice(main, "cudaStreamSynchronize", "synchronization", 200 * US, 150 * US)
    assert described(trace) == [(WAIT, "io", 150), (HIDDEN, "io", 550)]


def test_long_python_behind_a_busy_device_is_a_debt() -> None:
    trace = TraceBuilder()
    main, _ = busy(trace, 2000 * US)
    trace.slice(main, "aten::mm", "op", 100 * US, 50 * US)
    trace.slice(main, "aten::mm", "op", 700 * US, 50 * US)
    trace.slice(main, "aten::mm", "op", 800 * US, 50 * US)
    assert described(trace) == [(HIDDEN, "python", 550)]


def test_a_launch_that_blocks_on_a_full_queue_settles() -> None:
    trace = TraceBuilder()
    main, gpu = busy(trace, 1000 * US)
    trace.launched(main, gpu, call=(20 * US, 400 * US), work=(1000 * US, 10 * US))
    assert described(trace) == [(FULL, CAUSE_NAMES[0], 0)]


def test_a_copy_that_holds_its_call_is_a_wait() -> None:
    trace = TraceBuilder()
    main, gpu = busy(trace, 1000 * US)
    copy = {"name": "Memcpy DtoH (Device -> Pageable)", "category": "memcpy", "call_name": "cudaMemcpyAsync"}
    trace.launched(main, gpu, call=(100 * US, 1000 * US), work=(1010 * US, 50 * US), **copy)
    # The last 50 are the copy alone: the device's own loss.
    assert described(trace) == [(WAIT, "synchronization", 900)]
