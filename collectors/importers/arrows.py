"""Flow arrows: the events s, t and f of a trace, matched by their categories and ids.

Each category numbers its arrows by itself: Kineto's launches (``ac2g``) and forward-backward pairs (``fwdbwd``) use the
same ids. An arrow starts at one event s and has any number of ends. Kineto draws one from each launch to its kernels,
and an end without a start at every other runtime call, so ends without a start are usual; they are counted, never an
error.
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

_MOST = 32_000

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
        repeated_starts: Starts with the category and id of an earlier one; an end belongs to the latest before it.
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
        self._category: list[npt.NDArray[np.int16]] = []
        self._number_of: dict[int, int] = {}
        self._count = 0

    def add(self, batch: EventBatch, picks: npt.NDArray[np.intp], pair: Codes) -> None:
        """Adds some events of a batch, each of phase s, t or f with a time stamp; ``pair`` is the name of each."""
        self._is_start.append(batch.phase[picks] == ord("s"))
        self._category.append(self._numbered(batch.category[picks]))
        place = batch.process[picks].astype(np.int64) << 32 | (batch.thread[picks].astype(np.int64) + 1)
        columns = {_FLOW: batch.flow_id[picks], _TS: batch.ts[picks], _PLACE: place, _PAIR: pair.astype(np.int64)}
        for name, values in columns.items():
            self._spill.ints(name).append(self._count, values)
        self._count += picks.size

    def _numbered(self, category: Codes) -> npt.NDArray[np.int16]:
        """The categories as small numbers. Beyond 32,000 of them, which no profiler writes, the rest counts as one."""
        used, code = np.unique(category, return_inverse=True)
        numbers = [self._number_of.setdefault(one, min(len(self._number_of), _MOST)) for one in used.tolist()]
        return np.array(numbers, np.int16)[code]

    def finish(self) -> Arrows:
        """Matches starts and ends; forgets what was collected."""
        is_start = np.concatenate(self._is_start) if self._is_start else np.empty(0, np.bool_)
        category = np.concatenate(self._category) if self._category else np.empty(0, np.int16)
        self._is_start.clear()
        self._category.clear()
        flow, _ = self._spill.ints(_FLOW).read(self._count)
        parts = []
        for number in sorted(set(self._number_of.values())):
            rows = np.flatnonzero(category == number).astype(np.int32)
            opens = is_start[rows]
            parts.append(self._matched(flow, rows[opens], rows[~opens]))
        if not parts:
            return Arrows(self._spill, np.empty(0, np.int32), np.empty(0, np.int32), (0, 0), 0)
        starts, ends = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
        lonely_starts, lonely_ends, repeated = (sum(part[2][count] for part in parts) for count in range(3))
        return Arrows(self._spill, starts, ends, (lonely_starts, lonely_ends), repeated)

    def _matched(self, flow: Ints, starts: Codes, ends: Codes) -> tuple[Codes, Codes, tuple[int, int, int]]:
        """The starts and ends that belong together; the number of starts alone, of ends alone, and of repeated starts.

        Args:
            flow: The id of every event.
            starts: Numbers of the starts of one category, in the order of the file.
            ends: Numbers of its ends.
        """
        starts = starts[np.argsort(flow[starts], kind="stable")]
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
        return starts[partner], ends_found, (int(np.count_nonzero(~used)), ends.size - found.size, repeated)


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
