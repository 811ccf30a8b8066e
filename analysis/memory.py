"""How much memory was held over time, and the most of it at once, per device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from .columns import nullable_ints
from .memory_blocks import NEVER, MemoryEvents, memory_blocks, memory_events
from .nesting import Ints, Mask
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

Basis = Literal["allocator", "seen"]
"""Where a total comes from: the allocator's own total, or the blocks whose allocation or free the recording saw."""


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """What the recording says about the memory of one device of one rank.

    Attributes:
        rank: The rank.
        device_type: As in the table ``memory``.
        device_index: As in the table ``memory``; None for the host.
        events: Allocations and frees.
        basis: "allocator": totals are the allocator's own. "seen": the trace has none that counts from zero (the host's
            begin with the recording and may go negative; the layout of 2021 has none), so totals are the bytes of the
            blocks that were allocated or freed in it; more may have been held all along.
        peak_allocated_bytes: The most that was held by tensors at once.
        peak_ts: When that was first so, ns.
        peak_reserved_bytes: The most that the allocator held; None where the trace does not say.
        first_allocated_bytes: Held before the first event.
        last_allocated_bytes: Held after the last event.
        allocated_in_bytes: Sum of all allocations.
        freed_bytes: Sum of all frees.
        matched_by: "address" or "size": how frees were given to allocations (see ``memory_blocks``).
        never_freed_bytes: In blocks allocated in the recording and not freed in it.
        never_freed_count: The number of those blocks.
        from_before_bytes: In blocks freed in the recording and allocated before it.
        from_before_count: The number of those blocks.
        freed_unseen_count: Blocks whose address was given out again without a free in the trace.
        allocated_unseen_count: Frees of an address that was free already.
        size_differs_count: Frees of another size than the allocation at their address.
    """

    rank: int
    device_type: str
    device_index: int | None
    events: int
    basis: Basis
    peak_allocated_bytes: int
    peak_ts: int
    peak_reserved_bytes: int | None
    first_allocated_bytes: int
    last_allocated_bytes: int
    allocated_in_bytes: int
    freed_bytes: int
    matched_by: str
    never_freed_bytes: int
    never_freed_count: int
    from_before_bytes: int
    from_before_count: int
    freed_unseen_count: int
    allocated_unseen_count: int
    size_differs_count: int


@dataclass(frozen=True, slots=True, eq=False)
class HeldBytes:
    """Bytes held on one device after each of its events.

    Attributes:
        position: Per event of the device, its position among all memory events of the rank.
        allocated: Bytes after it.
        before: Bytes before the first event.
        basis: Where the totals come from.
    """

    position: Ints
    allocated: Ints
    before: int
    basis: Basis


def memory_timeline(recording: Recording, *, rank: int | None = None) -> pd.DataFrame:
    """Bytes held after every allocation and free.

    Args:
        recording: The recording.
        rank: One rank; all by default.

    Returns:
        One row an event, by rank, device and time: rank, device_type, device_index (null: the host), ts (ns),
        allocated_bytes, reserved_bytes (null: not in the trace), basis ("allocator" or "seen", see ``DeviceMemory``).
        Without memory events it has no rows.
    """
    pieces = [
        (one, device, held_bytes(recording, one, device))
        for one in (recording.ranks if rank is None else (rank,))
        for device in range(len(memory_events(recording, one).devices))
    ]
    columns: dict[str, list[Any]] = {name: [] for name in ("rank", "kind", "index", "ts", "held", "reserved", "says")}
    for one, device, held in pieces:
        events, at = memory_events(recording, one), held.position
        kind, index = events.devices[device]
        for name, values in (
            ("rank", np.full(len(at), one)),
            ("kind", np.full(len(at), kind, dtype=object)),
            ("index", np.full(len(at), -1 if index is None else index)),
            ("ts", events.ts[at]),
            ("held", held.allocated),
            ("reserved", events.reserved[at]),
            ("says", says_reserved(events)[at]),
        ):
            columns[name].append(values)
    joined = {name: np.concatenate([np.zeros(0, dtype=np.int64), *parts]) for name, parts in columns.items()}
    basis = [held.basis for _, _, held in pieces for _ in held.position]
    return pd.DataFrame(
        {
            "rank": joined["rank"],
            "device_type": pd.array(joined["kind"], dtype="string"),
            "device_index": nullable_ints(joined["index"], joined["index"] >= 0),
            "ts": joined["ts"],
            "allocated_bytes": joined["held"],
            "reserved_bytes": nullable_ints(joined["reserved"], joined["says"].astype(bool)),
            "basis": pd.array(basis, dtype="string"),
        }
    )


def memory_peaks(recording: Recording, *, rank: int | None = None) -> tuple[DeviceMemory, ...]:
    """What the recording says about the memory of each device, accelerators first; empty without memory events.

    Args:
        recording: The recording.
        rank: One rank; all by default.
    """
    ranks = recording.ranks if rank is None else (rank,)
    return tuple(
        _device_memory(recording, one, device)
        for one in ranks
        for device in range(len(memory_events(recording, one).devices))
    )


def held_bytes(recording: Recording, rank: int, device: int) -> HeldBytes:
    """Bytes held on a device (its place in ``MemoryEvents.devices``) after each of its events."""
    return memoized(recording, ("held_bytes", rank, device), lambda: _held_bytes(recording, rank, device))


def _held_bytes(recording: Recording, rank: int, device: int) -> HeldBytes:
    events = memory_events(recording, rank)
    at = np.flatnonzero(events.device == device).astype(np.int64)
    if events.devices[device][0] != "cpu" and bool(events.has_allocated[at].all()):
        allocated = events.allocated[at]
        return HeldBytes(at, allocated, int(allocated[0] - events.bytes[at[0]]), "allocator")
    held = memory_blocks(recording, rank).held(device, len(events))
    return HeldBytes(at, held[at + 1], int(held[0]), "seen")


def says_reserved(events: MemoryEvents) -> Mask:
    """Where the reserved total means something: the host's allocator reserves nothing and writes 0."""
    host = np.array([kind == "cpu" for kind, _ in events.devices], dtype=bool)
    says: Mask = events.has_reserved & ~host[events.device]
    return says


def _device_memory(recording: Recording, rank: int, device: int) -> DeviceMemory:
    events, blocks = memory_events(recording, rank), memory_blocks(recording, rank)
    held = held_bytes(recording, rank, device)
    at, sizes = held.position, events.bytes[held.position]
    levels = np.append(held.before, held.allocated)
    peak = int(levels.argmax())
    reserved = events.reserved[at][says_reserved(events)[at]]
    mine = blocks.device == device
    open_ended, from_before = mine & (blocks.died == NEVER), mine & (blocks.born < 0)
    return DeviceMemory(
        rank=rank,
        device_type=events.devices[device][0],
        device_index=events.devices[device][1],
        events=len(at),
        basis=held.basis,
        peak_allocated_bytes=int(levels[peak]),
        peak_ts=int(events.ts[at[max(peak - 1, 0)]]),
        peak_reserved_bytes=int(reserved.max()) if len(reserved) else None,
        first_allocated_bytes=held.before,
        last_allocated_bytes=int(levels[-1]),
        allocated_in_bytes=int(sizes[sizes > 0].sum()),
        freed_bytes=int(-sizes[sizes < 0].sum()),
        matched_by=blocks.matched_by[device],
        never_freed_bytes=int(blocks.bytes[open_ended].sum()),
        never_freed_count=int(open_ended.sum()),
        from_before_bytes=int(blocks.bytes[from_before].sum()),
        from_before_count=int(from_before.sum()),
        freed_unseen_count=int(blocks.freed_unseen[device]),
        allocated_unseen_count=int(blocks.allocated_unseen[device]),
        size_differs_count=int(blocks.size_differs[device]),
    )
