"""Which free ends which allocation: blocks of memory with a beginning and an end.

Events are matched by address where the trace has addresses. The layout of 2021 has none: there a free is given to the
youngest block of the same size on the same device, which keeps every total right but may take one block for another of
its size; ``Blocks.matched_by`` says which way was used.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .nesting import Ints, Mask
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

NEVER = np.iinfo(np.int64).max
"""Position of an end that the recording did not see."""

_HOST, _INDICES = -(1 << 31) - 1, 1 << 33
"""While devices are numbered: what stands for a missing index, and more than the number of possible ones."""


@dataclass(frozen=True, slots=True, eq=False)
class MemoryEvents:
    """The allocations and frees of one rank as columns of equal length, in the order in which they happened.

    Attributes:
        devices: (device type, device index) of each device; the index is None for the host.
        device: Per event, its device's place in ``devices``.
        ts: When, ns.
        bytes: Positive for an allocation, negative for a free.
        address: The address; only meaningful where ``has_address``.
        has_address: Whether the trace gives one.
        allocated: The allocator's total of allocated bytes after the event; only meaningful where ``has_allocated``.
        has_allocated: Whether the trace gives it.
        reserved: The same for reserved bytes.
        has_reserved: Whether the trace gives it.
        slice_id: The innermost slice around it; -1 for none.
        stack: The stack; -1 for none.
    """

    devices: tuple[tuple[str, int | None], ...]
    device: Ints
    ts: Ints
    bytes: Ints
    address: npt.NDArray[np.uint64]
    has_address: Mask
    allocated: Ints
    has_allocated: Mask
    reserved: Ints
    has_reserved: Mask
    slice_id: Ints
    stack: Ints

    def __len__(self) -> int:
        return len(self.ts)


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Blocks of memory of one rank, as columns of equal length.

    A block lives from position ``born`` up to, and not including, position ``died``; positions number the events.

    Attributes:
        device: Place of the device in ``MemoryEvents.devices``.
        bytes: Size.
        born: Position of the allocation; -1 if it was made before the recording began.
        died: Position of the free; ``NEVER`` if the recording did not see one.
        matched_by: Per device: "address", "size", or "none" where the device has no events.
        freed_unseen: Per device, blocks whose address was given out again without a free in the trace; they end there.
        allocated_unseen: Per device, blocks freed at an address that was free already; when they began is not known, so
            they are held at no instant.
        size_differs: Per device, frees of another size than the allocation at that address.
    """

    device: Ints
    bytes: Ints
    born: Ints
    died: Ints
    matched_by: tuple[str, ...]
    freed_unseen: Ints
    allocated_unseen: Ints
    size_differs: Ints

    def alive_at(self, position: int, device: int) -> Mask:
        """Which blocks of a device are held just after the event at a position (-1: before the first event)."""
        alive: Mask = (self.device == device) & (self.born <= position) & (self.died > position)
        return alive

    def held(self, device: int, events: int) -> Ints:
        """Bytes in known blocks of a device before the first event and after each of the ``events`` events."""
        change = np.zeros(events + 1, dtype=np.int64)
        mine = self.device == device
        np.add.at(change, self.born[mine] + 1, self.bytes[mine])
        ended = mine & (self.died != NEVER)
        np.add.at(change, self.died[ended] + 1, -self.bytes[ended])
        return np.cumsum(change)


def memory_events(recording: Recording, rank: int) -> MemoryEvents:
    """The allocations and frees of a rank, by time and then by the order of the trace; read once per recording."""
    return memoized(recording, ("memory_events", rank), lambda: _read(recording.table("memory", ranks=(rank,))))


def memory_blocks(recording: Recording, rank: int) -> Blocks:
    """The blocks of a rank; matched once per recording."""
    return memoized(recording, ("memory_blocks", rank), lambda: match(memory_events(recording, rank)))


def match(events: MemoryEvents) -> Blocks:
    """Pairs frees with allocations. Every event is part of exactly one block, events of zero bytes of none.

    On a device where any event has no address, all are matched by size.
    """
    without = [bool((~events.has_address[events.device == d]).any()) for d in range(len(events.devices))]
    by_size = np.array(without, dtype=bool)
    found = [_pairs(events, False, _of(events, ~by_size)), _pairs(events, True, _of(events, by_size))]
    born, died = (np.concatenate([pair[i] for pair in found]) for i in range(2))
    event = np.where(born >= 0, born, died)
    size = np.abs(events.bytes[event])
    ended = (born >= 0) & (died != NEVER) & (born != died)
    freed_unseen = ended.copy()
    freed_unseen[ended] = events.bytes[died[ended]] > 0
    ended &= ~freed_unseen
    differs = np.zeros(len(born), dtype=bool)
    differs[ended] = np.abs(events.bytes[died[ended]]) != size[ended]
    device, count = events.device[event], len(events.devices)
    order = np.lexsort((died, born))
    return Blocks(
        device=device[order],
        bytes=size[order],
        born=born[order],
        died=died[order],
        matched_by=tuple("size" if flag else "address" for flag in by_size),
        freed_unseen=np.bincount(device[freed_unseen], minlength=count).astype(np.int64),
        allocated_unseen=np.bincount(device[born == died], minlength=count).astype(np.int64),
        size_differs=np.bincount(device[differs], minlength=count).astype(np.int64),
    )


def _of(events: MemoryEvents, devices: Mask) -> Ints:
    """Positions of the events of the marked devices that move at least a byte."""
    if not len(events):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(devices[events.device] & (events.bytes != 0)).astype(np.int64)


def _pairs(events: MemoryEvents, by_size: bool, chosen: Ints) -> tuple[Ints, Ints]:
    """(born, died) of the blocks that the chosen events make up."""
    if not len(chosen):
        return chosen, chosen
    allocates = events.bytes[chosen] > 0
    size = np.abs(events.bytes[chosen])
    key = pd.factorize(size.astype(np.uint64) if by_size else events.address[chosen])[0]
    level = _nesting_level(events.device[chosen], key, allocates) if by_size else np.zeros_like(key)
    order = np.lexsort((chosen, level, key, events.device[chosen]))
    chosen, allocates = chosen[order], allocates[order]
    place = np.stack([events.device[chosen], key[order], level[order]])
    follows = (place[:, 1:] == place[:, :-1]).all(axis=0)
    after = np.append(np.where(follows, chosen[1:], NEVER), NEVER)
    ends_one = np.append(False, follows & allocates[:-1])
    again = np.append(False, follows & ~allocates[:-1])
    lone = ~allocates & ~ends_one
    born = np.concatenate([chosen[allocates], np.where(again, chosen, -1)[lone]])
    return born, np.concatenate([after[allocates], chosen[lone]])


def _nesting_level(device: Ints, key: Ints, allocates: Mask) -> Ints:
    """How many blocks of the same device and size are held where an event opens or closes one.

    Last in, first out: a free closes the block that was opened at its own level, as brackets do. Frees without an
    allocation lead to levels below zero and find nothing there.
    """
    order = np.lexsort((key, device))
    step = np.where(allocates, 1, -1)[order]
    run = np.cumsum(step)
    starts = np.append(True, (device[order][1:] != device[order][:-1]) | (key[order][1:] != key[order][:-1]))
    first = np.flatnonzero(starts[: len(order)])
    lengths = np.diff(np.append(first, len(order)))
    run -= np.repeat(run[first] - step[first], lengths)
    level = np.empty(len(order), dtype=np.int64)
    level[order] = np.where(step > 0, run, run + 1)
    return level


def _read(table: pa.Table) -> MemoryEvents:
    """The table as columns. Rows without a size say nothing and are left out."""
    table = table.filter(pc.is_valid(table["bytes"]))
    table = table.take(pc.sort_indices(table, sort_keys=[("ts", "ascending"), ("event_id", "ascending")]))
    types = table["device_type"].cast(pa.string()).combine_chunks().dictionary_encode()
    types = types.combine_chunks() if isinstance(types, pa.ChunkedArray) else types
    texts = [text or "" for text in types.dictionary.to_pylist()]
    index = pc.fill_null(table["device_index"].cast(pa.int64()), _HOST).to_numpy()
    pair, pairs = pd.factorize(types.indices.to_numpy().astype(np.int64) * _INDICES + (index - _HOST))
    keys = [(texts[p // _INDICES], None if p % _INDICES == 0 else p % _INDICES + _HOST) for p in pairs.tolist()]
    ranked = sorted(range(len(keys)), key=lambda k: (keys[k][0] == "cpu", keys[k][0], keys[k][1] or -1))
    device = np.argsort(ranked)[pair] if ranked else np.zeros(0, dtype=np.int64)

    def ints(column: str) -> tuple[Ints, Mask]:
        values = table[column]
        known = pc.is_valid(values).to_numpy(zero_copy_only=False)
        return pc.fill_null(values, -1).to_numpy().astype(np.int64), known

    allocated, reserved = ints("total_allocated"), ints("total_reserved")
    return MemoryEvents(
        devices=tuple(keys[k] for k in ranked),
        device=device,
        ts=ints("ts")[0],
        bytes=ints("bytes")[0],
        address=pc.fill_null(table["address"], 0).to_numpy().astype(np.uint64),
        has_address=pc.is_valid(table["address"]).to_numpy(zero_copy_only=False),
        allocated=allocated[0],
        has_allocated=allocated[1],
        reserved=reserved[0],
        has_reserved=reserved[1],
        slice_id=ints("slice_id")[0],
        stack=ints("stack_id")[0],
    )
