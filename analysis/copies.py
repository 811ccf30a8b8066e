"""How many bytes were copied each way, and how long that took."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .columns import nullable_floats, nullable_ints, texts
from .device_activity import rank_activity
from .group_statistics import group_statistics, group_sum, group_union
from .nesting import Mask
from .selection import Window, device_selection
from .timeline import DATA_MOVEMENT, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_DIRECTIONS = (
    ("host_to_device", re.compile(r"HtoD|HostToDevice|Host2Device|H2D|(?i:dma.*host.*to.*dev)")),
    ("device_to_host", re.compile(r"DtoH|DeviceToHost|Device2Host|D2H")),
    ("peer_to_peer", re.compile(r"PtoP|PeerToPeer|P2P")),
    ("device_to_device", re.compile(r"DtoD|DeviceToDevice|Device2Device|D2D|__amd_rocclr_copyBuffer")),
    ("host_to_host", re.compile(r"HtoH|HostToHost")),
    ("set", re.compile(r"(?i)memset|__amd_rocclr_fill|FillBuffer")),
)
_MEMORY = re.compile(r"\((\w+) -> (\w+)\)")


def direction_of(name: str) -> str:
    """Which way the copy of that name goes: host_to_device, ..., set (a memset); "other" where it does not say."""
    return next((direction for direction, pattern in _DIRECTIONS if pattern.search(name)), "other")


def copies(
    recording: Recording, *, rank: int | None = None, step: int | None = None, window: Window | None = None
) -> pd.DataFrame:
    """The copies and memsets of a rank's devices by direction and kind of memory.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        step: One step, as each device ran it.
        window: ``(start, end)`` in ns; the steady steps by default.

    Returns:
        One row a direction and kind of memory, most time first: direction, memory ("Pageable -> Device"; null where the
        name does not say; a copy from or to pageable memory holds the host up), count, bytes (of those that say),
        without_bytes_count, total_ns (sum), union_ns (time in which at least one ran), mean_ns, p50_ns, p99_ns, max_ns,
        bytes_per_s (bytes over the sum of the time of those that say; null where none does).
        ``attrs["selection"]`` says which part of the recording it is about.
    """
    rank = recording.ranks[0] if rank is None else rank
    t = timeline(recording, rank)
    chosen: Mask = np.zeros(len(t), dtype=np.bool_)
    text = "the whole recording: no device did any work"
    for device in rank_activity(recording, rank).devices:
        if device.device is None:
            continue
        selection = device_selection(recording, rank, device, step=step, window=window)
        mine = device.rows[selection.holds(t.ts[device.rows])]
        chosen[mine] = t.state[mine] == DATA_MOVEMENT
        text = selection.text
    rows = np.flatnonzero(chosen)
    keys = [_key(name) for name in t.names]
    known = sorted(set(keys))
    code_of_name = np.array([known.index(key) for key in keys], dtype=np.int64)
    used, group = np.unique(code_of_name[t.name[rows]] if len(rows) else rows, return_inverse=True)
    group, count, dur, size = group.reshape(-1), len(used), t.dur[rows], t.bytes[rows]
    stats = group_statistics(group, dur, count)
    moved, spent = (
        group_sum(np.where(size >= 0, group, -1), size, count),
        group_sum(np.where(size >= 0, group, -1), dur, count),
    )
    frame = pd.DataFrame(
        {
            "direction": texts([known[k][0] for k in used], np.arange(count)),
            "memory": texts([known[k][1] or None for k in used], np.arange(count)),
            "count": stats.count,
            "bytes": moved,
            "without_bytes_count": group_sum(group, (size < 0).astype(np.int64), count),
            "total_ns": stats.total,
            "union_ns": group_union(group, t.ts[rows], t.end[rows], count),
            "mean_ns": nullable_floats(stats.mean, stats.count > 0),
            "p50_ns": stats.p50,
            "p99_ns": stats.p99,
            "max_ns": stats.high,
            "bytes_per_s": nullable_floats(moved * 1e9 / np.maximum(spent, 1), (moved > 0) & (spent > 0)),
        }
    )
    frame["bytes"] = nullable_ints(moved, group_sum(group, (size >= 0).astype(np.int64), count) > 0)
    frame = frame.sort_values(["total_ns", "direction"], ascending=[False, True], ignore_index=True)
    frame.attrs["selection"] = text
    return frame


def _key(name: str) -> tuple[str, str]:
    memory = _MEMORY.search(name)
    return direction_of(name), f"{memory[1]} -> {memory[2]}" if memory else ""
