"""Communication that no computation hides, piece by piece: which collective, which rank it waited for, and why there.

A collective's part on a device lasts from the moment that the rank arrives; until the last one has arrived it waits.
What that rank's device waited for meanwhile is what the waiting comes from.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE
from .clocks import clock_alignment
from .collective_parts import collective_parts
from .collectives import on_one_host, peer_waits
from .device_activity import DeviceActivity, rank_activity
from .nesting import Mask
from .source_position import SourceLine
from .stall_lines import LINE_SOURCES, stall_lines
from .stall_rows import StallRows, stall_rows
from .timeline import COMMUNICATION, Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

MOST_PIECES = 2_000
"""So many pieces, the longest first, are asked for what the other rank did meanwhile."""


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
        op=pieces.row, host=call, root_row=call, root_ts=pieces.ts, root_end=pieces.ts, co_row=nothing,
        co_ts=pieces.ts, co_end=pieces.ts, confidence=nothing.astype(np.int8), reason=nothing.astype(np.int8),
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
    """Per piece what the rank waited for was held up by most: the root cause, as a code, and its line.

    None for pieces without a peer, and where that rank's device waited for less than half of the time: it was at work.
    """
    result: list[tuple[int, Placed | None] | None] = [None] * len(pieces)
    clocks, same = clock_alignment(recording), on_one_host(recording)
    longest = np.argsort(-pieces.dur, kind="stable")
    for number in longest[pieces.peer[longest] >= 0][:MOST_PIECES].tolist():
        peer, start, end = (int(column[number]) for column in (pieces.peer, pieces.ts, pieces.end))
        devices = rank_activity(recording, peer).devices if peer in recording.ranks else ()
        if not devices:
            continue
        shift = 0 if same else int(clocks[rank].aligned([start])[0] - clocks[peer].aligned([start])[0])
        rows = stall_rows(recording, peer, devices[0]).clipped(start + shift, end + shift)
        if 2 * int(rows.dur.sum()) < end - start:
            continue
        spent: Counter[tuple[int, Placed | None]] = Counter()
        for root, place, dur in zip(rows.root.tolist(), _placed(recording, peer, rows), rows.dur.tolist(), strict=True):
            spent[root, place] += dur
        result[number] = spent.most_common(1)[0][0]
    return result
