"""When a training thread waited for the interpreter while another thread of the process ran Python.

Only one thread runs Python at a time, and a call into torch gives the interpreter away until its work is done. So where
such a call, which needs microseconds, goes on for long after its op with nothing recorded in it, and another thread ran
Python all the while, the call waited to get the interpreter back. Where Python functions are traced, what the other
thread did is read off its slices; else the sampler says in which stretches it ran. Plain Python of the training thread
itself is left alone: two threads that both compute take turns, and which turn was whose is not recorded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .host_activity import Pieces, innermost
from .nesting import Mask, above, nearest
from .timeline import Ints, Timeline, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording
    from .device_activity import RankActivity

LEAST_WAIT_NS = 200_000
"""A shorter stretch is as likely to be the call's own work."""

LEAST_SAMPLED_WAIT_NS = 1_000_000
"""The same where nothing says which call it was."""

RAN_FRAC = 0.7
"""The other thread ran for this share of the stretch, or more; two threads that contend take turns of 5 ms."""

LONGEST_LOOK_NS = 100_000_000
"""A sample speaks for the time since the one before it, but for no more than this."""

# Built-in functions that give the interpreter away while they wait.
_WAITS = re.compile(
    r"^<built-in (?:method|function) (?:acquire|get|wait\w*|join|sleep|select|poll|epoll|recv\w*|p?read\w*|accept"
    r"|connect|send\w*|p?write\w*|flush|fsync|open|setprofile|run_backward|synchronize)\b"
)
_NOTHING = np.zeros((0, 2), dtype=np.int64)
_BUILT_IN = re.compile(r"^<built-in ")
_OWN = re.compile(r"^(?:stallscope-|PyTorch Profiler)")


@dataclass(frozen=True, eq=False)
class InterpreterWaits:
    """Stretches in which the main thread waited for the interpreter, in the order of time.

    Attributes:
        spans: (n, 2) disjoint intervals, ns.
        holder: Per stretch the track of the thread that ran meanwhile.
        running: Per such track when it ran Python, as a union.
    """

    spans: Ints
    holder: Ints
    running: dict[int, Ints]

    def holder_at(self, instant: int) -> int:
        """The track of the thread that held the interpreter then; -1 for none."""
        place = int(np.searchsorted(self.spans[:, 0], instant, side="right")) - 1
        return int(self.holder[place]) if place >= 0 and instant < self.spans[place, 1] else -1


def interpreter_waits(recording: Recording, activity: RankActivity) -> InterpreterWaits:
    """The waits of a rank's main thread; worked out once per recording."""
    return memoized(recording, ("interpreter_waits", activity.timeline.rank), lambda: _waits(recording, activity))


def _waits(recording: Recording, activity: RankActivity) -> InterpreterWaits:
    t, host = activity.timeline, activity.host
    traced = t.is_category("python", "module")
    others = _others(recording, activity, traced) if host.threads.main >= 0 else {}
    if not others:
        return InterpreterWaits(_NOTHING, np.zeros(0, dtype=np.int64), {})
    spans = _unrecorded_calls(activity, traced)
    found, holders = [_NOTHING], [np.zeros(0, dtype=np.int64)]
    for track, running in others.items():
        chosen = iv.covered(running, spans[:, 0], spans[:, 1]) >= RAN_FRAC * (spans[:, 1] - spans[:, 0])
        found.append(spans[chosen])
        holders.append(np.full(int(chosen.sum()), track, dtype=np.int64))
        spans = spans[~chosen]
    waits, holder = np.concatenate(found), np.concatenate(holders)
    order = np.argsort(waits[:, 0], kind="stable")
    return InterpreterWaits(waits[order], holder[order], others)


def _unrecorded_calls(activity: RankActivity, traced: Mask) -> Ints:
    """Stretches in which nothing is recorded of any training thread, where the main thread was in code of torch."""
    t, host = activity.timeline, activity.host
    pieces = host.token(host.threads.main)
    lengths = np.diff(pieces.edges)
    known = bool(traced[t.rows_of_track(host.threads.main)].any())
    number = np.flatnonzero((pieces.rows < 0) & (lengths >= (LEAST_WAIT_NS if known else LEAST_SAMPLED_WAIT_NS)))
    # The first and the last piece reach beyond what was recorded of the thread.
    number = number[(number > 0) & (number < len(pieces.rows) - 1)]
    starts, ends = pieces.edges[number], pieces.edges[number + 1]
    if known:
        middle = starts + (ends - starts) // 2
        inside = host.in_framework(middle) | _in_op_call(activity, traced, middle)
        starts, ends = starts[inside], ends[inside]
    return np.stack([starts, ends], axis=1)


def _in_op_call(activity: RankActivity, traced: Mask, instants: Ints) -> Mask:
    """Whether the main thread was in a built-in function then that ran an op."""
    t, main = activity.timeline, activity.host.threads.main
    built_in = np.array([_BUILT_IN.match(name) is not None for name in t.names], dtype=bool)[t.name]
    caller = nearest(t.parent, traced)[t.is_category("op", "runtime")]
    runs_op = np.zeros(len(t) + 1, dtype=bool)
    runs_op[caller[caller >= 0]] = True
    runs_op[:-1] &= built_in
    runs_op[-1] = False
    held = _python_pieces(t, main, traced, activity.host.extent).at(instants)
    return np.asarray(runs_op[held], dtype=np.bool_)


def _python_pieces(t: Timeline, track: int, traced: Mask, extent: tuple[int, int]) -> Pieces:
    place = t.rows_of_track(track)
    rows = (np.flatnonzero(traced[place]) + place.start).astype(np.int32)
    return innermost(t, rows, above(t.parent, nearest(t.parent, traced)), extent)


def _others(recording: Recording, activity: RankActivity, traced: Mask) -> dict[int, Ints]:
    """Per thread that is no training thread when it ran Python, as a union."""
    t, host = activity.timeline, activity.host
    sampled = _sampled(recording, t)
    waits = np.array([_WAITS.match(name) is not None for name in t.names] + [False], dtype=bool)
    found = {}
    for track in t.threads:
        own = _OWN.match(t.tracks[track].name or "") or not t.tracks[track].thread_id
        if own or track in host.threads.training or track == host.threads.main:
            continue
        place = t.rows_of_track(track)
        rows = np.flatnonzero(traced[place]) + place.start
        blocked = rows[waits[t.name[rows]]]
        # Functions that had begun before the recording did have no slice: there the sampler has to say that it ran.
        ran = np.concatenate([iv.intervals(t.ts[rows], t.end[rows]), sampled.get(track, _NOTHING)])
        found[track] = iv.subtraction(iv.union(ran), iv.union(iv.intervals(t.ts[blocked], t.end[blocked])))
    return {track: running for track, running in found.items() if len(running)}


def _sampled(recording: Recording, t: Timeline) -> dict[int, Ints]:
    """Per track when the sampler says that it ran: from the look before until one at which it had."""
    table = recording.table("samples", ranks=(t.rank,), columns=["track_id", "ts", "state"])
    if not table.num_rows:
        return {}
    ids, ts = (table[name].to_numpy().astype(np.int64) for name in ("track_id", "ts"))
    running = np.array([state == "running" for state in table["state"].to_pylist()], dtype=bool)
    looks = np.unique(ts)
    found = {}
    for number, track in enumerate(t.tracks):
        mine = np.unique(ts[running & (ids == track.track_id)])
        if track.kind == "thread" and len(mine):
            before = looks[np.maximum(np.searchsorted(looks, mine) - 1, 0)]
            found[number] = iv.union(np.stack([np.maximum(before, mine - LONGEST_LOOK_NS), mine], axis=1))
    return found
