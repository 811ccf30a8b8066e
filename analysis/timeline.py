"""What lies on the timeline of one rank, as columns.

Every analysis reads slices through ``timeline(recording, rank)``: numpy columns of equal length in which a reference to
another slice is a row number, so that a question about a million slices is a few array operations. Rows are sorted by
(track, ts, longest first); a row number is valid for this timeline only, a ``slice_id`` for the whole recording.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ..profiler.recording.categories import CATEGORIES, DEVICE_WORK
from . import intervals as iv

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

T = TypeVar("T")
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Codes = npt.NDArray[np.int8]

CATEGORY_CODE = {name: code for code, name in enumerate(CATEGORIES)}
"""The number that stands for a category in ``Timeline.category``."""

STATES = ("compute", "communication", "data_movement", "stall")
"""The states of a device, strongest first: where two hold at once, the first counts."""

COMPUTE, COMMUNICATION, DATA_MOVEMENT, STALL = range(len(STATES))

_STATE_OF_CATEGORY = {
    category: {"collective": COMMUNICATION, "memcpy": DATA_MOVEMENT, "memset": DATA_MOVEMENT, "dma": DATA_MOVEMENT}.get(
        category, COMPUTE
    )
    for category in DEVICE_WORK
}
_DEVICE_TRACKS = ("stream", "engine", "queue")
_SLICE_COLUMNS = (
    "slice_id", "track_id", "segment_id", "ts", "dur", "lane", "depth", "name", "category", "parent_id",
    "correlation_id", "external_id", "sequence_number", "graph_id", "module_id", "stack_id", "bytes",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Track:
    """One row of the timeline (see the table ``tracks``); None where the recording has null."""

    index: int
    track_id: int
    kind: str
    name: str
    process_id: int | None
    thread_id: int | None
    device_type: str | None
    device_index: int | None
    stream_id: int | None
    engine: str | None

    @property
    def on_device(self) -> bool:
        """Whether it shows work of a device rather than a host thread or a counter."""
        return self.kind in _DEVICE_TRACKS


@dataclass(frozen=True, slots=True)
class Device:
    """An accelerator of a rank, with its work: kernels, collectives, copies, memsets, instructions.

    Attributes:
        number: Its place in ``Timeline.devices``.
        device_type: As in the table ``tracks``; "" where the recording does not say.
        device_index: As in the table ``tracks``; 0 where the recording does not say.
        tracks: Indices of its tracks.
        rows: Rows of its work, sorted by (ts, end). Work of zero length is among them.
    """

    number: int
    device_type: str
    device_index: int
    tracks: tuple[int, ...]
    rows: Rows


@dataclass(frozen=True, eq=False)
class Timeline:
    """The slices of one rank as columns, all of length n; -1 (or row -1) where the recording has null.

    Attributes:
        rank: The rank.
        tracks: Its tracks; ``track`` holds indices into them.
        names: The names; ``name`` holds indices into them.
        slice_id: Ids, unique in the recording.
        track: Index of the track.
        ts: Start, ns.
        end: End, ns, at least ``ts``; for an unfinished slice the last stamp of the rank.
        unfinished: Whether the end was not seen.
        name: Index of the full name.
        category: Number of the category (``CATEGORY_CODE``).
        parent: Row of the innermost slice of the same lane that contains it.
        depth: How many slices of its lane contain it.
        lane: Above 0 only where slices of a track overlap without nesting.
        correlation: Correlation id.
        external: External id.
        sequence: Sequence number (a forward op and its backward node share it).
        graph: Device graph id.
        module: ``modules.module_id``.
        stack: ``stacks.stack_id``.
        segment: ``segments.segment_id``; -1 for what a live collector wrote itself.
        bytes: Bytes it moved.
        launch: Row of the host call that launched it (device work only).
        state: COMPUTE, COMMUNICATION or DATA_MOVEMENT for device work, -1 for everything else.
        track_start: Row at which each track begins, with n appended: track i is rows ``[start[i], start[i + 1])``.
    """

    rank: int
    tracks: tuple[Track, ...]
    names: list[str]
    slice_id: Ints
    track: Rows
    ts: Ints
    end: Ints
    unfinished: npt.NDArray[np.bool_]
    name: Rows
    category: Codes
    parent: Rows
    depth: Rows
    lane: Rows
    correlation: Ints
    external: Ints
    sequence: Ints
    graph: Ints
    module: Ints
    stack: Ints
    segment: Ints
    bytes: Ints
    launch: Rows
    state: Codes
    track_start: Ints

    def __len__(self) -> int:
        return len(self.slice_id)

    @property
    def dur(self) -> Ints:
        """Lengths in ns."""
        return self.end - self.ts

    @property
    def extent(self) -> tuple[int, int]:
        """The first start and the last end of any slice, ns; (0, 0) where there is none."""
        return (int(self.ts.min()), int(self.end.max())) if len(self) else (0, 0)

    @cached_property
    def threads(self) -> tuple[int, ...]:
        """Indices of the host threads' tracks."""
        return tuple(track.index for track in self.tracks if track.kind == "thread")

    @cached_property
    def devices(self) -> tuple[Device, ...]:
        """The devices that did any work, by type and index."""
        work = np.flatnonzero(self.state >= 0)
        work = work[np.lexsort((self.end[work], self.ts[work]))].astype(np.int32)
        keys = sorted({_device_key(t) for t in self.tracks if t.on_device})
        number = np.array([keys.index(_device_key(t)) if t.on_device else -1 for t in self.tracks], dtype=np.int64)
        owner = number[self.track[work]]
        found = [(key, work[owner == place]) for place, key in enumerate(keys)]
        return tuple(
            Device(
                n, key[0], key[1], tuple(t.index for t in self.tracks if t.on_device and _device_key(t) == key), rows
            )
            for n, (key, rows) in enumerate(pair for pair in found if len(pair[1]))
        )

    @cached_property
    def device_rows(self) -> Rows:
        """Rows of the work of all devices, sorted by (ts, end)."""
        rows = np.flatnonzero(self.state >= 0)
        return rows[np.lexsort((self.end[rows], self.ts[rows]))].astype(np.int32)

    def rows_of_track(self, track: int) -> slice:
        """The rows of one track, by its index."""
        return slice(int(self.track_start[track]), int(self.track_start[track + 1]))

    def is_category(self, *categories: str) -> npt.NDArray[np.bool_]:
        """Which rows are of any of these categories."""
        chosen = np.zeros(len(CATEGORY_CODE), dtype=np.bool_)
        chosen[[CATEGORY_CODE[name] for name in categories]] = True
        return chosen[self.category]

    def is_on(self, tracks: Iterable[int]) -> npt.NDArray[np.bool_]:
        """Which rows lie on any of these tracks, given by their indices."""
        chosen = np.zeros(len(self.tracks) + 1, dtype=np.bool_)  # the last entry answers for -1
        chosen[list(tracks)] = True
        return chosen[self.track]

    def name_of(self, row: int) -> str:
        """The full name of a row."""
        return self.names[int(self.name[row])]

    def rows_of(self, slice_ids: npt.ArrayLike) -> Rows:
        """The rows of slice ids; -1 for one that this rank does not have."""
        return _lookup(self.slice_id, np.asarray(slice_ids, dtype=np.int64))

    def state_union(self, state: int, rows: Rows) -> Ints:
        """When any of the given device rows is in a state, as a union of intervals (n, 2)."""
        chosen = rows[self.state[rows] == state]
        return iv.union(iv.intervals(self.ts[chosen], self.end[chosen]))


_MEMO: weakref.WeakKeyDictionary[Any, dict[object, Any]] = weakref.WeakKeyDictionary()


def memoized(recording: Recording, key: object, build: Callable[[], T]) -> T:
    """What ``build()`` returned for this recording and key the first time; kept as long as the recording lives."""
    known = _MEMO.setdefault(recording, {})
    if key not in known:
        known[key] = build()
    result: T = known[key]
    return result


def pass_on(recording: Recording, view: Recording, names: frozenset[str]) -> None:
    """Lets a view of a recording know what was worked out for it already, of results whose keys begin with a name."""
    known = _MEMO.get(recording, {})
    kept = {key: value for key, value in known.items() if (key[0] if isinstance(key, tuple) else key) in names}
    _MEMO.setdefault(view, {}).update(kept)


def timeline(recording: Recording, rank: int) -> Timeline:
    """The timeline of one rank; built once per recording.

    Raises:
        KeyError: The recording does not have that rank.
    """
    if rank not in recording.ranks:
        raise KeyError(f"the recording has ranks {list(recording.ranks)}, not {rank}")
    return memoized(recording, ("timeline", rank), lambda: _build(recording, rank))


def _build(recording: Recording, rank: int) -> Timeline:
    tracks = _tracks(recording.table("tracks", ranks=(rank,)))
    table = recording.table("slices", ranks=(rank,), columns=list(_SLICE_COLUMNS))
    ts, dur = _integers(table, "ts"), np.maximum(_integers(table, "dur", missing=0), 0)
    unfinished = table.column("dur").is_null().to_numpy()
    last = int((ts + dur).max()) if len(ts) else 0
    end = np.where(unfinished, np.maximum(last, ts), ts + dur)
    track = _lookup(np.array([t.track_id for t in tracks], dtype=np.int64), _integers(table, "track_id"))
    order = _order(track, ts, end)
    take: Callable[[npt.NDArray[Any]], npt.NDArray[Any]] = (lambda a: a) if order is None else (lambda a: a[order])
    names, name = _codes(table, "name")
    slice_id, track = take(_integers(table, "slice_id")), take(track)
    category = take(_categories(table))
    # The last entry answers for rows whose track is not in the recording (-1).
    on_device = np.array([*(t.on_device for t in tracks), False], dtype=bool)
    state_of = np.array([_STATE_OF_CATEGORY.get(c, -1) for c in CATEGORIES], dtype=np.int8)
    state = np.where(on_device[track], state_of[category], np.int8(-1)).astype(np.int8)
    return Timeline(
        rank=rank,
        tracks=tracks,
        names=names,
        slice_id=slice_id,
        track=track,
        ts=take(ts),
        end=take(end),
        unfinished=take(unfinished),
        name=take(name),
        category=category,
        parent=_lookup(slice_id, take(_integers(table, "parent_id"))),
        depth=take(_integers(table, "depth", missing=0).astype(np.int32)),
        lane=take(_integers(table, "lane", missing=0).astype(np.int32)),
        correlation=take(_integers(table, "correlation_id")),
        external=take(_integers(table, "external_id")),
        sequence=take(_integers(table, "sequence_number")),
        graph=take(_integers(table, "graph_id")),
        module=take(_integers(table, "module_id")),
        stack=take(_integers(table, "stack_id")),
        segment=take(_integers(table, "segment_id")),
        bytes=take(_integers(table, "bytes")),
        launch=_launches(recording, rank, slice_id),
        state=state,
        track_start=np.searchsorted(track, np.arange(len(tracks) + 1)).astype(np.int64),
    )


def _tracks(table: pa.Table) -> tuple[Track, ...]:
    """The tracks in the order of their ids, which is the order of the slices' rows."""
    fields = [name for name in Track.__dataclass_fields__ if name != "index"]
    rows = sorted(table.select(fields).to_pylist(), key=lambda row: row["track_id"])
    return tuple(Track(index=index, **(row | {"name": row["name"] or ""})) for index, row in enumerate(rows))


def _device_key(track: Track) -> tuple[str, int]:
    return track.device_type or "", track.device_index or 0


def _integers(table: pa.Table, column: str, *, missing: int = -1) -> Ints:
    values = table.column(column)
    if values.null_count:
        values = pc.fill_null(values, missing)
    integers: Ints = values.to_numpy().astype(np.int64, copy=False)
    return integers


def _codes(table: pa.Table, column: str) -> tuple[list[str], Rows]:
    """The distinct texts of a column and, per row, which; a missing text is ""."""
    values = table.column(column)
    if not pa.types.is_dictionary(values.type):
        values = pc.dictionary_encode(values)
    array = values.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = array.chunk(0) if array.num_chunks else pa.array([], type=values.type)
    texts = [text or "" for text in array.dictionary.to_pylist()]
    indices = array.indices
    if indices.null_count:
        texts.append("")
        indices = pc.fill_null(indices, len(texts) - 1)
    return texts, indices.to_numpy().astype(np.int32, copy=False)


def _categories(table: pa.Table) -> Codes:
    texts, codes = _codes(table, "category")
    known = np.array([CATEGORY_CODE.get(text, CATEGORY_CODE["other"]) for text in texts], dtype=np.int8)
    return known[codes] if len(codes) else np.zeros(0, dtype=np.int8)


def _order(track: Rows, ts: Ints, end: Ints) -> Ints | None:
    """The order by (track, ts, longest first), or None where the rows have it already."""
    same = track[1:] == track[:-1]
    later = (ts[1:] > ts[:-1]) | ((ts[1:] == ts[:-1]) & (end[1:] <= end[:-1]))
    if bool(((track[1:] > track[:-1]) | (same & later)).all()):
        return None
    return np.lexsort((-end, ts, track)).astype(np.int64)


def _lookup(ids: Ints, wanted: Ints) -> Rows:
    """The position in ``ids`` of each wanted id; -1 where it is not there."""
    result = np.full(len(wanted), -1, dtype=np.int32)
    if not len(ids) or not len(wanted):
        return result
    low, high = int(ids.min()), int(ids.max())
    inside = np.flatnonzero((wanted >= low) & (wanted <= high))
    if high - low < 4 * len(ids) + 1024:
        # Ids of one rank are nearly dense, so a table from id to row is smaller and faster than a search.
        place = np.full(high - low + 1, -1, dtype=np.int32)
        place[ids - low] = np.arange(len(ids), dtype=np.int32)
        result[inside] = place[wanted[inside] - low]
        return result
    order = np.argsort(ids, kind="stable")
    found = np.searchsorted(ids[order], wanted[inside])
    hit = ids[order][found] == wanted[inside]
    result[inside[hit]] = order[found[hit]]
    return result


def _launches(recording: Recording, rank: int, slice_id: Ints) -> Rows:
    """Per row the row of the call that launched it, from the flows of kind launch."""
    flows = recording.table("flows", ranks=(rank,), columns=["from_slice_id", "to_slice_id", "kind"])
    kinds, kind = _codes(flows, "kind")
    launches = kind == kinds.index("launch") if "launch" in kinds else np.zeros(len(kind), dtype=bool)
    source = _lookup(slice_id, _integers(flows, "from_slice_id")[launches])
    target = _lookup(slice_id, _integers(flows, "to_slice_id")[launches])
    known = (source >= 0) & (target >= 0)
    launch = np.full(len(slice_id), -1, dtype=np.int32)
    launch[target[known]] = source[known]
    return launch
