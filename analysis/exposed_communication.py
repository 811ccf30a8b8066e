"""Communication that no computation hides, piece by piece: which collective, which rank it waited for, and why there.

A collective's part on a device lasts from the moment that the rank arrives; until the last one has arrived it waits.
Both ranks were level when they had last met, at the end of the collective before. So what the late rank's device stood
still for since then, and the other's did not, is what the waiting comes from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE, CAUSE_NAMES, Codes
from .clocks import clock_alignment
from .collective_parts import collective_parts
from .collectives import on_one_host, peer_waits
from .device_activity import DeviceActivity, rank_activity
from .nesting import Mask
from .source_position import SourceLine
from .stall_lines import LINE_SOURCES, stall_lines
from .stall_rows import LAUNCHING, StallRows, stall_rows
from .timeline import COMMUNICATION, Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

MOST_PIECES = 2_000
"""So many pieces, the longest first, are asked for what held the other rank up."""


Placed = tuple[SourceLine, str]
"""A line, and where from it is known (one of ``LINE_SOURCES``)."""


@dataclass(frozen=True, eq=False)
class CommunicationPieces:
    """Pieces of time in the order of time, as columns of equal length.

    Attributes:
        ts: Start, ns.
        end: End, ns.
        row: Row of the collective on the device; of several at once the one that started first, until it ends.
        peer: The rank that it waited for; -1 for the transfer, and where that cannot be told.
    """

    ts: Ints
    end: Ints
    row: Ints
    peer: Ints

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def dur(self) -> Ints:
        """Lengths in ns."""
        return self.end - self.ts

    def take(self, rows: Ints | Mask) -> CommunicationPieces:
        """Some of the pieces."""
        return CommunicationPieces(self.ts[rows], self.end[rows], self.row[rows], self.peer[rows])


def communication_pieces(recording: Recording, device: DeviceActivity, spans: Ints) -> CommunicationPieces:
    """The pieces of one device inside a union of intervals, which they tile where communication is exposed."""
    t = rank_activity(recording, device.rank).timeline
    exposed = iv.intersection(device.exposed_communication, spans)
    rows = device.rows[t.state[device.rows] == COMMUNICATION].astype(np.int64)
    reach = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], t.end[rows]]))[:-1]
    starts, ends = np.maximum(t.ts[rows], reach), t.end[rows]
    rows, starts, ends = rows[ends > starts], starts[ends > starts], ends[ends > starts]
    arrived, peer = _arrivals(recording, device, rows, starts)
    parts = [
        (starts, np.minimum(np.maximum(arrived, starts), ends), rows, peer),
        (np.maximum(np.minimum(arrived, ends), starts), ends, rows, np.full(len(rows), -1, dtype=np.int64)),
    ]
    starts, ends, rows, peer = (np.concatenate(column) for column in zip(*parts, strict=True))
    low = np.searchsorted(exposed[:, 1], starts, side="right")
    high = np.searchsorted(exposed[:, 0], ends, side="left")
    owner, span = iv.expand(low, np.where(ends > starts, high, 0))
    first, last = np.maximum(starts[owner], exposed[span, 0]), np.minimum(ends[owner], exposed[span, 1])
    keep = np.flatnonzero(last > first)
    keep = keep[np.argsort(first[keep], kind="stable")]
    return CommunicationPieces(first[keep], last[keep], rows[owner[keep]], peer[owner[keep]])


def _arrivals(recording: Recording, device: DeviceActivity, rows: Ints, starts: Ints) -> tuple[Ints, Ints]:
    """Per collective of a device when the last rank had arrived, and which that was; its own start and -1 if unknown.

    A rank is named only where it was the last by more than the error of the clocks.
    """
    parts, waits = collective_parts(recording), peer_waits(recording)
    t = rank_activity(recording, device.rank).timeline
    told = waits.told & (parts.rank == device.rank) & parts.on_device & (waits.wait_ns > 0)
    told = np.flatnonzero(told & waits.last_is_certain & (waits.last_rank != device.rank))
    arrived, peer = np.full(len(t) + 1, -1, dtype=np.int64), np.full(len(t) + 1, -1, dtype=np.int64)
    row = t.rows_of(parts.device_slice_id[told])
    arrived[row], peer[row] = parts.ts[told] + waits.wait_ns[told], waits.last_rank[told]
    arrived[-1] = peer[-1] = -1
    known = peer[rows] >= 0
    return np.where(known, arrived[rows], starts), peer[rows]


def communication_lines(
    recording: Recording, device: DeviceActivity, pieces: CommunicationPieces
) -> list[Placed | None]:
    """Per piece the line that asked for the collective; None where it is not known."""
    t = rank_activity(recording, device.rank).timeline
    call = t.launch[pieces.row].astype(np.int64) if len(pieces) else pieces.row
    nothing = np.full(len(pieces), -1, dtype=np.int64)
    rows = StallRows(
        ts=pieces.ts, end=pieces.end, state=np.full(len(pieces), COMMUNICATION, dtype=np.int8), step=nothing,
        cause=np.full(len(pieces), CAUSE_CODE["unknown"], dtype=np.int8),
        root=np.full(len(pieces), CAUSE_CODE["unknown"], dtype=np.int8), co_cause=nothing.astype(np.int8),
        co_tied=nothing > 0, op=pieces.row, host=call, root_row=call, root_ts=pieces.ts, root_end=pieces.ts,
        co_row=nothing, co_ts=pieces.ts, co_end=pieces.ts, confidence=nothing.astype(np.int8),
        reason=nothing.astype(np.int8),
    )  # fmt: skip
    return _placed(recording, device.rank, rows)


def _placed(recording: Recording, rank: int, rows: StallRows) -> list[Placed | None]:
    places, line, source = stall_lines(recording, rank, rows)
    return [
        (places[number], LINE_SOURCES[said]) if number >= 0 else None
        for number, said in zip(line.tolist(), source.tolist(), strict=True)
    ]


def peer_reasons(
    recording: Recording, rank: int, pieces: CommunicationPieces
) -> list[tuple[int, Placed | None] | None]:
    """Per piece what held up the rank that it waited for: the root cause, as a code, and its line there.

    That is the root cause for which that rank's device stood still longer than this one's, since they had last met, by
    most. None for pieces without a peer, and where it is less than half of the wait: then the peer computed longer.
    """
    result: list[tuple[int, Placed | None] | None] = [None] * len(pieces)
    finder = _LateRanks(recording, rank)
    longest = np.argsort(-pieces.dur, kind="stable")
    for number in longest[pieces.peer[longest] >= 0][:MOST_PIECES].tolist():
        result[number] = finder.reason(int(pieces.row[number]), int(pieces.peer[number]))
    return result


def _as_one(roots: Codes) -> Ints:
    """Root causes, those of a host that launches slowly as one."""
    slow = np.isin(roots, [CAUSE_CODE[name] for name in LAUNCHING])
    return np.where(slow, CAUSE_CODE[LAUNCHING[0]], roots).astype(np.int64)


class _LateRanks:
    """Finds why another rank came late to a collective of this one; each collective once."""

    def __init__(self, recording: Recording, rank: int) -> None:
        self._recording, self._rank = recording, rank
        self._parts, self._waits = collective_parts(recording), peer_waits(recording)
        self._clocks = None if on_one_host(recording) else clock_alignment(recording)
        t = rank_activity(recording, rank).timeline
        mine = np.flatnonzero((self._parts.rank == rank) & self._parts.on_device)
        self._part_of = dict(zip(t.rows_of(self._parts.device_slice_id[mine]).tolist(), mine.tolist(), strict=True))
        self._known: dict[int, tuple[int, Placed | None] | None] = {}

    def reason(self, row: int, peer: int) -> tuple[int, Placed | None] | None:
        """The reason for a collective's row on the device; None where the peer was not held up."""
        part = self._part_of.get(row, -1)
        if part < 0:
            return None
        if part not in self._known:
            self._known[part] = self._reason(part, peer)
        return self._known[part]

    def _reason(self, part: int, peer: int) -> tuple[int, Placed | None] | None:
        parts = self._parts
        of_peer = (parts.rank == peer) & parts.on_device
        its = np.flatnonzero(of_peer & (parts.match == parts.match[part]))
        arrival = int(parts.ts[its[0]]) if len(its) else 0
        before = parts.end[of_peer & parts.ended & (parts.end <= arrival)]
        if not len(before):  # how far apart they were when the recording began is not known
            return None
        met = int(before.max())
        shift = 0
        if self._clocks is not None:
            shift = int(self._clocks[self._rank].aligned([met])[0] - self._clocks[peer].aligned([met])[0])
        late = self._stalls(peer, met, arrival)
        own = self._stalls(self._rank, met - shift, int(parts.ts[part]))
        width = len(CAUSE_NAMES)
        roots = _as_one(late.root)
        excess = np.bincount(roots, weights=late.dur, minlength=width)
        excess -= np.bincount(_as_one(own.root), weights=own.dur, minlength=width)
        root = int(excess.argmax())
        if 2 * excess[root] < self._waits.wait_ns[part]:
            return None
        rows = late.take(roots == root)
        spent: Counter[Placed | None] = Counter()
        for place, dur in zip(_placed(self._recording, peer, rows), rows.dur.tolist(), strict=True):
            spent[place] += dur
        return root, spent.most_common(1)[0][0]

    def _stalls(self, rank: int, start: int, end: int) -> StallRows:
        """The stalls and exposed copies of a rank's first device in a stretch of its time."""
        rows = stall_rows(self._recording, rank, rank_activity(self._recording, rank).devices[0])
        low, high = np.searchsorted(rows.end, start, side="right"), np.searchsorted(rows.ts, end, side="left")
        return rows.take(slice(int(low), max(int(low), int(high)))).clipped(start, end)
