"""One trace, read once: each event goes to the collector of its kind, by its phase."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from .arrows import ArrowCollector
from .chrome import OpenSlices, SeriesCollector
from .memory_events import MemoryCollector
from .names import ASYNC, HOST, MEMORY_NAME, Pairs
from .scanner import EventBatch, Scanner
from .slices import COMPLETE, INSTANT, UNFINISHED, SliceCollector
from .spill import Spill
from .stacks import Stacks
from .tracks import Tracks

Codes = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Picks = npt.NDArray[np.intp]

_SLICE, _INSTANT, _METADATA, _FLOW, _COUNTER, _BEGIN, _END, _ASYNC_BEGIN, _ASYNC_END, _ASYNC_INSTANT = range(1, 11)
_CLASS = np.zeros(256, np.int8)
for _phases, _class in (
    ("X", _SLICE), ("iIR", _INSTANT), ("M", _METADATA), ("stf", _FLOW), ("C", _COUNTER), ("B", _BEGIN), ("E", _END),
    ("bS", _ASYNC_BEGIN), ("eF", _ASYNC_END), ("nTp", _ASYNC_INSTANT),
):  # fmt: skip
    for _phase in _phases:
        _CLASS[ord(_phase)] = _class
FARTHEST = np.int64(1) << 61
"""Stamps and durations of 73 years and more are none: sums of a base, a stamp and a duration stay within int64."""

Chooser = Callable[[str], bool]

_LAID_OUT = (_SLICE, _INSTANT, _BEGIN, _ASYNC_BEGIN, _ASYNC_INSTANT)


class Reading:
    """What is collected while the events of one trace pass by.

    Args:
        scanner: Reads the trace.
        spill: Takes what memory should not hold.
        chooses: Told the pid of each process as text, whether its events are wanted; None: all are.

    Attributes:
        metadata: The top level of the trace; known at the end, as are the next two.
        damage: Kind of damage -> how often.
        damage_offsets: Kind of damage -> the offset of the first.
        phases: Events by phase, as the file has them.
        lost: Events that became no row, by kind.
    """

    def __init__(self, scanner: Scanner, spill: Spill, chooses: Chooser | None = None) -> None:
        self._chooses = chooses
        self._strings = scanner.strings.values
        self.metadata: dict[str, object] = {}
        self.damage: dict[str, int] = {}
        self.damage_offsets: dict[str, int] = {}
        self.pairs = Pairs(self._strings)
        self.tracks = Tracks(self._strings)
        self.stacks = Stacks()
        self.slices = SliceCollector(spill, self.stacks)
        self.arrows = ArrowCollector(spill)
        self.memory = MemoryCollector()
        self.open_slices = OpenSlices()
        self.series = SeriesCollector(self.tracks)
        self.phases: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.rows_of: Counter[str] = Counter()

    def finish(self, scanner: Scanner) -> None:
        """Takes over what the scanner knows at its end."""
        self.metadata = scanner.metadata
        self.damage, self.damage_offsets = scanner.damage, scanner.damage_offsets

    def take(self, batch: EventBatch) -> None:
        """Hands the events of one batch to their collectors."""
        kinds = self._classify(batch)
        pair = self.pairs.encode(batch.category, batch.name)
        is_memory = (kinds == _INSTANT) & self.pairs.named(MEMORY_NAME)[pair]
        self._take_slices(batch, np.flatnonzero(np.isin(kinds, _LAID_OUT) & ~is_memory), kinds, pair)
        self._take_memory(batch, np.flatnonzero(is_memory))
        flows = np.flatnonzero(kinds == _FLOW)
        if flows.size:
            self.arrows.add(batch, flows, pair[flows])
        ends = np.flatnonzero((kinds == _END) | (kinds == _ASYNC_END))
        if ends.size:
            self.open_slices.add_ends(batch, ends, self._track_of(batch, ends, kinds, pair))
        counters = np.flatnonzero(kinds == _COUNTER)
        if counters.size:
            self.series.add(batch, counters, self._strings)
        for event in np.flatnonzero(kinds == _METADATA).tolist():
            self._take_metadata(batch, event)

    def _classify(self, batch: EventBatch) -> npt.NDArray[np.int8]:
        """The class of each event; 0 where it is not wanted, or has no place. Counts what it meets."""
        phase, timed = batch.phase, batch.has_ts & (np.abs(batch.ts) < FARTHEST)
        wanted = self._wanted(batch)
        counts = np.bincount(phase[wanted], minlength=256)
        for code in np.flatnonzero(counts).tolist():
            self.phases[chr(code) if code else ""] += int(counts[code])
        kinds = np.where(wanted, _CLASS[phase], 0)
        self.lost["unsupported_phase"] += int(np.count_nonzero(wanted & (kinds == 0)))
        lost = ~timed & (kinds != _METADATA) & (kinds != 0)
        self.lost["without_time_stamp"] += int(np.count_nonzero(lost))
        return np.where(lost, 0, kinds).astype(np.int8)

    def _wanted(self, batch: EventBatch) -> Mask:
        if self._chooses is None:
            return np.ones(len(batch), np.bool_)
        used, code = np.unique(batch.process, return_inverse=True)
        wanted = [self._chooses(self._strings[process] if process >= 0 else "") for process in used.tolist()]
        return np.array(wanted, np.bool_)[code]

    def _track_of(self, batch: EventBatch, picks: Picks, kinds: npt.NDArray[np.int8], pair: Codes) -> Codes:
        """Tracks of events; asynchronous ones lie on one track for each process and category."""
        is_async = np.isin(kinds[picks], (_ASYNC_BEGIN, _ASYNC_END, _ASYNC_INSTANT))
        side = np.where(is_async, ASYNC, self.pairs.side[pair[picks]]).astype(np.int8)
        thread = np.where(is_async, batch.category[picks], batch.thread[picks])
        return self.tracks.encode(batch.process[picks], thread, side)

    def _take_slices(self, batch: EventBatch, picks: Picks, kinds: npt.NDArray[np.int8], pair: Codes) -> None:
        if picks.size == 0:
            return
        classes = kinds[picks]
        track = self._track_of(batch, picks, kinds, pair)
        kind = np.full(picks.size, COMPLETE, np.int8)
        kind[(classes == _INSTANT) | (classes == _ASYNC_INSTANT)] = INSTANT
        has_dur = batch.has_dur[picks] & (np.abs(batch.dur[picks]) < FARTHEST)
        without_end = (classes == _BEGIN) | (classes == _ASYNC_BEGIN) | ((classes == _SLICE) & ~has_dur)
        kind[without_end] = UNFINISHED
        first = self.slices.add(batch, picks, track, pair[picks], kind)
        begins = np.flatnonzero((classes == _BEGIN) | (classes == _ASYNC_BEGIN))
        if begins.size:
            self.open_slices.add_begins(batch, picks[begins], track[begins], first + begins)
        self._note_devices(batch, picks, track, pair)
        self.rows_of["X"] += int(np.count_nonzero(classes == _SLICE))
        self.rows_of["i"] += int(np.count_nonzero(classes == _INSTANT))
        self.rows_of["without_duration"] += int(np.count_nonzero((classes == _SLICE) & ~has_dur))

    def _note_devices(self, batch: EventBatch, picks: Picks, track: Codes, pair: Codes) -> None:
        on_device = np.flatnonzero(self.pairs.side[pair[picks]] != HOST)
        if on_device.size:
            for name in ("stream", "device", "context"):
                values, present = batch.numbers[name]
                here = picks[on_device]
                self.tracks.note_device_values(name, track[on_device], values[here], present[here])

    def _take_memory(self, batch: EventBatch, picks: Picks) -> None:
        if picks.size:
            side = np.zeros(picks.size, np.int8)
            self.memory.add(batch, picks, self.tracks.encode(batch.process[picks], batch.thread[picks], side))
            self.rows_of["memory"] += picks.size

    def _take_metadata(self, batch: EventBatch, event: int) -> None:
        name, rest = int(batch.name[event]), int(batch.rest[event])
        if name >= 0 and rest >= 0:
            first, last = batch.rest_offsets[rest], batch.rest_offsets[rest + 1]
            self.tracks.note_metadata(
                self._strings[name],
                int(batch.process[event]),
                int(batch.thread[event]),
                batch.rest_data[first:last],
            )
