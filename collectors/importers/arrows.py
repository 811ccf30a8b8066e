"""Flow arrows: the events s, t and f of a trace, matched by their ids.

An arrow starts at one event s and has any number of ends. Kineto draws one from each launch to its kernels, and an end
without a start at every other runtime call, so ends without a start are usual; they are counted, never an error.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .scanner import EventBatch
from .spill import Spill

Ints = npt.NDArray[np.int64]
Codes = npt.NDArray[np.int32]
Picks = npt.NDArray[np.integer]

_FLOW, _TS, _PLACE, _PAIR = (f"arrow_{name}" for name in ("flow", "ts", "place", "pair"))


@dataclass(frozen=True, slots=True)
class Ends:
    """Starts or ends of arrows, as columns: pid and tid (codes) and stamp (ns)."""

    process: Codes
    thread: Codes
    ts: Ints

    def take(self, picks: Picks) -> Ends:
        """Some of them, in that order."""
        return Ends(self.process[picks], self.thread[picks], self.ts[picks])


class Arrows:
    """The arrows of a trace: each is one start and one end; a start with two ends is in two of them.

    Attributes:
        unmatched_starts, unmatched_ends: Events without their counterpart.
        repeated_starts: Starts with the id of an earlier one; an end belongs to the latest start before it.
    """

    def __init__(self, spill: Spill, starts: Picks, ends: Picks, unmatched: tuple[int, int], repeated: int) -> None:
        self._spill, self._starts, self._ends = spill, starts, ends
        self.unmatched_starts, self.unmatched_ends = unmatched
        self.repeated_starts = repeated

    def __len__(self) -> int:
        return self._starts.size

    def pairs(self) -> Codes:
        """The name pair of each arrow's start."""
        return self._spill.ints(_PAIR).gather(self._starts)[0].astype(np.int32)

    def starts(self, picks: Picks | None = None) -> Ends:
        """The starts of some arrows, or of all."""
        return self._some(self._starts if picks is None else self._starts[picks])

    def ends(self, picks: Picks | None = None) -> Ends:
        """The ends of some arrows, or of all."""
        return self._some(self._ends if picks is None else self._ends[picks])

    def _some(self, rows: Picks) -> Ends:
        place, _ = self._spill.ints(_PLACE).gather(rows)
        ts, _ = self._spill.ints(_TS).gather(rows)
        return Ends((place >> 32).astype(np.int32), (place & 0xFFFFFFFF).astype(np.int32) - 1, ts)


class ArrowCollector:
    """Takes flow events as they are read; all but what each is goes through the spill."""

    def __init__(self, spill: Spill) -> None:
        self._spill = spill
        self._is_start: list[npt.NDArray[np.bool_]] = []
        self._count = 0

    def add(self, batch: EventBatch, picks: npt.NDArray[np.intp], pair: Codes) -> None:
        """Adds some events of a batch, each of phase s, t or f with a time stamp; ``pair`` is the name of each."""
        self._is_start.append(batch.phase[picks] == ord("s"))
        place = batch.process[picks].astype(np.int64) << 32 | (batch.thread[picks].astype(np.int64) + 1)
        columns = {_FLOW: batch.flow_id[picks], _TS: batch.ts[picks], _PLACE: place, _PAIR: pair.astype(np.int64)}
        for name, values in columns.items():
            self._spill.ints(name).append(self._count, values)
        self._count += picks.size

    def finish(self) -> Arrows:
        """Matches starts and ends; forgets what was collected."""
        is_start = np.concatenate(self._is_start) if self._is_start else np.empty(0, np.bool_)
        self._is_start.clear()
        flow, _ = self._spill.ints(_FLOW).read(self._count)
        starts, ends = np.flatnonzero(is_start), np.flatnonzero(~is_start)
        order = np.argsort(flow[starts], kind="stable")
        starts = starts[order]
        known, wanted = flow[starts], flow[ends]
        repeated = int(np.count_nonzero(known[1:] == known[:-1]))
        if repeated:
            ts, _ = self._spill.ints(_TS).read(self._count)
            starts = starts[np.lexsort((ts[starts], known))]
        first = np.searchsorted(known, wanted)
        found = np.flatnonzero(known[np.minimum(first, known.size - 1)] == wanted) if known.size else np.empty(0, int)
        partner, ends_found = first[found], ends[found]
        if repeated:
            last = np.searchsorted(known, wanted[found], side="right")
            partner = latest_before(ts[starts], partner, last, ts[ends_found])
        used = np.zeros(starts.size, np.bool_)
        used[partner] = True
        unmatched = (int(np.count_nonzero(~used)), ends.size - found.size)
        return Arrows(self._spill, starts[partner].astype(np.int32), ends_found.astype(np.int32), unmatched, repeated)


def latest_before(
    ts: Ints, first: npt.NDArray[np.intp], last: npt.NDArray[np.intp], wanted: Ints
) -> npt.NDArray[np.intp]:
    """In each range [first, last) of sorted stamps the last that is not after the wanted one; else the first."""
    low, high = first.copy(), last.copy()
    while True:
        several = np.flatnonzero(high - low > 1)
        if several.size == 0:
            return low
        middle = (low[several] + high[several]) // 2
        before = ts[middle] <= wanted[several]
        low[several[before]] = middle[before]
        high[several[~before]] = middle[~before]
