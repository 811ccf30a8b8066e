"""What plain Chrome traces have beyond complete slices: begin and end events, asynchronous ones, and counters."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .scanner.batch import EventBatch
from .tracks import COUNTER, Tracks

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Picks = npt.NDArray[np.intp]


class OpenSlices:
    """Pairs begin events with end events.

    On a thread an end closes the latest open begin, whatever its name. An asynchronous end closes the latest open begin
    with the same process, category and id. Events count in order of time, then of the file.
    """

    def __init__(self) -> None:
        self._begins: list[tuple[Codes, Ints, Ints, Ints, Ints]] = []
        self._ends: list[tuple[Codes, Ints, Ints, Ints]] = []

    def add_begins(self, batch: EventBatch, picks: Picks, track: Codes, arrival: Picks) -> None:
        """Adds begins: their tracks, and their arrival numbers as slices."""
        columns = (_group(batch, picks), batch.ts[picks], batch.offset[picks])
        self._begins.append((track, *columns, arrival.astype(np.int64)))

    def add_ends(self, batch: EventBatch, picks: Picks, track: Codes) -> None:
        """Adds ends: their tracks."""
        self._ends.append((track, _group(batch, picks), batch.ts[picks], batch.offset[picks]))

    def finish(self) -> tuple[Ints, Ints, int]:
        """Arrival numbers of the slices that were closed, their durations (ns), and how many ends closed nothing."""
        if not self._begins:
            lonely = sum(part[2].size for part in self._ends)
            return np.empty(0, np.int64), np.empty(0, np.int64), lonely
        both = [part[:4] for part in self._begins] + self._ends
        track = np.concatenate([part[0] for part in both])
        group, ts, offset = (np.concatenate([part[column] for part in both]) for column in (1, 2, 3))
        arrival = np.concatenate([part[4] for part in self._begins])
        is_begin = np.arange(ts.size) < arrival.size
        order = np.lexsort((offset, ts, group, track))
        track, group = track[order], group[order]
        is_first = np.concatenate(([True], (track[1:] != track[:-1]) | (group[1:] != group[:-1])))
        begin, end, lonely = _matched(is_begin[order], is_first)
        return arrival[order[begin]], ts[order[end]] - ts[order[begin]], lonely


def _group(batch: EventBatch, picks: Picks) -> Ints:
    """What begin and end must share besides the track: the id of an asynchronous event; nothing on a thread."""
    on_thread = np.isin(batch.phase[picks], (ord("B"), ord("E")))
    return np.where(on_thread, -1, batch.flow_id[picks])


def _matched(is_begin: npt.NDArray[np.bool_], is_first: npt.NDArray[np.bool_]) -> tuple[Picks, Picks, int]:
    """Matches begins and ends like brackets, each group by itself.

    Args:
        is_begin: For each event, in order, whether it opens.
        is_first: Whether it is the first of its group.

    Returns:
        Positions of begins, positions of their ends, and how many ends had nothing to close.
    """
    position = np.arange(is_begin.size)
    group = np.cumsum(is_first)
    level = np.cumsum(np.where(is_begin, 1, -1))
    level -= np.concatenate(([0], level))[np.flatnonzero(is_first)][group - 1]
    # An end that reaches a new low below zero closes nothing; what follows counts from there. Lows start anew in each
    # group because its numbers lie far below those of the group before.
    far = group.astype(np.int64) << 32
    low = np.minimum.accumulate(np.minimum(level, 0) - far) + far
    before = np.where(is_first, 0, np.concatenate(([0], low[:-1])))
    lonely = ~is_begin & (level < before)
    height = level - low + np.where(is_begin, 0, 1)
    kept = position[~lonely]
    order = kept[np.lexsort((kept, height[kept], group[kept]))]
    opens = np.flatnonzero(
        is_begin[order[:-1]]
        & ~is_begin[order[1:]]
        & (height[order[:-1]] == height[order[1:]])
        & (group[order[:-1]] == group[order[1:]])
    )
    return order[opens], order[opens + 1], int(lonely.sum())


class SeriesCollector:
    """Takes counter events: each member of their args is a series with a track of its own."""

    def __init__(self, tracks: Tracks) -> None:
        self._tracks = tracks
        self._points: defaultdict[int, list[tuple[int, float]]] = defaultdict(list)
        self._numbers: dict[tuple[int, str], int] = {}
        self.events = 0
        self.without_value = 0

    def add(self, batch: EventBatch, picks: Picks, strings: Sequence[str]) -> None:
        """Adds some counter events of a batch, each with a time stamp."""
        self.events += picks.size
        texts = batch.rest_values
        for event in picks.tolist():
            rest = int(batch.rest[event])
            values = json.loads(texts[rest]) if rest >= 0 else {}
            numbers = {key: value for key, value in values.items() if isinstance(value, int | float)}
            for column, (known, present) in batch.numbers.items():
                if present[event]:
                    numbers[column] = int(known[event])
            self.without_value += not numbers
            name = strings[batch.name[event]] if batch.name[event] >= 0 else ""
            process = int(batch.process[event])
            for key, value in numbers.items():
                track = self._track(process, name if key in ("value", name) else f"{name} {key}", strings)
                self._points[track].append((int(batch.ts[event]), float(value)))

    def _track(self, process: int, name: str, strings: Sequence[str]) -> int:
        if (process, name) not in self._numbers:
            text = strings[process] if process >= 0 else ""
            self._numbers[process, name] = self._tracks.add(text, name, COUNTER)
        return self._numbers[process, name]

    def table(self, numbers: Codes, track_ids: Ints, base_ns: int) -> pa.Table | None:
        """The rows of ``counters``, or None if there are none.

        Args:
            numbers: Track in order of first use -> its final number.
            track_ids: Final number -> track_id.
            base_ns: Added to every stamp.
        """
        if not self._points:
            return None
        track = np.concatenate([np.full(len(points), numbers[key]) for key, points in self._points.items()])
        ts = np.array([point[0] for points in self._points.values() for point in points], np.int64)
        value = np.array([point[1] for points in self._points.values() for point in points])
        order = np.lexsort((ts, track))
        return pa.table({"track_id": track_ids[track[order]], "ts": ts[order] + base_ns, "value": value[order]})
