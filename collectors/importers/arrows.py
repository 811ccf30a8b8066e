"""Flow arrows: the events s, t and f of a trace, matched by their ids.

An arrow starts at one event s and has any number of ends. Kineto draws one from each launch to its kernels, and an end
without a start at every other runtime call, so ends without a start are usual; they are counted, never an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .scanner.batch import EventBatch

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Picks = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Ends:
    """Starts or ends of arrows, as columns: the flow's id, pid and tid (codes), stamp (ns), name pair."""

    flow: Ints
    process: Codes
    thread: Codes
    ts: Ints
    pair: Codes

    def take(self, picks: npt.NDArray[np.integer]) -> Ends:
        """Some of them, in that order."""
        return Ends(self.flow[picks], self.process[picks], self.thread[picks], self.ts[picks], self.pair[picks])


@dataclass(frozen=True, slots=True)
class Arrows:
    """The arrows of a trace.

    Attributes:
        starts, ends: The two ends of each arrow, rows belonging together; a start with two ends is there twice.
        unmatched_starts, unmatched_ends: Events without their counterpart.
        repeated_starts: Starts with the id of an earlier one, which the ends then follow: the latest before them.
    """

    starts: Ends
    ends: Ends
    unmatched_starts: int
    unmatched_ends: int
    repeated_starts: int


class ArrowCollector:
    """Takes flow events as they are read."""

    def __init__(self) -> None:
        self._parts: list[tuple[npt.NDArray[np.bool_], Ends]] = []

    def add(self, batch: EventBatch, picks: Picks, pair: Codes) -> None:
        """Adds some events of a batch, each of phase s, t or f with a time stamp; ``pair`` is the name of each."""
        is_start = batch.phase[picks] == ord("s")
        columns = (batch.flow_id, batch.process, batch.thread, batch.ts)
        self._parts.append((is_start, Ends(*(column[picks] for column in columns), pair)))

    def finish(self) -> Arrows:
        """Matches starts and ends; forgets what was collected."""
        is_start = np.concatenate([part[0] for part in self._parts]) if self._parts else np.empty(0, np.bool_)
        every = _joined([part[1] for part in self._parts])
        self._parts.clear()
        starts, ends = every.take(np.flatnonzero(is_start)), every.take(np.flatnonzero(~is_start))
        order = np.lexsort((starts.ts, starts.flow))
        starts = starts.take(order)
        first, last = (np.searchsorted(starts.flow, ends.flow, side=side) for side in ("left", "right"))
        found = np.flatnonzero(first < last)
        partner = latest_before(starts.ts, first[found], last[found], ends.ts[found])
        used = np.zeros(starts.flow.size, np.bool_)
        used[partner] = True
        repeated = int(np.count_nonzero(starts.flow[1:] == starts.flow[:-1]))
        return Arrows(starts.take(partner), ends.take(found), int((~used).sum()), ends.flow.size - found.size, repeated)


def latest_before(
    ts: Ints, first: npt.NDArray[np.intp], last: npt.NDArray[np.intp], wanted: Ints
) -> npt.NDArray[np.intp]:
    """In each range of sorted stamps the last that is not after the wanted one; the first where all are after."""
    low, high = first.copy(), last.copy()
    while True:
        open_ranges = np.flatnonzero(high - low > 1)
        if open_ranges.size == 0:
            return low
        middle = (low[open_ranges] + high[open_ranges]) // 2
        before = ts[middle] <= wanted[open_ranges]
        low[open_ranges[before]] = middle[before]
        high[open_ranges[~before]] = middle[~before]


def _joined(parts: list[Ends]) -> Ends:
    if not parts:
        empty, codes = np.empty(0, np.int64), np.empty(0, np.int32)
        return Ends(empty, codes, codes, empty, codes)
    return Ends(
        np.concatenate([part.flow for part in parts]),
        np.concatenate([part.process for part in parts]),
        np.concatenate([part.thread for part in parts]),
        np.concatenate([part.ts for part in parts]),
        np.concatenate([part.pair for part in parts]),
    )
