"""A recording as a Chrome JSON trace, which Perfetto, chrome://tracing and our own importer read.

Time stamps are microseconds as exact decimals, relative to ``baseTimeNanoseconds``: readers that keep them in a double
(all do) would lose the last digits of an absolute one. Rows are written as they are read, so memory grows only by 24
bytes a slice, for the arrows between them. Slices that overlap without nesting go on tids of their own (``places``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .call_stacks import CallStacks
from .chrome_places import Places

Ints = npt.NDArray[np.int64]
Batches = Iterable[pa.RecordBatch]

SLICE_COLUMNS = (
    "slice_id", "track_id", "kind", "ts", "dur", "lane", "name", "raw_category", "category", "correlation_id",
    "external_id", "sequence_number", "graph_id", "stack_id", "bytes", "flops", "args",
)  # fmt: skip

_NUMBER_ARGS = {
    "correlation_id": "correlation",
    "external_id": "External id",
    "sequence_number": "Sequence number",
    "graph_id": "graph id",
    "bytes": "bytes",
    "flops": "flops",
}
"""Columns that torch.profiler writes as arguments: column -> its key there."""

_FLOW_CATEGORIES = {"launch": "ac2g", "forward_backward": "fwdbwd"}
_RAW_CATEGORIES = {
    "op": "cpu_op", "python": "python_function", "module": "python_function", "annotation": "user_annotation",
    "runtime": "cuda_runtime", "memcpy": "gpu_memcpy", "memset": "gpu_memset", "collective": "kernel",
}  # fmt: skip
"""What to write where the source had no category of its own: torch.profiler's word for ours."""

_ANNOTATION_ON_DEVICE = "gpu_user_annotation"
_DEVICE_TYPE_NUMBERS = {"cpu": 0, "cuda": 1, "hip": 1, "xpu": 12, "mtia": 19, "privateuse1": 20}
"""c10::DeviceType, which torch.profiler writes into memory events; other devices are PrivateUse1's."""


@dataclass(slots=True)
class ChromeCounts:
    """What was written.

    Attributes:
        slices: Slices, one event each.
        flows: Arrows, two events each.
        counters: Values of counters.
        memory: Allocations and frees.
        flows_left_out: Arrows with an end outside of what was exported.
        overlaps: Lanes that got a tid of their own.
    """

    slices: int = 0
    flows: int = 0
    counters: int = 0
    memory: int = 0
    flows_left_out: int = 0
    overlaps: int = 0


@dataclass(slots=True)
class _Ends:
    """Where each exported slice lies, for the arrows: parallel arrays by slice."""

    slice_ids: list[Ints] = field(default_factory=list)
    stamps: list[Ints] = field(default_factory=list)
    places: list[Ints] = field(default_factory=list)

    def arrays(self) -> tuple[Ints, Ints, Ints]:
        """Slice ids in rising order, with the start and the place of each."""
        if not self.slice_ids:
            return (np.zeros(0, np.int64),) * 3
        ids = np.concatenate(self.slice_ids)
        order = np.argsort(ids, kind="stable")
        return ids[order], np.concatenate(self.stamps)[order], np.concatenate(self.places)[order]


class ChromeTraceWriter:
    """Writes one trace: ``begin``, then any of the tables, then ``end``.

    Args:
        stream: Where to.
        places: The tids and pids of the tracks.
        stacks: The call stacks that go into arguments.
        base_ns: What all time stamps are relative to; none may be smaller.
    """

    def __init__(self, stream: TextIO, places: Places, stacks: CallStacks, base_ns: int) -> None:
        self.counts = ChromeCounts()
        self._stream = stream
        self._places = places
        self._stacks = stacks
        self._base = base_ns
        self._ends = _Ends()
        self._place_numbers: dict[tuple[int, int], int] = {}
        self._place_texts: list[str] = []
        self._device_members: dict[int, str] = {}
        self._first = True

    def begin(self, header: dict[str, Any]) -> None:
        """Writes the keys before the events.

        Args:
            header: Such as ``distributedInfo`` and ``deviceProperties``.
        """
        keys = {"schemaVersion": 1, "baseTimeNanoseconds": self._base} | header
        self._stream.write(json.dumps(keys)[:-1] + ', "displayTimeUnit": "ns", "traceEvents": [\n')

    def slices(self, batches: Batches) -> None:
        """Writes slices; batches have ``SLICE_COLUMNS``."""
        for batch in batches:
            self._write(self._slice_events(batch))
            self.counts.slices += batch.num_rows

    def flows(self, batches: Batches) -> None:
        """Writes the arrows whose two ends were written. To be called after ``slices``."""
        ids, stamps, places = self._ends.arrays()
        for batch in batches:
            sources = _found(ids, batch.column("from_slice_id").to_numpy())
            targets = _found(ids, batch.column("to_slice_id").to_numpy())
            whole = (sources >= 0) & (targets >= 0)
            self.counts.flows_left_out += int(batch.num_rows - whole.sum())
            kinds = _texts(batch.column("kind"))
            self._write(self._flow_events(kinds, sources, targets, np.flatnonzero(whole), stamps, places))

    def counters(self, batches: Batches) -> None:
        """Writes the values of counters."""
        for batch in batches:
            self.counts.counters += batch.num_rows
            rows = zip(*(batch.column(c).to_pylist() for c in ("track_id", "ts", "value")), strict=True)
            self._write(self._counter_event(*row) for row in rows if row[2] is not None)

    def memory(self, batches: Batches) -> None:
        """Writes allocations and frees as torch.profiler's ``[memory]`` instants."""
        for batch in batches:
            self.counts.memory += batch.num_rows
            self._write(self._memory_event(row) for row in batch.to_pylist())

    def end(self) -> ChromeCounts:
        """Writes the names of processes and threads and closes the document."""
        self._write(self._places.metadata())
        self._stream.write("\n]}\n")
        self.counts.overlaps = sum(1 for _, lane in self._place_numbers if lane)
        return self.counts

    def _write(self, events: Iterable[str]) -> None:
        text = ",\n".join(events)
        if text:
            self._stream.write(text if self._first else f",\n{text}")
            self._first = False

    def _slice_events(self, batch: pa.RecordBatch) -> Iterator[str]:
        columns = {name: batch.column(name) for name in SLICE_COLUMNS}
        numbers = [
            (key, columns[name].to_pylist())
            for name, key in _NUMBER_ARGS.items()
            if columns[name].null_count < batch.num_rows
        ]
        place = self._note_ends(columns)
        head = _heads(columns["name"], columns["raw_category"], columns["category"], self._on_device(columns))
        durs, kinds, extras = columns["dur"].to_pylist(), _texts(columns["kind"]), columns["args"].to_pylist()
        tracks = columns["track_id"].to_pylist()
        called = [columns[name].to_pylist() for name in ("track_id", "category", "slice_id", "stack_id")]
        stacks = [self._stacks.argument(*row) for row in zip(*called, strict=True)]
        for row, ts in enumerate(columns["ts"].to_pylist()):
            members = [self._device_args(tracks[row]), stacks[row]]
            members += [f'"{key}":{values[row]}' for key, values in numbers if values[row] is not None]
            args = _arguments(extras[row], members)
            where = f'{self._place_texts[place[row]]},"ts":{self._us(ts)}'
            if kinds[row] == "complete":
                yield f'{{"ph":"X",{head[row]},{where},"dur":{microseconds(durs[row] or 0)}{args}}}'
            elif kinds[row] == "instant":
                yield f'{{"ph":"i","s":"t",{head[row]},{where}{args}}}'
            else:
                yield f'{{"ph":"B",{head[row]},{where}{args}}}'

    def _note_ends(self, columns: dict[str, pa.Array]) -> list[int]:
        """The number of each row's place; remembers where each slice lies."""
        lanes, tracks = columns["lane"].to_pylist(), columns["track_id"].to_pylist()
        place = [self._place_number(track, lane) for track, lane in zip(tracks, lanes, strict=True)]
        self._ends.slice_ids.append(columns["slice_id"].to_numpy())
        self._ends.stamps.append(columns["ts"].to_numpy())
        self._ends.places.append(np.array(place, dtype=np.int64))
        return place

    def _place_number(self, track_id: int, lane: int) -> int:
        number = self._place_numbers.get((track_id, lane))
        if number is None:
            number = self._place_numbers[track_id, lane] = len(self._place_texts)
            place = self._places.of(track_id, lane)
            self._place_texts.append(f'"pid":{place.pid},"tid":{place.tid}')
        return number

    def _on_device(self, columns: dict[str, pa.Array]) -> list[bool]:
        kinds: dict[int, bool] = {}
        for track_id in columns["track_id"].unique().to_pylist():
            kinds[track_id] = self._places.track(track_id)["kind"] != "thread"
        return [kinds[track_id] for track_id in columns["track_id"].to_pylist()]

    def _device_args(self, track_id: int) -> str:
        text = self._device_members.get(track_id)
        if text is None:
            track = self._places.track(track_id)
            known = (("device", track["device_index"]), ("stream", track["stream_id"]))
            on_device = track["kind"] != "thread"
            text = ",".join(f'"{key}":{value}' for key, value in known if on_device and value is not None)
            self._device_members[track_id] = text
        return text

    def _flow_events(
        self, kinds: list[str], sources: Ints, targets: Ints, rows: npt.NDArray[np.intp], stamps: Ints, places: Ints
    ) -> Iterator[str]:
        for row in rows.tolist():
            self.counts.flows += 1
            category = _FLOW_CATEGORIES.get(kinds[row], kinds[row])
            head = f'"id":{self.counts.flows},"cat":"{category}","name":"{category}"'
            for phase, end in (('"s"', int(sources[row])), ('"f","bp":"e"', int(targets[row]))):
                where = self._place_texts[int(places[end])]
                yield f'{{"ph":{phase},{head},{where},"ts":{self._us(int(stamps[end]))}}}'

    def _counter_event(self, track_id: int, ts: int, value: float) -> str:
        track = self._places.track(track_id)
        name, key = json.dumps(track["name"]), json.dumps(track["unit"] or "value")
        pid = self._places.of(track_id).pid
        return f'{{"ph":"C","name":{name},"pid":{pid},"ts":{self._us(ts)},"args":{{{key}:{json.dumps(value)}}}}}'

    def _memory_event(self, row: dict[str, Any]) -> str:
        place = self._places.of(row["track_id"]) if row["track_id"] is not None else None
        where = f'"pid":{place.pid},"tid":{place.tid}' if place else '"pid":0,"tid":0'
        known = {
            "Total Reserved": row["total_reserved"],
            "Total Allocated": row["total_allocated"],
            "Bytes": row["bytes"],
            "Addr": row["address"],
            "Device Id": row["device_index"] if row["device_index"] is not None else -1,
            "Device Type": _DEVICE_TYPE_NUMBERS.get(row["device_type"], _DEVICE_TYPE_NUMBERS["privateuse1"]),
        }
        args = json.dumps({key: value for key, value in known.items() if value is not None})
        head = '"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]"'
        return f'{{{head},{where},"ts":{self._us(row["ts"])},"args":{args}}}'

    def _us(self, ts: int) -> str:
        return microseconds(ts - self._base)


def microseconds(ns: int) -> str:
    """Nanoseconds as microseconds, exact, without a float.

    >>> [microseconds(ns) for ns in (0, 7, 1_500, 12_000)]
    ['0', '0.007', '1.5', '12']
    """
    whole, part = divmod(ns, 1000)
    return f"{whole}.{part:03d}".rstrip("0") if part else str(whole)


def _heads(names: pa.Array, raw: pa.Array, category: pa.Array, on_device: list[bool]) -> list[str]:
    """``"cat":...,"name":...`` of each row; each distinct text is escaped once."""
    known: dict[tuple[Any, ...], str] = {}
    heads = []
    for key in zip(names.to_pylist(), raw.to_pylist(), category.to_pylist(), on_device, strict=True):
        head = known.get(key)
        if head is None:
            head = known[key] = f'"cat":{json.dumps(_raw_category(*key[1:]))},"name":{json.dumps(key[0])}'
        heads.append(head)
    return heads


def _raw_category(raw: str | None, category: str, on_device: bool) -> str:
    if raw is not None:
        return raw
    if on_device:
        return _ANNOTATION_ON_DEVICE if category == "annotation" else _RAW_CATEGORIES.get(category, "kernel")
    return _RAW_CATEGORIES.get(category, category) if category != "collective" else "cpu_op"


def _arguments(extra: str | None, members: list[str]) -> str:
    """``,"args":{...}`` of one event; empty where it has none.

    Args:
        extra: The text of a JSON object with more members.
        members: Members as JSON; empty ones count for nothing.
    """
    parts = [member for member in members if member]
    if extra and extra.startswith("{") and extra.strip("{} \t\r\n"):
        parts.append(extra[1 : extra.rindex("}")])
    return f',"args":{{{",".join(parts)}}}' if parts else ""


def _texts(column: pa.Array) -> list[str]:
    return [text or "" for text in column.to_pylist()]


def _found(ids: Ints, wanted: Ints) -> Ints:
    """The position of each wanted id in the sorted ids; -1 where it is not there."""
    if not len(ids):
        return np.full(len(wanted), -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(ids, wanted), len(ids) - 1)
    return np.where(ids[position] == wanted, position, -1)
