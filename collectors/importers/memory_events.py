"""The ``[memory]`` instants of a trace: each an allocation or a free."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .scanner.batch import EventBatch
from .slice_table import Ids
from .slices import Slices

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Picks = npt.NDArray[np.intp]

_COLUMNS = ("device_type", "device_id", "address", "memory_bytes", "total_allocated", "total_reserved")

DEVICE_TYPES = (
    "cpu", "cuda", "mkldnn", "opengl", "opencl", "ideep", "hip", "fpga", "maia", "xla", "vulkan", "metal", "xpu", "mps",
    "meta", "hpu", "ve", "lazy", "ipu", "mtia", "privateuseone",
)  # fmt: skip
"""c10::DeviceType by number (torch/headeronly/core/DeviceType.h)."""


@dataclass(frozen=True, slots=True)
class MemoryEvents:
    """Memory events by track and stamp (ns as in the file); each column is (values, whether it is there)."""

    track: Codes
    ts: Ints
    columns: dict[str, tuple[Ints, Mask]]


class MemoryCollector:
    """Takes memory events as they are read."""

    def __init__(self) -> None:
        self._track: list[Codes] = []
        self._ts: list[Ints] = []
        self._columns: dict[str, list[tuple[Ints, Mask]]] = {name: [] for name in _COLUMNS}

    def add(self, batch: EventBatch, picks: Picks, track: Codes) -> None:
        """Adds some events of a batch, each with a time stamp, on the given tracks."""
        self._track.append(track)
        self._ts.append(batch.ts[picks])
        for name in _COLUMNS:
            values, present = batch.numbers[name]
            self._columns[name].append((values[picks], present[picks]))

    def finish(self, numbers: Codes) -> MemoryEvents:
        """All of them, in order of time, on final tracks; forgets what was collected.

        Args:
            numbers: Track in order of first use -> its final number.
        """
        if not self._ts:
            empty = np.empty(0, np.int64)
            nothing = (empty, np.empty(0, np.bool_))
            return MemoryEvents(np.empty(0, np.int32), empty, dict.fromkeys(_COLUMNS, nothing))
        ts = np.concatenate(self._ts)
        order = np.argsort(ts, kind="stable")
        columns = {}
        for name, parts in self._columns.items():
            values = np.concatenate([part[0] for part in parts])[order]
            columns[name] = (values, np.concatenate([part[1] for part in parts])[order])
            parts.clear()
        track = numbers[np.concatenate(self._track)][order]
        self._track.clear()
        self._ts.clear()
        return MemoryEvents(track, ts[order], columns)


def memory_table(
    events: MemoryEvents, slices: Slices, ids: Ids, first_id: int, kind_of_device: str
) -> Iterator[pa.Table]:
    """The rows of ``memory``, in order of time, some at a time.

    Args:
        events: The events.
        slices: The slices of the same trace; the innermost around each event is named in its row.
        ids: The ids of the trace.
        first_id: The id of the first event.
        kind_of_device: What the trace's accelerators are called.
    """
    columns = events.columns
    around = slices.enclosing(events.track, events.ts)
    number, known = columns["device_type"]
    number = np.where(known, number, 0)
    known_types = [*DEVICE_TYPES, "unknown"]
    # ROCm keeps CUDA's number for its devices, and a PrivateUse1 device may have a name of its own: they are called
    # what their streams are called.
    shared = ("cuda",) if kind_of_device in DEVICE_TYPES else ("cuda", "privateuseone")
    names = [kind_of_device if name in shared else name for name in known_types]
    code = np.where((number >= 0) & (number < len(DEVICE_TYPES)), number, len(DEVICE_TYPES)).astype(np.int32)
    used, indices = np.unique(code, return_inverse=True)
    different = list(dict.fromkeys(names[number] for number in used))
    place = np.array([different.index(names[number]) for number in used], np.int32)
    device, has_device = columns["device_id"]
    has_device = has_device & (device >= 0) & (device < 1 << 31)
    table = {
        "event_id": np.arange(first_id, first_id + events.ts.size),
        "ts": events.ts + ids.base_ns,
        "device_type": pa.DictionaryArray.from_arrays(pa.array(place[indices]), pa.array(different)),
        "device_index": pa.array(np.where(has_device, device, 0).astype(np.int32), mask=~has_device),
        "address": pa.array(columns["address"][0].view(np.uint64), mask=~columns["address"][1]),
        "bytes": columns["memory_bytes"][0],
        "slice_id": pa.array(around.astype(np.int64) + ids.slice_base, mask=around < 0),
        "track_id": ids.track_ids[events.track],
    }
    for name in ("total_allocated", "total_reserved"):
        table[name] = pa.array(columns[name][0], mask=~columns[name][1])
    yield pa.table(table)
