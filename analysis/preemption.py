"""When a training thread was ready to run and had no core, as far as the scheduler's own counts tell.

The sampler keeps with some samples how long the thread has waited for a core since the count before. Which moments
those were it cannot say; but a stretch of a millisecond in an op that needs microseconds is one of them. So the time of
each interval goes to the longest such stretches in it, as long as it lasts. Unrecorded time may be the user's own code,
which takes what it takes, and is left alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE
from .host_activity import HostActivity
from .timeline import Ints, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording
    from .causes import Codes

LEAST_STRETCH_NS = 500_000
"""A shorter stretch is as likely to be the thread's own work."""

LEAST_DELAY_NS = 500_000
"""Threads change places on a core all the time; less than this in one interval explains no stretch."""

_SHORT = ("dispatch", "launch")
_TOLERANCE = 1.25


def preempted(recording: Recording, t: Timeline, host: HostActivity, cause: Codes) -> Ints:
    """When the main thread waited for a core, as a union of intervals (n, 2)."""
    nothing = np.zeros((0, 2), dtype=np.int64)
    if host.threads.main < 0:
        return nothing
    starts, ends, delays = _delays(recording, t, host.threads.main)
    if not len(starts):
        return nothing
    pieces = host.token(host.threads.main)
    long = np.flatnonzero(np.diff(pieces.edges) >= LEAST_STRETCH_NS)
    short = np.isin(np.append(cause, -1)[pieces.rows[long]], [CAUSE_CODE[name] for name in _SHORT])
    long = long[short & (pieces.rows[long] >= 0)]
    begin, finish = pieces.edges[long], pieces.edges[long + 1]
    found = []
    for start, end, delay in zip(starts.tolist(), ends.tolist(), delays.tolist(), strict=True):
        inside = np.flatnonzero((begin >= start) & (finish <= end))
        for number in inside[np.argsort(begin[inside] - finish[inside], kind="stable")].tolist():
            length = int(finish[number] - begin[number])
            if length <= delay * _TOLERANCE:
                found.append((int(begin[number]), int(finish[number])))
                delay = max(delay - length, 0)
    return iv.union(np.array(found, dtype=np.int64).reshape(-1, 2))


def _delays(recording: Recording, t: Timeline, thread: int) -> tuple[Ints, Ints, Ints]:
    """The intervals between the scheduler's counts of a thread, and how long it had no core in each."""
    table = recording.table("samples", ranks=(t.rank,), columns=["track_id", "ts", "state", "run_delay_ns"])
    table = table.filter(table["run_delay_ns"].is_valid())
    mine = table["track_id"].to_numpy() == t.tracks[thread].track_id
    ts = table["ts"].to_numpy().astype(np.int64)[mine]
    delay = table["run_delay_ns"].to_numpy().astype(np.int64)[mine]
    order = np.argsort(ts, kind="stable")
    ts, delay = ts[order], delay[order]
    keep = np.flatnonzero(delay[1:] >= LEAST_DELAY_NS) + 1
    return ts[keep - 1], ts[keep], delay[keep]
