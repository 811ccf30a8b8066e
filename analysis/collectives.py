"""How long each rank waited in a collective for the slowest, and how long the transfer itself took.

A collective's kernel runs on a rank from the moment that rank arrives. Until the last rank has arrived nothing can be
finished, so that time is ``wait_for_peer``; what is left is ``transfer``. Stamps of different ranks are compared on
aligned clocks (``clocks``), whose error is stated; a number that is less than four times its error is withheld. Ranks
that are known to have run on one host need no alignment: their stamps are of one clock. Where that clock had to be
carried over to devices, the error is what the ends of their parts typically differ by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .clocks import SYNCHRONIZING, ClockAlignment, clock_alignment
from .collective_parts import POINT_TO_POINT, CollectiveParts, collective_parts
from .columns import nullable_floats, nullable_ints, texts
from .nesting import Ints, Mask
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

WITHHELD_BELOW = 4
"""A number is withheld where it is less than this many times its error."""

ROOTED_KINDS = frozenset({"broadcast", "reduce", "gather", "scatter"})
"""Kinds with a root: a rank may leave before the last has entered."""

ALONE = "only one rank is in the recording: transfer and waiting cannot be told apart"
UNMATCHED = "no other rank has a collective that it would be part of"
ROOTED = "this kind does not hold every rank until the last arrives"
UNNAMED = "the trace does not say what kind of collective it is"
CONTRADICTS = "it ended before the last rank arrived, so the match or the clocks are wrong"
UNALIGNED = "the clocks cannot be compared: the ranks share no collective that holds all of them"
UNENDED = "its end is not in the trace"
WITHHELD = "less than four times the error of the clocks"


@dataclass(frozen=True, slots=True, eq=False)
class PeerWaits:
    """Waiting and transfer of every part, as columns that go with those of ``CollectiveParts``.

    Attributes:
        present: Ranks of the collective that are in the recording.
        expected: Ranks that the collective has; -1 where not known.
        last_rank: The rank that arrived last; -1 where the collective has one part.
        lead_ns: How much later it arrived than the rank before it.
        wait_ns: Until the last rank arrived; meaningless where ``reason`` is not "".
        transfer_ns: The rest of the part.
        error_ns: Error of both by the clocks, ns.
        reason: Why the two cannot be told, "" where they can.
    """

    present: Ints
    expected: Ints
    last_rank: Ints
    lead_ns: Ints
    wait_ns: Ints
    transfer_ns: Ints
    error_ns: Ints
    reason: np.ndarray[tuple[int], np.dtype[np.object_]]

    @property
    def told(self) -> Mask:
        """Where waiting and transfer can be told apart at all."""
        return np.asarray(self.reason == "", dtype=np.bool_)

    @property
    def last_is_certain(self) -> Mask:
        """Where the last rank leads by more than the error of the clocks."""
        return np.asarray((self.last_rank >= 0) & (self.lead_ns >= self.error_ns), dtype=np.bool_)


def collectives(recording: Recording, *, ranks: tuple[int, ...] | None = None) -> pd.DataFrame:
    """Every rank's part in every collective.

    Args:
        recording: The recording.
        ranks: The ranks whose parts to return; all by default. Those of the others are used for matching all the same.

    Returns:
        One row a part, by rank and start: collective (a number that the parts of one share), rank, kind, group,
        sequence_number, ts and dur (ns on the rank's own clock: of the device's part; of the host's call where no rank
        has a device part, as with gloo), on_device, wait_for_peer_ns, transfer_ns, error_ns (of both), last_rank (null:
        too close to tell), lower_bound (ranks are missing, so the waiting may be longer), withheld (why a number is
        null; null where none is), ranks_present, ranks_expected, in_bytes, out_bytes, algorithm_bytes_per_s and
        bus_bytes_per_s (of the transfer, as nccl-tests defines them), slice_id, device_slice_id.
    """
    parts, waits = collective_parts(recording), peer_waits(recording)
    rows = np.arange(len(parts)) if ranks is None else np.flatnonzero(np.isin(parts.rank, ranks))
    frame = _frame(parts, waits)
    return frame.iloc[rows].reset_index(drop=True)


def peer_waits(recording: Recording) -> PeerWaits:
    """Waiting and transfer of every part; worked out once per recording."""

    def build() -> PeerWaits:
        parts = collective_parts(recording)
        one_clock = _typical_errors(parts) if on_one_host(recording) else None
        return _waits(parts, clock_alignment(recording), one_clock, _expected(recording, parts))

    return memoized(recording, "peer_waits", build)


def on_one_host(recording: Recording) -> bool:
    """Whether all ranks are known to have run on one host, so that their threads' stamps are of one clock."""
    table = recording.table("processes", columns=["rank", "host"])
    hosts = set(zip(table["rank"].to_pylist(), table["host"].to_pylist(), strict=True))
    names = {host for _, host in hosts}
    return {rank for rank, _ in hosts} == set(recording.ranks) and len(names) == 1 and None not in names


def _typical_errors(parts: CollectiveParts) -> Ints:
    """Per part the error of a stamp of its rank where all have one clock: none of host calls.

    For parts on a device half of what the ends of one collective differ by, in the median: single ends are late for
    other reasons than the clock. Where no ends can be compared -1.
    """
    holds = np.array([kind in SYNCHRONIZING for kind in parts.kinds], dtype=bool)
    usable = np.flatnonzero(holds[parts.kind] & parts.ended & parts.on_device) if len(parts) else parts.rank
    first = np.full(len(parts), np.iinfo(np.int64).max, dtype=np.int64)
    last = np.full(len(parts), np.iinfo(np.int64).min, dtype=np.int64)
    np.minimum.at(first, parts.match[usable], parts.end[usable])
    np.maximum.at(last, parts.match[usable], parts.end[usable])
    several = np.bincount(parts.match[usable], minlength=len(parts))[: len(parts)] > 1
    spread = (last - first)[several]
    return np.where(parts.on_device, int(np.ceil(np.median(spread) / 2)) if len(spread) else -1, 0)


def _waits(
    parts: CollectiveParts, clocks: dict[int, ClockAlignment], one_clock: Ints | None, expected: Ints
) -> PeerWaits:
    start, end = parts.ts.copy(), parts.end.copy()
    error = np.full(len(parts), -1, dtype=np.int64) if one_clock is None else one_clock
    for rank, clock in clocks.items() if one_clock is None else ():
        mine = parts.rank == rank
        start[mine], end[mine] = clock.aligned(start[mine]), clock.aligned(end[mine])
        error[mine] = -1 if clock.error_ns is None else clock.error_ns
    present = np.bincount(parts.match)[parts.match] if len(parts) else np.zeros(0, dtype=np.int64)
    last, arrival, lead = _last(parts, start)
    both = np.where((error >= 0) & (error[last] >= 0), error + error[last], -1) if len(parts) else error
    both = np.where(parts.rank == parts.rank[last], np.where(error >= 0, error, -1), both) if len(parts) else both
    dur = parts.end - parts.ts
    wait = np.minimum(np.maximum(arrival - start, 0), dur)
    left_early = end + np.maximum(both, 0) < arrival
    kinds = parts.kinds
    rooted = np.array([kind in ROOTED_KINDS for kind in kinds], dtype=bool)
    named = np.array([kind in SYNCHRONIZING | ROOTED_KINDS | set(POINT_TO_POINT) for kind in kinds], dtype=bool)
    send = np.array([k == "send" for k in kinds], dtype=bool)
    reason = np.full(len(parts), "", dtype=object)
    if len(parts):
        # A send that ends before the receive begins went into a buffer: it waited for nobody.
        wait[left_early & send[parts.kind]] = 0
        reason[left_early & ~send[parts.kind]] = CONTRADICTS
        reason[both < 0] = UNALIGNED
        reason[rooted[parts.kind]] = ROOTED
        reason[~named[parts.kind]] = UNNAMED
        reason[~parts.ended] = UNENDED
        reason[present < 2] = ALONE if len(clocks) < 2 else UNMATCHED
        reason[(expected == 1) & parts.ended] = ""
        both[expected == 1] = 0
    last_rank = np.where(present > 1, parts.rank[last], -1) if len(parts) else present
    return PeerWaits(present, expected, last_rank, lead, wait, dur - wait, np.maximum(both, 0), reason)


def _last(parts: CollectiveParts, start: Ints) -> tuple[Ints, Ints, Ints]:
    """Per part: the row of the last part of its collective to arrive, when it did, and by how much it was the last."""
    if not len(parts):
        return start, start, start
    order = np.lexsort((-parts.rank, start, parts.match))
    matches = parts.match[order]
    final = np.flatnonzero(np.append(matches[1:] != matches[:-1], True))
    row = order[final]
    before = order[np.maximum(final - 1, 0)]
    alone = parts.match[before] != parts.match[row]
    lead = np.where(alone | (before == row), 0, start[row] - start[before])
    return row[parts.match], start[row][parts.match], lead[parts.match]


def _expected(recording: Recording, parts: CollectiveParts) -> Ints:
    """How many ranks take part in each collective: both of a pair, those of its group, else those of the job."""
    world = recording.info.get("world_size") or -1
    sizes = [len(ranks) if ranks else (world if not name else -1) for name, ranks in parts.groups]
    paired = np.array([kind in POINT_TO_POINT for kind in parts.kinds], dtype=bool)
    if not len(parts):
        return np.zeros(0, dtype=np.int64)
    return np.where(paired[parts.kind], 2, np.array(sizes, dtype=np.int64)[parts.group])


def _frame(parts: CollectiveParts, waits: PeerWaits) -> pd.DataFrame:
    told = waits.told
    wait_said = told & (waits.wait_ns >= WITHHELD_BELOW * waits.error_ns)
    wait_said |= told & waits.last_is_certain & (parts.rank == waits.last_rank)
    transfer_said = told & (waits.transfer_ns >= WITHHELD_BELOW * waits.error_ns)
    why = waits.reason.copy()
    why[told & ~(wait_said & transfer_said)] = WITHHELD
    reasons = sorted({text for text in why.tolist() if text})
    code = np.array([reasons.index(text) if text else -1 for text in why.tolist()], dtype=np.int64)
    rates = _bandwidth(parts, waits, transfer_said)
    return pd.DataFrame(
        {
            "collective": parts.match,
            "rank": parts.rank,
            "kind": texts(parts.kinds, parts.kind),
            "group": texts([name or None for name, _ in parts.groups], parts.group),
            "sequence_number": nullable_ints(parts.sequence, parts.sequence >= 0),
            "ts": parts.ts,
            "dur": nullable_ints(parts.end - parts.ts, parts.ended),
            "on_device": parts.on_device,
            "wait_for_peer_ns": nullable_ints(waits.wait_ns, wait_said),
            "transfer_ns": nullable_ints(waits.transfer_ns, transfer_said),
            "error_ns": nullable_ints(waits.error_ns, told),
            "last_rank": nullable_ints(waits.last_rank, waits.last_is_certain),
            "lower_bound": told & (waits.expected > waits.present),
            "withheld": texts(reasons, code),
            "ranks_present": waits.present,
            "ranks_expected": nullable_ints(waits.expected, waits.expected >= 0),
            "in_bytes": nullable_ints(parts.in_bytes, parts.in_bytes >= 0),
            "out_bytes": nullable_ints(parts.out_bytes, parts.out_bytes >= 0),
            "algorithm_bytes_per_s": rates[0],
            "bus_bytes_per_s": rates[1],
            "slice_id": nullable_ints(parts.slice_id, parts.slice_id >= 0),
            "device_slice_id": nullable_ints(parts.device_slice_id, parts.device_slice_id >= 0),
        }
    )


def _bandwidth(parts: CollectiveParts, waits: PeerWaits, said: Mask) -> tuple[pd.Series[float], pd.Series[float]]:
    """Bytes over transfer time, and the same scaled to what a link carries (nccl-tests, doc/PERFORMANCE.md).

    The size is that of the whole buffer: what comes out of an all-gather, what goes in of every other kind. With n
    ranks the bus factor is 2 (n - 1) / n for an all-reduce, (n - 1) / n for an all-gather, reduce-scatter and
    all-to-all, and 1 for the rest.
    """
    gathers = np.array([kind == "all_gather" for kind in parts.kinds], dtype=bool)
    shape = np.array([{"all_reduce": 2.0}.get(k, 1.0 if k in SYNCHRONIZING else 0.0) for k in parts.kinds])
    ranks = np.where(waits.expected > 0, waits.expected, waits.present)
    if not len(parts):
        return nullable_floats([], []), nullable_floats([], [])
    size = np.where(gathers[parts.kind], parts.out_bytes, parts.in_bytes)
    known = said & (size > 0) & (waits.transfer_ns > 0)
    rate = size * 1e9 / np.maximum(waits.transfer_ns, 1)
    factor = np.where(shape[parts.kind] > 0, shape[parts.kind] * (ranks - 1) / np.maximum(ranks, 1), 1.0)
    return nullable_floats(rate, known), nullable_floats(rate * factor, known)
