"""When each device was in which state: compute, communication, data movement, or nothing to run.

A rank without device work (a CPU-only recording) has its training threads in the device's place: ops compute, copies
between tensors move data, collectives communicate, and the rest (input, Python, waiting) is a stall.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE, CONTEXTS, HostCauses, host_causes
from .host_activity import HostActivity
from .timeline import COMMUNICATION, COMPUTE, DATA_MOVEMENT, Device, Ints, Rows, Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_COPIES = re.compile(r"^aten::(?:copy_|_to_copy|to|clone|contiguous|pin_memory|_pin_memory|resize_)$")


@dataclass(frozen=True, eq=False)
class DeviceActivity:
    """The states of one device over its whole window.

    Attributes:
        rank: The rank.
        device: The device; None where threads stand in for it, or where all devices are taken together.
        device_type: Its type; "cpu" for threads, "all" for all devices of the rank.
        device_index: Its index; None for threads and for all devices.
        rows: Rows of device work, sorted by (ts, end); for threads the rows of the pieces in ``states``.
        window: The first start and the last end of its work, ns; (0, 0) where it did nothing.
        states: Per state (COMPUTE, COMMUNICATION, DATA_MOVEMENT) when it held, as unions; they may overlap.
    """

    rank: int
    device: Device | None
    device_type: str
    device_index: int | None
    rows: Rows
    window: tuple[int, int]
    states: tuple[Ints, Ints, Ints]

    @cached_property
    def working(self) -> Ints:
        """When it computed or communicated, as a union."""
        return iv.union(np.concatenate([self.states[COMPUTE], self.states[COMMUNICATION]]))

    @cached_property
    def busy(self) -> Ints:
        """When it did anything, as a union."""
        return iv.union(np.concatenate([self.working, self.states[DATA_MOVEMENT]]))

    @cached_property
    def exposed_movement(self) -> Ints:
        """When it moved data and did nothing else, as a union."""
        return iv.subtraction(self.states[DATA_MOVEMENT], self.working)

    @cached_property
    def exposed_communication(self) -> Ints:
        """When it communicated and did not compute, as a union."""
        return iv.subtraction(self.states[COMMUNICATION], self.states[COMPUTE])


@dataclass(frozen=True, eq=False)
class RankActivity:
    """The host of a rank, with the causes of its slices, and its devices.

    Attributes:
        timeline: The slices.
        causes: The cause and context of each.
        host: What each host thread did.
        devices: The devices, or the training threads in their place; empty where the rank did nothing.
    """

    timeline: Timeline
    causes: HostCauses
    host: HostActivity
    devices: tuple[DeviceActivity, ...]


def rank_activity(recording: Recording, rank: int) -> RankActivity:
    """The activity of one rank; built once per recording.

    Raises:
        KeyError: The recording does not have that rank.
    """
    return memoized(recording, ("activity", rank), lambda: _build(recording, rank))


def _build(recording: Recording, rank: int) -> RankActivity:
    t = timeline(recording, rank)
    causes = host_causes(t)
    extent = _extent(recording, t)
    host = HostActivity(t, causes.context, ranges=not len(t.device_rows), extent=extent, pauses=_pauses(recording, t))
    devices = tuple(
        _of_rows(t, device.rows, device, device.device_type, device.device_index) for device in t.devices
    ) or _threads_as_device(t, host, causes)
    return RankActivity(t, causes, host, devices)


def _extent(recording: Recording, t: Timeline) -> tuple[int, int]:
    """From the first stamp of the rank to its last, its steps included."""
    table = recording.table("steps", ranks=(t.rank,), columns=["ts", "dur"])
    if not table.num_rows:
        return t.extent
    starts, durs = (table[name].to_numpy() for name in ("ts", "dur"))
    first, last = int(starts.min()), int((starts + np.maximum(durs, 0)).max())
    return (min(first, t.extent[0]), max(last, t.extent[1])) if len(t) else (first, last)


def _pauses(recording: Recording, t: Timeline) -> list[tuple[int, int, int]]:
    """Where torch's profiler ended one segment and had not begun the next: start, end, and the slice of its pause.

    Beginning a segment frees the one before, for which there is no slice. A gap between segments without such a slice
    is none of its pauses: tracing was switched off.
    """
    table = recording.table("segments", ranks=(t.rank,), columns=["ts", "dur"]).sort_by("ts")
    own = np.flatnonzero(t.is_category("overhead") & (t.segment < 0))
    if table.num_rows < 2 or not len(own):
        return []
    starts = table["ts"].to_numpy().astype(np.int64)
    ends = starts + table["dur"].fill_null(0).to_numpy().astype(np.int64)
    found = []
    for end, start in zip(ends[:-1].tolist(), starts[1:].tolist(), strict=True):
        inside = own[(t.ts[own] < start) & (t.end[own] > end)]
        if len(inside):
            found.append((end, start, int(inside[np.argmax(t.end[inside] - t.ts[inside])])))
    return found


def all_devices(activity: RankActivity) -> DeviceActivity | None:
    """All devices of a rank taken together as one; None where the rank did nothing."""
    if len(activity.devices) <= 1:
        return activity.devices[0] if activity.devices else None
    return _of_rows(activity.timeline, activity.timeline.device_rows, None, "all", None)


def _of_rows(t: Timeline, rows: Rows, device: Device | None, kind: str, index: int | None) -> DeviceActivity:
    states = (t.state_union(COMPUTE, rows), t.state_union(COMMUNICATION, rows), t.state_union(DATA_MOVEMENT, rows))
    window = (int(t.ts[rows].min()), int(t.end[rows].max()))
    return DeviceActivity(t.rank, device, kind, index, rows, window, states)


def _threads_as_device(t: Timeline, host: HostActivity, causes: HostCauses) -> tuple[DeviceActivity, ...]:
    """The training threads taken together, and every thread that communicates, as if they were one device."""
    communicating = np.unique(t.track[t.is_category("collective")]).tolist()
    threads = sorted({*host.threads.training, *communicating} & set(t.threads))
    if not threads:
        return ()
    parts = [_thread_states(t, host, causes, thread) for thread in threads]
    states = [iv.union(np.concatenate([part[state] for part in parts])) for state in range(3)]
    rows = np.unique(np.concatenate([part[3] for part in parts])).astype(np.int32)
    rows = rows[np.lexsort((t.end[rows], t.ts[rows]))]
    steps = np.array([name.startswith("ProfilerStep#") for name in t.names], dtype=bool)[t.name]
    span = np.flatnonzero(np.isin(t.track, threads) & (t.is_category("op", "collective", "input") | steps))
    window = (int(t.ts[span].min()), int(t.end[span].max()))
    return (DeviceActivity(t.rank, None, "cpu", None, rows, window, (states[0], states[1], states[2])),)


def _thread_states(t: Timeline, host: HostActivity, causes: HostCauses, thread: int) -> tuple[Ints, Ints, Ints, Ints]:
    """When a thread computed, communicated and moved data, and the rows that did."""
    pieces = host.work_pieces(thread)
    busy = pieces.rows >= 0
    rows, spans = pieces.rows[busy], np.stack([pieces.edges[:-1][busy], pieces.edges[1:][busy]], axis=1)
    elsewhere = np.isin(causes.cause[rows], [CAUSE_CODE[name] for name in CONTEXTS if name != "cpu_fallback"])
    communicates = t.is_category("collective")[rows] & ~elsewhere
    is_op = t.is_category("op", "fallback")[rows] & ~elsewhere
    copies = np.array([_COPIES.match(name) is not None for name in t.names], dtype=bool)[t.name[rows]] & is_op
    chosen = (is_op & ~copies, communicates, copies)
    unions = [iv.union(spans[mask]) for mask in chosen]
    return unions[0], unions[1], unions[2], rows[is_op | communicates]
