from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.memory_blocks import NEVER, memory_blocks, memory_events
from tests.builders import MemoryRecording, TraceBuilder

Event = tuple[int, int, int | None]
"""(device index or -1 for the host, bytes, address)"""


def recorded(events: list[Event]) -> MemoryRecording:
    trace = TraceBuilder()
    for number, (device, size, address) in enumerate(events):
        place: dict[str, Any] = {"device_type": "cuda", "device_index": device}
        if device < 0:
            place = {"device_type": "cpu", "device_index": None}
        trace.row("memory", event_id=number, ts=number // 3, bytes=size, address=address, **place)
    return trace.recording()


def pairs(events: list[Event]) -> set[tuple[int, int]]:
    blocks = memory_blocks(recorded(events), 0)
    return set(zip(blocks.born.tolist(), blocks.died.tolist(), strict=True))


def test_by_address_a_free_ends_the_allocation_at_its_address() -> None:
    assert pairs([(0, 8, 100), (0, 8, 200), (0, -8, 100), (0, 16, 100)]) == {(0, 2), (1, NEVER), (3, NEVER)}


def test_by_address_frees_without_allocation_and_allocations_without_free() -> None:
    events = [(0, -8, 100), (0, -8, 100), (0, 8, 200), (0, 4, 200), (0, -6, 200)]
    blocks = memory_blocks(recorded(events), 0)
    assert pairs(events) == {(-1, 0), (1, 1), (2, 3), (3, 4)}
    assert (blocks.freed_unseen[0], blocks.allocated_unseen[0], blocks.size_differs[0]) == (1, 1, 1)
    assert blocks.held(0, 5).tolist() == [8, 0, 0, 8, 4, 0]


def test_without_addresses_the_youngest_of_its_size_is_freed() -> None:
    events: list[Event] = [(0, -8, None), (0, 8, None), (0, 8, None), (0, 4, None), (0, -8, None), (-1, -4, None)]
    blocks = memory_blocks(recorded(events), 0)
    assert pairs(events) == {(-1, 0), (1, NEVER), (2, 4), (3, NEVER), (-1, 5)}
    assert blocks.matched_by == ("size", "size")


def test_the_same_address_on_two_devices_is_two_blocks() -> None:
    assert pairs([(0, 8, 100), (1, 8, 100), (0, -8, 100)]) == {(0, 2), (1, NEVER)}


def test_no_events() -> None:
    recording = recorded([])
    assert len(memory_events(recording, 0)) == 0 and len(memory_blocks(recording, 0).born) == 0


def matched_one_by_one(events: list[Event]) -> set[tuple[int, int]]:
    """The twin: a walk over the events with a table of what is held."""
    lacks_address = {device for device, _, address in events if address is None}
    held: dict[Any, list[int]] = defaultdict(list)
    freed: set[Any] = set()
    found = []
    for position, (device, size, address) in enumerate(events):
        if size == 0:
            continue
        by_size = device in lacks_address
        key = (device, abs(size) if by_size else address)
        if size > 0:
            if not by_size and held[key]:
                found.append((held[key].pop(), position))
            held[key].append(position)
        elif held[key]:
            found.append((held[key].pop(), position))
        else:
            found.append((position if key in freed and not by_size else -1, position))
        freed.add(key)
    return {*found, *((born, NEVER) for rows in held.values() for born in rows)}


EVENTS = st.lists(
    st.tuples(
        st.integers(-1, 1),
        st.integers(-3, 3),
        st.one_of(st.none(), st.integers(1, 4), st.just(2**64 - 1)),
    ),
    max_size=40,
)
ADDRESSED = st.lists(st.tuples(st.integers(-1, 0), st.integers(-3, 3), st.integers(1, 4)), max_size=40)


@given(st.one_of(EVENTS, ADDRESSED))
def test_agrees_with_a_walk_over_the_events(events: list[Event]) -> None:
    assert pairs(events) == matched_one_by_one(events)


@given(ADDRESSED)
def test_bytes_held_are_those_of_the_blocks_alive(events: list[Event]) -> None:
    recording = recorded(events)
    found, columns = memory_blocks(recording, 0), memory_events(recording, 0)
    for device in range(len(columns.devices)):
        held = found.held(device, len(columns))
        for position in range(-1, len(columns)):
            assert held[position + 1] == found.bytes[found.alive_at(position, device)].sum()
        assert np.all(held >= 0)
