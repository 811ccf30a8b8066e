"""Which host call started which device operation, and which forward op a backward op belongs to.

A launch and the operations it starts share a correlation id, unique within a rank, process and segment; one call that
replays a graph starts hundreds. Flow arrows are the second source, for operations that have no correlation or whose
call was not recorded under it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrows import Arrows, Ends, latest_before
from .names import ANNOTATION, DEVICE, HOST
from .slices import COMPLETE, Slices

Rows = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Pairs = tuple[Rows, Rows]


def launching_rows(slices: Slices, arrows: Arrows) -> Rows:
    """For each slice the row of the host call that started it; -1 where none is recorded, and for the host's own."""
    launch = np.full(len(slices), -1, np.int32)
    correlation, present = slices.ints("correlation")
    side, layer = slices.pairs.side[slices.pair], slices.pairs.layer[slices.pair]
    on_device = (side == DEVICE) & (layer != ANNOTATION)
    host = np.flatnonzero(present & (side == HOST) & (slices.kind == COMPLETE))
    device = np.flatnonzero(present & on_device)
    host = host[np.lexsort((slices.ts[host], correlation[host]))]
    known, wanted = correlation[host], correlation[device]
    first, last = (np.searchsorted(known, wanted, side=side_) for side_ in ("left", "right"))
    found = np.flatnonzero(first < last)
    best = latest_before(slices.ts[host], first[found], last[found], slices.ts[device[found]])
    launch[device[found]] = host[best]
    _add_arrows(slices, arrows, np.flatnonzero(on_device & (launch < 0)), launch)
    return launch


def _add_arrows(slices: Slices, arrows: Arrows, open_rows: npt.NDArray[np.intp], launch: Rows) -> None:
    """Fills in, for device rows without a launch, the host call from which an arrow leads to them."""
    if open_rows.size == 0 or arrows.ends.flow.size == 0:
        return
    tracks = slices.final_track(arrows.ends.process, arrows.ends.thread, DEVICE)
    target = _starting_at(slices, open_rows, tracks, arrows.ends.ts)
    hits = np.flatnonzero(target >= 0)
    starts = arrows.starts.take(hits)
    source = slices.enclosing(slices.final_track(starts.process, starts.thread, HOST), starts.ts)
    known = source >= 0
    launch[target[hits[known]]] = source[known]


def _starting_at(slices: Slices, rows: npt.NDArray[np.intp], tracks: Rows, ts: Ints) -> Rows:
    """Which of some rows lies on each track and starts exactly at each instant; -1 where none does."""
    found = np.full(ts.size, -1, np.int32)
    track_of = slices.track[rows]
    for number in np.unique(tracks[tracks >= 0]):
        here = rows[track_of == number]
        if here.size == 0:
            continue
        wanted = np.flatnonzero(tracks == number)
        place = np.searchsorted(slices.ts[here], ts[wanted])
        hit = (place < here.size) & (slices.ts[here[np.minimum(place, here.size - 1)]] == ts[wanted])
        found[wanted[hit]] = here[place[hit]]
    return found


def forward_backward(slices: Slices, arrows: Arrows) -> Pairs:
    """Arrows from forward ops to their backward ops: (from row, to row).

    Taken from the trace's own arrows (``fwdbwd``); where it has none, from ops that share a sequence number.
    """
    if len(slices.pairs):
        is_link = slices.pairs.named("fwdbwd")
        picks = np.flatnonzero(is_link[arrows.starts.pair]) if arrows.starts.pair.size else np.empty(0, np.intp)
        if picks.size:
            return _bound(slices, arrows.starts.take(picks), arrows.ends.take(picks))
    return _by_sequence_number(slices)


def _bound(slices: Slices, starts: Ends, ends: Ends) -> Pairs:
    source = slices.enclosing(slices.final_track(starts.process, starts.thread, HOST), starts.ts)
    target = slices.enclosing(slices.final_track(ends.process, ends.thread, HOST), ends.ts)
    both = (source >= 0) & (target >= 0)
    return source[both], target[both]


def _by_sequence_number(slices: Slices) -> Pairs:
    """The last forward op with a number -> the first backward op with it.

    A backward op names the thread of its forward op by a small number of the profiler's own; forward ops have 0. Each
    thread numbers its ops by itself, so a number that forward ops of several threads share is left out.
    """
    nothing = np.empty(0, np.int32)
    sequence, present = slices.ints("sequence_number")
    if not present.any():
        return nothing, nothing
    forward_thread, _ = slices.ints("forward_thread_id")
    rows = np.flatnonzero(present)
    backward, forward = rows[forward_thread[rows] > 0], rows[forward_thread[rows] == 0]
    forward = forward[np.lexsort((slices.ts[forward], sequence[forward]))]
    backward = backward[np.lexsort((slices.ts[backward], sequence[backward]))]
    numbers, first = np.unique(sequence[backward], return_index=True)
    low, high = (np.searchsorted(sequence[forward], numbers, side=side) for side in ("left", "right"))
    known = np.flatnonzero(low < high)
    source, target = forward[high[known] - 1], backward[first[known]]
    one_thread = slices.track[forward[low[known]]] == slices.track[source]
    return source[one_thread].astype(np.int32), target[one_thread].astype(np.int32)
