"""Who holds the memory of a device at an instant: by op, module, source line or block."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from .columns import nullable_ints, texts
from .memory import held_bytes
from .memory_blocks import NEVER, memory_blocks, memory_events
from .nesting import Ints, Mask, above, nearest
from .slice_lines import slice_lines
from .source_position import stack_lines
from .timeline import Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

HolderKind = Literal["op", "root_op", "module", "line"]

BEFORE = "(allocated before the recording)"
UNKNOWN = "(not known)"

_ALLOCATING = re.compile(r"^aten::(?:empty|new_empty|resize_|_resize|zeros?$|zeros_like|_empty)|^\[memory\]")


def live_blocks(
    recording: Recording, *, rank: int | None = None, device: int | None = None, at: int | None = None
) -> pd.DataFrame:
    """The blocks that a device holds at an instant.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        device: The device's place in ``memory_peaks(recording, rank=rank)``; by default the first that is not the host.
        at: The instant, ns: after every event with that stamp or an earlier one. The peak by default.

    Returns:
        One row a block, largest first: bytes, ts (its allocation, ns; null before the recording), age_ns (null too),
        freed_ts (null: the recording saw no free), op (the innermost op that does more than allocate), root_op (the
        outermost op), module, file, line, function, slice_id (the slice that it was allocated in; each null where the
        recording does not say).
    """
    rank = recording.ranks[0] if rank is None else rank
    events, blocks = memory_events(recording, rank), memory_blocks(recording, rank)
    chosen = np.zeros(0, dtype=np.int64)
    instant = 0
    if len(events):
        device = _device(recording, rank, device)
        position, instant = _position(recording, rank, device, at)
        chosen = np.flatnonzero(blocks.alive_at(position, device))
        chosen = chosen[np.lexsort((blocks.born[chosen], -blocks.bytes[chosen]))]
    born, died = blocks.born[chosen], blocks.died[chosen]
    frame = pd.DataFrame({"bytes": blocks.bytes[chosen]})
    frame["ts"] = _stamps(events.ts, born, born >= 0)
    frame["age_ns"] = instant - frame["ts"]
    frame["freed_ts"] = _stamps(events.ts, died, died != NEVER)
    frame = pd.concat([frame, _described(recording, rank, born, blocks.bytes[chosen])], axis=1)
    slice_id = np.append(events.slice_id, -1)[np.where(born >= 0, born, len(events))]
    frame["slice_id"] = nullable_ints(slice_id, slice_id >= 0)
    return frame


def memory_holders(
    recording: Recording,
    *,
    rank: int | None = None,
    device: int | None = None,
    at: int | None = None,
    by: HolderKind = "op",
) -> pd.DataFrame:
    """Who holds the memory of a device at an instant; the rows add up to what is held, exactly.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        device: The device's place in ``memory_peaks(recording, rank=rank)``; by default the first that is not the host.
        at: The instant, ns; the peak by default.
        by: "op" (the innermost op that does more than allocate), "root_op" (the outermost), "module" or "line".

    Returns:
        One row a holder, largest first: holder (for lines ``file:line function``), bytes, blocks (null where bytes have
        no block that was seen), share_frac (of what is held), oldest_ts (ns, null before the recording).
        ``(allocated before the recording)`` holds the blocks that were there before, and with the allocator's own total
        also what it counts beyond the blocks seen; ``(not known)`` those for which the recording names no holder.
    """
    rank = recording.ranks[0] if rank is None else rank
    blocks = live_blocks(recording, rank=rank, device=device, at=at)
    grouped = blocks.assign(holder=holder_of(blocks, by)).groupby("holder", sort=True)
    frame = grouped.agg(bytes=("bytes", "sum"), blocks=("bytes", "size"), oldest_ts=("ts", "min")).reset_index()
    frame["blocks"] = frame["blocks"].astype("Int64")
    rest = _beyond_blocks(recording, rank, device, at, int(blocks["bytes"].sum()))
    if rest:
        here = frame["holder"] == BEFORE
        if here.any():
            frame.loc[here, "bytes"] += rest
            frame.loc[here, "blocks"] = pd.NA
        else:
            row = pd.DataFrame({"holder": [BEFORE], "bytes": [rest]})
            frame = pd.concat([frame, row], ignore_index=True).astype({"blocks": "Int64", "oldest_ts": "Int64"})
    total = int(frame["bytes"].sum())
    frame.insert(3, "share_frac", frame["bytes"] / total if total else 0.0)
    return frame.sort_values(["bytes", "holder"], ascending=[False, True], ignore_index=True)


def holder_of(blocks: pd.DataFrame, by: HolderKind) -> pd.Series[str]:
    """Which row of ``memory_holders`` each row of ``live_blocks`` belongs to."""
    place = blocks["file"] + ":" + blocks["line"].astype("string") + " " + blocks["function"].astype("string")
    holder = (place if by == "line" else blocks[by]).astype("string")
    return holder.mask(blocks["ts"].isna(), BEFORE).fillna(UNKNOWN)


def _device(recording: Recording, rank: int, device: int | None) -> int:
    """The place of the device asked for; accelerators come before the host.

    Raises:
        IndexError: The rank has no such device.
    """
    count = len(memory_events(recording, rank).devices)
    if device is not None and not 0 <= device < count:
        raise IndexError(f"rank {rank} has memory events of {count} devices, so device {device} is not among them")
    return 0 if device is None else device


def _position(recording: Recording, rank: int, device: int, at: int | None) -> tuple[int, int]:
    """The position after which to look, and its time."""
    events, held = memory_events(recording, rank), held_bytes(recording, rank, device)
    if at is not None:
        return int(np.searchsorted(events.ts, at, side="right")) - 1, at
    levels = np.append(held.before, held.allocated)
    peak = int(levels.argmax())
    return (int(held.position[peak - 1]) if peak else int(held.position[0]) - 1), int(
        events.ts[held.position[max(peak - 1, 0)]]
    )


def _beyond_blocks(recording: Recording, rank: int, device: int | None, at: int | None, seen: int) -> int:
    """Bytes that the allocator counts at the instant beyond the blocks that the recording saw."""
    if not len(memory_events(recording, rank)):
        return 0
    device = _device(recording, rank, device)
    held = held_bytes(recording, rank, device)
    position, _ = _position(recording, rank, device, at)
    place = int(np.searchsorted(held.position, position, side="right")) - 1
    return (int(held.allocated[place]) if place >= 0 else held.before) - seen


def _stamps(ts: Ints, position: Ints, known: Mask) -> pd.Series[Any]:
    return nullable_ints(np.append(ts, 0)[np.where(known, position, len(ts))], known)


def _described(recording: Recording, rank: int, born: Ints, held: Ints) -> pd.DataFrame:
    """Who made each allocation (by the position of its event; -1: before the recording), ``held`` bytes."""
    t = timeline(recording, rank)
    events = memory_events(recording, rank)
    seen = born >= 0
    row = np.full(len(born), -1, dtype=np.int64)
    row[seen] = t.rows_of(events.slice_id[born[seen]])
    frame = pd.DataFrame(index=range(len(born)))
    inner, outer = memoized(recording, ("allocating_ops", rank), lambda: _allocating_ops(t))
    for column, of_row in (("op", inner), ("root_op", outer)):
        op = np.append(of_row, -1)[row]
        frame[column] = texts(t.names, np.append(t.name, -1)[op])
    frame["module"] = pd.array(_modules(recording, t, row), dtype="string")
    return pd.concat([frame, _places(recording, rank, row, np.append(events.stack, -1)[born], held)], axis=1)


def _allocating_ops(t: Timeline) -> tuple[Ints, Ints]:
    """Per row the innermost op at or above it that does more than allocate, and the outermost op."""
    is_op = t.is_category("op", "collective", "fallback")
    only_allocates = np.array([bool(_ALLOCATING.match(name)) for name in t.names], dtype=bool)
    op = nearest(t.parent, is_op)
    root = nearest(t.parent, is_op & (above(t.parent, op) < 0))
    working = nearest(t.parent, is_op & ~only_allocates[t.name]) if len(t) else op
    return np.where(working >= 0, working, root), root


def _modules(recording: Recording, t: Timeline, row: Ints) -> list[str | None]:
    """The path of the innermost module around each row."""
    has_module = (t.module >= 0) | t.is_category("module")
    holder = np.append(nearest(t.parent, has_module), -1)[row]
    table = recording.table("modules", columns=["module_id", "path"])
    paths = dict(zip(table["module_id"].to_pylist(), table["path"].to_pylist(), strict=True))
    return [None if r < 0 else paths.get(int(t.module[r]), t.name_of(int(r))) for r in holder]


def _places(recording: Recording, rank: int, row: Ints, stack: Ints, weight: Ints) -> pd.DataFrame:
    """File, line and function of each allocation: its own stack's, else those of the slice around it."""
    stacks = stack_lines(recording)
    own = np.append(stacks.best, -1)[stacks.place(stack)]
    lines, code = slice_lines(recording, rank, np.where(own >= 0, -1, row), weight)
    code = np.where(own >= 0, own, code)
    number = np.array([*(line.line for line in lines), 0], dtype=np.int64)[code]
    return pd.DataFrame(
        {
            "file": texts([line.file for line in lines], code),
            "line": nullable_ints(number, code >= 0),
            "function": texts([line.function for line in lines], code),
        }
    )
