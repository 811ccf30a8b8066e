"""The slices of one trace: collected batch by batch, then put in (track, start) order.

What joins and nesting need (track, stamps, name) stays in memory, 25 bytes a slice; every other column goes through the
spill. A slice has two numbers: its arrival number, in the order of the file, and its row, in the final order.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .names import DEVICE, Pairs
from .nesting import nest
from .scanner.batch import EventBatch
from .spill import Spill
from .stacks import CALL_STACK, Stacks
from .tracks import Tracks

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.integer[Any]]
"""Integers of any width: columns are as narrow as their values allow."""

Picks = npt.NDArray[np.intp]

_Number = TypeVar("_Number", np.int8, np.int32, np.int64)

COMPLETE, INSTANT, UNFINISHED = range(3)

NUMBER_COLUMNS = (
    "correlation", "external_id", "sequence_number", "forward_thread_id", "python_id", "python_parent_id",
    "python_module_id", "stream", "device", "context", "bytes", "graph_id", "graph_node_id",
)  # fmt: skip
"""The scanner's numbers that a slice keeps; its event index and the memory columns are not among them."""

_ROWS_AT_ONCE = 1 << 18

_FAR = 10_000_000_000
"""A trace whose other stamps are this far from 0 does not start at 0 [ns]."""

FOREVER = np.int64(1) << 62
"""The end, for nesting, of a slice that began and whose end was not seen."""


class SliceCollector:
    """Takes the slices of a trace as they are read.

    Attributes:
        count: How many it took.
        negative_durations: How many of them end before they start; they get a duration of 0.
        without_stamp: How many were left out because they have no real stamp; known at the end.
    """

    def __init__(self, spill: Spill, stacks: Stacks) -> None:
        self.count = 0
        self.negative_durations = 0
        self.without_stamp = 0
        self._spill = spill
        self._stacks = stacks
        self._track: list[Rows] = []
        self._ts: list[Ints] = []
        self._dur: list[Ints] = []
        self._pair: list[Rows] = []
        self._kind: list[npt.NDArray[np.int8]] = []

    def add(self, batch: EventBatch, picks: Picks, track: Rows, pair: Rows, kind: npt.NDArray[np.int8]) -> int:
        """Adds some events of a batch as slices.

        Args:
            batch: The batch.
            picks: Which of its events, in the order of the file; each has a time stamp.
            track: The track of each.
            pair: The name pair of each.
            kind: COMPLETE, INSTANT or UNFINISHED.

        Returns:
            The arrival number of the first.
        """
        first = self.count
        self._track.append(track)
        self._ts.append(batch.ts[picks])
        dur = batch.dur[picks]
        negative = dur < 0
        if negative.any():
            self._spill.ints("original_dur_ns").append(first, dur, negative)
            self.negative_durations += int(np.count_nonzero(negative))
            dur = np.maximum(dur, 0)
        self._dur.append(np.where(kind == COMPLETE, dur, 0))
        self._pair.append(pair)
        self._kind.append(kind)
        for name in NUMBER_COLUMNS:
            values, present = batch.numbers[name]
            if present.any():
                self._spill.ints(name).append(first, values[picks], present[picks])
        self._add_args(batch, picks, first)
        self.count += picks.size
        return first

    def _add_args(self, batch: EventBatch, picks: Picks, first: int) -> None:
        rest, texts = batch.rest[picks], batch.rest_array()
        if CALL_STACK in batch.rest_data:
            texts, stack = self._stacks.take_call_stacks(texts)
            numbers = np.where(rest >= 0, stack[rest], -1)
            self._spill.ints("call_stack").append(first, numbers, numbers >= 0)
        self._spill.texts("args").append(first, rest, texts)

    def finish(self, pairs: Pairs, tracks: Tracks, numbers: Rows, ends: tuple[Ints, Ints]) -> Slices:
        """Sorts what was collected.

        Args:
            pairs: The names of the trace.
            tracks: Its tracks.
            numbers: What ``tracks.settle`` returned.
            ends: Arrival numbers of unfinished slices whose end was found, and their durations.
        """
        track = numbers[_taken(self._track, np.int32)]
        ts, dur, kind = _taken(self._ts, np.int64), _taken(self._dur, np.int64), _taken(self._kind, np.int8)
        dur[ends[0]] = ends[1]
        kind[ends[0]] = COMPLETE
        kept = self._stamped(ts, pairs)
        if kept is None:
            order, bounds = _sorted_order(track, ts, dur, kind, len(tracks))
        else:
            order, bounds = _sorted_order(track[kept], ts[kept], dur[kept], kind[kept], len(tracks))
            order = kept[order].astype(np.int32)
        del track
        ts = ts[order]
        short = _narrowed(dur[order], np.uint32)
        del dur
        kind = kind[order]
        pair = _narrowed(_taken(self._pair, np.int32)[order], np.uint16)
        return Slices(self._spill, pairs, tracks, numbers, order, bounds, ts, short, pair, kind)

    def _stamped(self, ts: Ints, pairs: Pairs) -> Picks | None:
        """The arrival numbers of all but device operations that the driver did not stamp; None where there are none.

        Such a one has stamp 0 in a trace whose other stamps are far from it: to keep it would stretch the recording by
        days or years.
        """
        at_zero = np.flatnonzero(ts == 0)
        if at_zero.size == 0 or at_zero.size == ts.size:
            return None
        pair = np.concatenate(self._pair)
        stray = at_zero[pairs.side[pair[at_zero]] == DEVICE]
        others = ts[ts != 0]
        if stray.size == 0 or int(np.abs(others).min()) < _FAR:
            return None
        self.without_stamp = stray.size
        kept = np.ones(ts.size, np.bool_)
        kept[stray] = False
        return np.flatnonzero(kept)


def _taken(parts: list[npt.NDArray[_Number]], kind: type[_Number]) -> npt.NDArray[_Number]:
    """The parts as one array; the list is emptied."""
    whole = np.concatenate(parts) if parts else np.empty(0, kind)
    parts.clear()
    return whole


def _narrowed(values: Numbers, kind: type[np.integer[Any]]) -> Numbers:
    """The values, none of them negative, as a smaller type where it holds them all."""
    fits = values.size == 0 or int(values.max()) <= np.iinfo(kind).max
    return values.astype(kind) if fits else values


def _sorted_order(
    track: Rows, ts: Ints, dur: Ints, kind: npt.NDArray[np.int8], track_count: int
) -> tuple[Rows, npt.NDArray[np.int64]]:
    """The arrival numbers in (track, ts, longest first, arrival) order, and where each track begins in it."""
    narrow = track.astype(np.uint16) if track_count < 65536 else track
    order = np.argsort(narrow, kind="stable").astype(np.int32)
    bounds = np.concatenate(([0], np.cumsum(np.bincount(track, minlength=track_count)))).astype(np.int64)
    for first, last in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        if last - first < 2:
            continue
        arrival = order[first:last]
        arrival = arrival[np.argsort(ts[arrival], kind="stable")]
        stamps = ts[arrival]
        tied = stamps[1:] == stamps[:-1]
        if tied.any():
            among = np.flatnonzero(np.concatenate((tied, [False])) | np.concatenate(([False], tied)))
            some = arrival[among]
            length = np.where(kind[some] == UNFINISHED, FOREVER, dur[some])
            arrival[among] = some[np.lexsort((-length, ts[some]))]
        order[first:last] = arrival
    return order, bounds


@dataclass(frozen=True)
class Slices:
    """All slices of one trace in (track, ts, longest first) order.

    Attributes:
        spill: Holds the columns that are not here, by arrival number.
        pairs: The names.
        tracks: The tracks; their numbers are the final ones.
        numbers: Track in order of first use -> its final number.
        order: Row -> arrival number.
        bounds: Track -> its first row; one more entry than tracks.
        ts, dur: ns, as in the file; dur is 0 where it is unknown.
        pair: The name pair.
        kind: COMPLETE, INSTANT or UNFINISHED.
    """

    spill: Spill
    pairs: Pairs
    tracks: Tracks
    numbers: Rows
    order: Rows
    bounds: npt.NDArray[np.int64]
    ts: Ints
    dur: Numbers
    pair: Numbers
    kind: npt.NDArray[np.int8]

    def __len__(self) -> int:
        return self.ts.size

    def track_of(self, rows: npt.NDArray[np.integer]) -> Rows:
        """The track of some rows."""
        return (np.searchsorted(self.bounds, rows, side="right") - 1).astype(np.int32)

    def final_track(self, process: Rows, thread: Rows, side: int) -> Rows:
        """The track that codes of a pid and a tid name on a side, by its final number; -1 where it has no slices."""
        found = self.tracks.find(process, thread, side)
        return np.where(found >= 0, self.numbers[found], -1).astype(np.int32)

    def lay_out(self) -> None:
        """Finds parent, depth and lane of every row, if that has not been done yet."""
        self._layout  # noqa: B018 - computed on first use and kept

    @cached_property
    def _layout(self) -> tuple[Rows, Numbers, Numbers]:
        parent = np.full(len(self), -1, np.int32)
        depth = np.zeros(len(self), np.int32)
        lane = np.zeros(len(self), np.int32)
        layers = self.pairs.layer
        movable = self.pairs.in_categories("annotation")
        for first, last in zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True):
            if first == last:
                continue
            pair, ts = self.pair[first:last], self.ts[first:last]
            end = ts + self.dur[first:last]
            end[self.kind[first:last] == UNFINISHED] = FOREVER
            nesting = nest(ts, end, layer=layers[pair], movable=movable[pair])
            parent[first:last] = np.where(nesting.parent >= 0, nesting.parent + np.int32(first), -1)
            depth[first:last], lane[first:last] = nesting.depth, nesting.lane
        return parent, _narrowed(depth, np.int16), _narrowed(lane, np.int16)

    @property
    def parent(self) -> Rows:
        """The row that contains each; -1 where there is none."""
        return self._layout[0]

    @property
    def depth(self) -> Numbers:
        """How many rows of the same lane contain it."""
        return self._layout[1]

    @property
    def lane(self) -> Numbers:
        """Its row within the track."""
        return self._layout[2]

    def some_ints(self, name: str, rows: npt.NDArray[np.integer]) -> tuple[Ints, Mask]:
        """A spilled column of some rows."""
        return self.spill.ints(name).gather(self.order[rows])

    def rows_with(self, name: str) -> tuple[Rows, Ints]:
        """The rows that have a value in a spilled column, ascending, and the values."""
        if name not in self.spill.int_names:
            return np.empty(0, np.int32), np.empty(0, np.int64)
        parts = []
        for first in range(0, len(self), _ROWS_AT_ONCE):
            rows = np.arange(first, min(first + _ROWS_AT_ONCE, len(self)), dtype=np.int32)
            values, present = self.some_ints(name, rows)
            parts.append((rows[present], values[present]))
        return np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])

    def texts(self, name: str, rows: npt.NDArray[np.integer]) -> pa.Array:
        """A spilled text column of some rows; null where a row has none."""
        return self.spill.texts(name).gather(self.order[rows])

    def enclosing(self, track: npt.NDArray[np.integer], ts: Ints) -> Rows:
        """The innermost row of a track that is open at an instant, the latest start where several lanes hold one.

        Args:
            track: Tracks; -1 for none.
            ts: Instants, as long as ``track``.

        Returns:
            Rows; -1 where nothing is open. A row is open from its start to just before its end, and a row of no length
            at its own stamp.
        """
        found = np.full(ts.size, -1, np.int32)
        for number in np.unique(track):
            if number < 0:
                continue
            wanted = np.flatnonzero(track == number)
            first, last = int(self.bounds[number]), int(self.bounds[number + 1])
            for lane in range(int(self.lane[first:last].max()) + 1 if last > first else 0):
                rows = np.flatnonzero(self.lane[first:last] == lane) + first
                candidate = self._open_in(rows.astype(np.int32), ts[wanted])
                before = found[wanted]
                later = (candidate >= 0) & ((before < 0) | (self.ts[candidate] > self.ts[before]))
                found[wanted] = np.where(later, candidate, before)
        return found

    def _open_in(self, rows: Rows, ts: Ints) -> Rows:
        """The innermost of some rows of one lane, in order, that is open at each instant; -1 where none is."""
        place = np.searchsorted(self.ts[rows], ts, side="right") - 1
        candidate = np.where(place >= 0, rows[place], -1).astype(np.int32)
        while True:
            over = (candidate >= 0) & ~self._is_open(candidate, ts)
            if not over.any():
                return candidate
            candidate[over] = self.parent[candidate[over]]

    def _is_open(self, row: Rows, ts: Ints) -> Mask:
        start, dur = self.ts[row], self.dur[row]
        is_open: Mask = (ts < start + dur) | ((dur == 0) & (ts == start)) | (self.kind[row] == UNFINISHED)
        return is_open
