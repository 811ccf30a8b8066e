"""Which host call started which device operation, and which forward op a backward op belongs to.

A launch and the operations it starts share a correlation id, unique within a rank, process and segment; one call that
replays a graph starts hundreds. Flow arrows are the second source, for operations that have no correlation or whose
call was not recorded under it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .arrows import Arrows, latest_before
from .names import ANNOTATION, DEVICE, HOST
from .slices import COMPLETE, Slices

Rows = npt.NDArray[np.int32]
Ints = npt.NDArray[np.int64]
Links = tuple[Rows, Rows]
"""Rows from which arrows go, and the rows they go to."""


def launches(slices: Slices, arrows: Arrows) -> Links:
    """Each device slice that has a recorded launch, once: (row of the host call, row of the device slice).

    Annotations of a device have none. Of several calls with one correlation id the latest that starts no later than the
    operation is its launch, or the first of them if all start later.
    """
    rows, correlation = slices.rows_with("correlation")
    pair = slices.pair[rows]
    on_device = _launchable(slices)[pair]
    on_host = (slices.pairs.side[pair] == HOST) & (slices.kind[rows] == COMPLETE)
    call, known = rows[on_host], correlation[on_host]
    order = np.lexsort((slices.ts[call], known))
    call, known = call[order], known[order]
    operation, wanted = rows[on_device], correlation[on_device]
    first, last = np.searchsorted(known, wanted), np.searchsorted(known, wanted, side="right")
    found = np.flatnonzero(first < last)
    operation = operation[found]
    call = call[latest_before(slices.ts[call], first[found], last[found], slices.ts[operation])]
    more_calls, more_operations = _by_arrows(slices, arrows, operation)
    return np.concatenate((call, more_calls)), np.concatenate((operation, more_operations))


def _launchable(slices: Slices) -> npt.NDArray[np.bool_]:
    """For each name pair whether such a slice is started by a call."""
    flags: npt.NDArray[np.bool_] = (slices.pairs.side == DEVICE) & (slices.pairs.layer != ANNOTATION)
    return flags


def _by_arrows(slices: Slices, arrows: Arrows, linked: Rows) -> Links:
    """Launches of the device slices that are not linked yet, from arrows that end where such a slice starts."""
    nothing = np.empty(0, np.int32)
    is_open = _launchable(slices)[slices.pair] if len(slices) else np.empty(0, np.bool_)
    is_open[linked] = False
    rows = np.flatnonzero(is_open)
    if rows.size == 0 or len(arrows) == 0:
        return nothing, nothing
    ends = arrows.ends()
    target = _starting_at(slices, rows, slices.final_track(ends.process, ends.thread, DEVICE), ends.ts)
    hits = np.flatnonzero(target >= 0)
    starts = arrows.starts(hits)
    source = slices.enclosing(slices.final_track(starts.process, starts.thread, HOST), starts.ts)
    target = target[hits]
    _, once = np.unique(np.where(source >= 0, target, -1), return_index=True)
    once = once[source[once] >= 0]
    return source[once], target[once]


def _starting_at(slices: Slices, rows: npt.NDArray[np.intp], tracks: Rows, ts: Ints) -> Rows:
    """Which of some rows lies on each track and starts exactly at each instant; -1 where none does."""
    found = np.full(ts.size, -1, np.int32)
    track_of = slices.track_of(rows)
    for number in np.unique(tracks[tracks >= 0]):
        here = rows[track_of == number]
        if here.size == 0:
            continue
        wanted = np.flatnonzero(tracks == number)
        place = np.searchsorted(slices.ts[here], ts[wanted])
        hit = (place < here.size) & (slices.ts[here[np.minimum(place, here.size - 1)]] == ts[wanted])
        found[wanted[hit]] = here[place[hit]]
    return found


def forward_backward(slices: Slices, arrows: Arrows) -> Links:
    """Arrows from forward ops to their backward ops.

    Taken from the trace's own arrows (``fwdbwd``); where it has none, from ops that share a sequence number.
    """
    if len(arrows):
        picks = np.flatnonzero(slices.pairs.named("fwdbwd")[arrows.pairs()])
        if picks.size:
            starts, ends = arrows.starts(picks), arrows.ends(picks)
            source = slices.enclosing(slices.final_track(starts.process, starts.thread, HOST), starts.ts)
            target = slices.enclosing(slices.final_track(ends.process, ends.thread, HOST), ends.ts)
            both = (source >= 0) & (target >= 0)
            return source[both], target[both]
    return _by_sequence_number(slices)


def _by_sequence_number(slices: Slices) -> Links:
    """The last forward op with a number -> the first backward op with it.

    A backward op names the thread of its forward op by a small number of the profiler's own; forward ops have 0. Each
    thread numbers its ops by itself, so a number that forward ops of several threads share is left out.
    """
    rows, sequence = slices.rows_with("sequence_number")
    forward_thread, _ = slices.some_ints("forward_thread_id", rows)
    order = np.lexsort((slices.ts[rows], sequence))
    rows, sequence, is_backward = rows[order], sequence[order], forward_thread[order] > 0
    backward, forward = rows[is_backward], rows[~is_backward]
    numbers, first = np.unique(sequence[is_backward], return_index=True)
    known = sequence[~is_backward]
    low, high = np.searchsorted(known, numbers), np.searchsorted(known, numbers, side="right")
    matched = np.flatnonzero(low < high)
    source, target = forward[high[matched] - 1], backward[first[matched]]
    one_thread = slices.track_of(forward[low[matched]]) == slices.track_of(source)
    return source[one_thread], target[one_thread]
