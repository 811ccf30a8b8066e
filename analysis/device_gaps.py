"""When a device had nothing to run, and which operation ended that.

Work of zero length (old traces round short kernels down to it) keeps no device busy, but it did run: it splits the gap
that it lies in, so that each part is explained by the operation that really ended it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from . import intervals as iv
from .device_activity import DeviceActivity
from .timeline import Ints, Timeline

_FAR = np.iinfo(np.int64).max
_DISORDER = 100
"""Calls of one process may overtake each other now and then; beyond one in this many, their numbers say nothing."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """The gaps of one device over an extent, in the order of time; columns of equal length.

    Attributes:
        starts: Where each starts, ns.
        ends: Where each ends, ns.
        op: Row of the operation that ends it; -1 for the last one, which none ends.
        call: Row of the call that launched that operation; -1 where none is recorded.
        call_start: When the call began, clipped to the gap; the gap's end where there is no call.
        call_end: When it returned, clipped to the gap; the gap's end where there is no call.
        held: Whether the operation was launched before the gap began, so that the host was not late.
        late: Whether it was launched inside the gap. Neither holds where the launch is not known.
    """

    starts: Ints
    ends: Ints
    op: Ints
    call: Ints
    call_start: Ints
    call_end: Ints
    held: npt.NDArray[np.bool_]
    late: npt.NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.starts)


def device_gaps(t: Timeline, device: DeviceActivity, extent: tuple[int, int]) -> Gaps:
    """The gaps of a device in ``[extent[0], extent[1])``, from before its first operation to after its last."""
    bare = iv.gaps(device.busy, *extent)
    first, starts, ops = _firsts(t, device)
    splits = starts[_inside(bare, starts)]
    edges = iv.rising(np.concatenate([bare.reshape(-1), splits]))
    lengths = np.stack([edges[:-1], edges[1:]], axis=1) if len(edges) else bare
    spans = lengths[iv.covered(bare, lengths[:, 0], lengths[:, 1]) > 0]
    place = np.searchsorted(starts, spans[:, 1])
    exact = (place < len(starts)) & (np.append(starts, 0)[np.minimum(place, len(starts))] == spans[:, 1])
    op = np.where(exact, np.append(ops, -1)[np.where(exact, place, len(ops))], -1).astype(np.int64)
    call = np.where(op >= 0, np.append(t.launch, -1)[op], -1).astype(np.int64)
    has = call >= 0
    begin = np.where(has, np.append(t.ts, 0)[call], spans[:, 1])
    finish = np.where(has, np.append(t.end, 0)[call], spans[:, 1])
    held = (has & (begin <= spans[:, 0])) | (~has & (op >= 0) & (first[op] <= spans[:, 0]))
    clipped = np.clip(begin, spans[:, 0], spans[:, 1])
    return Gaps(
        starts=spans[:, 0],
        ends=spans[:, 1],
        op=op,
        call=call,
        call_start=clipped,
        call_end=np.clip(finish, clipped, spans[:, 1]),
        held=held,
        late=has & ~held,
    )


def _firsts(t: Timeline, device: DeviceActivity) -> tuple[Ints, Ints, Ints]:
    """The latest instant at which each row can have been launched, and the distinct starts with the row for each.

    Of several operations that start at once the one launched first ended the gap: the device was free for it.
    """
    rows = device.rows.astype(np.int64)
    latest = _launched_by(t, rows)
    order = np.lexsort((rows, latest[rows], t.ts[rows]))
    rows = rows[order]
    new = np.concatenate([[True], t.ts[rows][1:] != t.ts[rows][:-1]])[: len(rows)]
    return latest, t.ts[rows][new], rows[new]


def _launched_by(t: Timeline, rows: Ints) -> Ints:
    """Per row of the timeline when its launch began, or, where that is not recorded, when it had begun at the latest.

    A stream runs in the order of its launches: an operation was launched before the one that follows it on its stream.
    Rows without any bound get the largest integer.
    """
    latest = np.full(len(t) + 1, _FAR, dtype=np.int64)
    known = t.launch[rows] >= 0
    latest[rows[known]] = t.ts[t.launch[rows[known]]]
    latest[rows[~known]] = _numbered_before(t, rows[~known])
    backwards = rows[np.lexsort((t.ts[rows], t.track[rows]))][::-1]
    for track in np.flatnonzero(np.bincount(t.track[rows])):
        mine = backwards[t.track[backwards] == track]
        latest[mine] = np.minimum.accumulate(latest[mine])
    return latest


def _numbered_before(t: Timeline, rows: Ints) -> Ints:
    """A bound on the launch of each row from its correlation id, since calls are numbered in the order they are made.

    A number below that of every recorded call was given before the recording began: the bound is the smallest integer.
    Where the recorded numbers do not ascend with time (several processes, several segments) there is no bound.
    """
    calls = np.flatnonzero((t.correlation >= 0) & (t.state < 0) & t.is_on(t.threads))
    calls = calls[np.argsort(t.correlation[calls], kind="stable")]
    bound = np.full(len(rows), _FAR, dtype=np.int64)
    ts = t.ts[calls]
    if not len(calls) or int((ts[1:] < ts[:-1]).sum()) * _DISORDER > len(calls):
        return bound
    later = np.append(np.minimum.accumulate(ts[::-1])[::-1], _FAR)
    numbered = t.correlation[rows] >= 0
    place = np.searchsorted(t.correlation[calls], t.correlation[rows[numbered]], side="right")
    bound[numbered] = np.where(place == 0, np.iinfo(np.int64).min, later[place])
    return bound


def _inside(spans: Ints, instants: Ints) -> npt.NDArray[np.bool_]:
    """Whether each instant lies strictly inside one of the disjoint spans."""
    place = np.searchsorted(spans[:, 0], instants, side="left") - 1
    found = np.maximum(place, 0)
    return (place >= 0) & (np.append(spans[:, 1], 0)[found] > instants) if len(spans) else np.zeros(len(instants), bool)
