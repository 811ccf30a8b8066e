"""What waited for what on a device: the arrows that CUPTI's synchronization records tell.

A record (category ``cuda_sync``) names what was waited for: a stream up to an event, by the call that recorded the
event; a stream as a whole; or everything. The arrow starts at the operation that was awaited last, ends at the record:

* an event on a stream: the last operation on that stream that was launched before the event was recorded;
* a stream: the last operation on it that was launched before the wait;
* a device or context: of all operations launched before the wait, the one that ended last.

Where the call that recorded an event is not in the trace, the wait's own call stands in for it: the event was recorded
before. A record that does not name its stream has no arrow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .launches import Links
from .names import DEVICE, HOST
from .slices import Slices

Ints = npt.NDArray[np.int64]

_KINDS = (
    (re.compile(r"stream wait", re.IGNORECASE), "stream_wait"),
    (re.compile(r"event sync", re.IGNORECASE), "event_sync"),
    (re.compile(r"(?:context|device|stream) sync", re.IGNORECASE), "device_sync"),
)
_STREAM_SYNC = re.compile(r"stream sync", re.IGNORECASE)
_EVENT_CALL, _EVENT, _STREAM = "wait_on_cuda_event_record_corr_id", "wait_on_cuda_event_id", "wait_on_stream"


@dataclass(frozen=True, slots=True)
class _Queue:
    """Device operations in the order of their launches: when they were launched, and the row awaited by a wait then."""

    launched: Ints
    awaited: Ints

    def before(self, ts: int) -> int:
        """The row that a wait for everything launched before an instant ends with; -1 if there is none."""
        place = int(np.searchsorted(self.launched, ts))
        return int(self.awaited[place - 1]) if place else -1


def synchronizations(slices: Slices, launched: Links) -> dict[str, Links]:
    """Arrows by kind (stream_wait, event_sync, device_sync): (rows waited for, rows of the waits)."""
    kinds = [next((kind for pattern, kind in _KINDS if pattern.search(name)), None) for name in slices.pairs.names]
    is_kind = np.array([kind is not None for kind in kinds], np.bool_)
    is_record = (slices.pairs.side == DEVICE) & slices.pairs.in_categories("synchronization")
    if not is_record.any():
        return {}
    rows = np.flatnonzero((is_record & is_kind[slices.pairs.name])[slices.pair])
    waits = _Waits(slices, launched, rows)
    found: dict[str, list[tuple[int, int]]] = {}
    for place, row in enumerate(rows.tolist()):
        name = int(waits.names[place])
        source = waits.awaited(place, slices.pairs.names[name])
        if source >= 0:
            found.setdefault(str(kinds[name]), []).append((source, row))
    links = {kind: np.array(pairs, np.int32) for kind, pairs in found.items()}
    return {kind: (pairs[:, 0], pairs[:, 1]) for kind, pairs in links.items()}


class _Waits:
    """The synchronization records of a trace, and the queues that they wait for.

    Args:
        slices: The slices.
        launched: Rows of host calls and of the device operations they started.
        rows: The records.
    """

    def __init__(self, slices: Slices, launched: Links, rows: npt.NDArray[np.intp]) -> None:
        self.names = slices.pairs.name[slices.pair[rows]]
        self._end = slices.ts[rows] + slices.dur[rows]
        self._args = [_object(text) for text in slices.texts("args", rows).to_pylist()]
        self._columns = {name: slices.some_ints(name, rows) for name in ("device", "stream", "correlation")}
        self._calls = _starts_of_calls(slices)
        self._of_stream, self._of_device = _queues(slices, launched)

    def awaited(self, place: int, name: str) -> int:
        """The row of the operation that a record waited for; -1 where that is not known."""
        args = self._args[place]
        device, stream = self._number(place, "device"), args.get(_STREAM)
        asked = self._calls.get(self._number(place, "correlation"), int(self._end[place]))
        if _EVENT in args or _EVENT_CALL in args or _STREAM in args:
            recorded = self._calls.get(args[_EVENT_CALL]) if isinstance(args.get(_EVENT_CALL), int) else None
            return self._on_stream(device, stream, asked if recorded is None else recorded)
        if _STREAM_SYNC.search(name):
            return self._on_stream(device, self._number(place, "stream"), asked)
        queue = self._of_device.get(device)
        return queue.before(asked) if queue else -1

    def _number(self, place: int, column: str) -> int:
        values, present = self._columns[column]
        return int(values[place]) if present[place] else -1

    def _on_stream(self, device: int, stream: object, ts: int) -> int:
        queue = self._of_stream.get((device, stream)) if isinstance(stream, int) else None
        return queue.before(ts) if queue else -1


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _starts_of_calls(slices: Slices) -> dict[int, int]:
    """The start of the host call of each correlation id, ns."""
    rows, correlation = slices.rows_with("correlation")
    host = slices.pairs.side[slices.pair[rows]] == HOST
    return dict(zip(correlation[host].tolist(), slices.ts[rows[host]].tolist(), strict=True))


def _queues(slices: Slices, launched: Links) -> tuple[dict[tuple[int, int], _Queue], dict[int, _Queue]]:
    """The queue of each (device, stream), whose last operation is awaited; that of each device: the last to end."""
    call, operation = launched
    is_work = slices.pairs.device_work()[slices.pair[operation]]
    call, operation = call[is_work], operation[is_work]
    order = np.argsort(slices.ts[call], kind="stable")
    at, rows = slices.ts[call[order]], operation[order].astype(np.int64)
    end = slices.ts[rows] + slices.dur[rows]
    columns = [slices.some_ints(name, rows) for name in ("device", "stream")]
    device, stream = (np.where(present, values, -1) for values, present in columns)
    of_stream: dict[tuple[int, int], _Queue] = {}
    of_device: dict[int, _Queue] = {}
    for number in np.unique(device).tolist():
        here = np.flatnonzero(device == number)
        latest = np.maximum.accumulate(end[here])
        # Where an operation is the latest so far it becomes the one awaited, and stays until a later one ends after it.
        is_latest = end[here] >= latest
        awaited = np.maximum.accumulate(np.where(is_latest, np.arange(here.size), 0))
        of_device[number] = _Queue(at[here], rows[here[awaited]])
        for identity in np.unique(stream[here]).tolist():
            own = here[stream[here] == identity]
            of_stream[number, identity] = _Queue(at[own], rows[own])
    return of_stream, of_device
