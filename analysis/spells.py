"""Each gap of a device cut into spells: stretches in which one thing was the reason.

The operation that ends a gap decides. Launched before the gap began, it was held on the device. Launched inside it, the
host was late, and what the launching thread did from the gap's start to that launch is the reason; then come the launch
call and the time until the operation starts, the latency. Without a recorded launch the reason is unknown.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from . import intervals as iv
from .causes import CAUSE_CODE, Codes
from .device_activity import DeviceActivity, RankActivity
from .device_gaps import Gaps
from .run_ahead import LONG_PYTHON_NS
from .timeline import DATA_MOVEMENT, Ints

NO_REASON, NO_LAUNCH, NO_HOST, UNORDERED, HELD_LONG, SCHEDULED_OUT, OTHER_RAN, TWICE_LOST, TIED = range(9)
REASONS = (
    "",
    "no launch is recorded for the operation that ended it",
    "nothing of the host is recorded but the launches",
    "the launch is not recorded; the order on the stream or of the correlation ids shows that it came before",
    "the operation was queued, and the device did not start it for long; what held it is not recorded",
    "the scheduler counted a wait for a core, and this is the longest stretch near it that nothing else explains",
    "a call that needs microseconds did not come back, and another thread ran Python meanwhile",
    "the head start would have been lost to another delay as well: it comes back only if both go",
    "the head start would have been lost to a wait at another place as well: it comes back only if both go",
)
"""What ``Spells.reason`` stands for."""

ONLY_TOGETHER = (TWICE_LOST, TIED)
"""Reasons of time that would not come back without its root cause alone."""

_SECOND_TIED = "without its second cause it comes back only if the waits at other places go as well"
ALL_REASONS = (*REASONS, *(f"{reason}; {_SECOND_TIED}" if reason else _SECOND_TIED for reason in REASONS))
"""The reasons, and once more with what there is to say where a second cause is one of several waits."""


LATENCY_NS = 100_000
"""The longest time from a launch to its start that is latency (1 to 25 us are usual); beyond it the device held it."""


@dataclass(frozen=True, eq=False)
class Spells:
    """Spells as columns of equal length.

    Attributes:
        gap: Number of the gap; for an exposed copy -1.
        ts: Start, ns.
        end: End, ns.
        cause: Code of the cause.
        host: Row of the host's slice that was the reason; -1 for unrecorded host time, or none.
        whole: For unrecorded host time how long it lasted altogether, inside the gap and outside, ns; else 0.
        op: Row of the operation that ended the gap, or of the copy; -1 for none.
        latency: Whether it is the time from the launch to the start of a late operation.
        reason: Number of a text of ``REASONS``.
    """

    gap: Ints
    ts: Ints
    end: Ints
    cause: Codes
    host: Ints
    whole: Ints
    op: Ints
    latency: npt.NDArray[np.bool_]
    reason: Codes

    def __len__(self) -> int:
        return len(self.gap)

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_]) -> Spells:
        """Some of the spells."""
        return Spells(*(getattr(self, field.name)[rows] for field in fields(self)))


def joined(parts: list[Spells]) -> Spells:
    """All spells of several, in the order given."""
    return Spells(*(np.concatenate([getattr(part, field.name) for part in parts]) for field in fields(Spells)))


def gap_spells(activity: RankActivity, gaps: Gaps, waited_for: Ints) -> Spells:
    """The spells that tile all gaps of a device, in the order of time.

    Args:
        activity: The host.
        gaps: The gaps.
        waited_for: Per row of the timeline the operation that it explicitly had to wait for; -1 for none.
    """
    source = np.append(np.append(activity.timeline.launch, -1)[waited_for[:-1]], -1)
    held = [_held(gaps, waited_for, source), _held_after_launch(gaps, waited_for, source)]
    return _in_order([*held, _without_launch(gaps), _launches(activity, gaps), *_walks(activity, gaps)])


def host_spells(activity: RankActivity, gaps: Gaps) -> Spells:
    """The spells that tile all gaps of threads that stand in for a device: what the training loop did instead."""
    number = np.flatnonzero(gaps.op >= 0)
    after = np.flatnonzero(gaps.op < 0)
    tail = _spells(gaps.starts[after], gaps.ends[after], cause=CAUSE_CODE["tail"], gap=after)
    main = activity.host.threads.main
    return _in_order([tail, _walk(activity, gaps, number, main, gaps.ends[number])])


def _in_order(parts: list[Spells]) -> Spells:
    spells = joined(parts)
    spells = spells.take(spells.end > spells.ts)
    return spells.take(np.argsort(spells.ts, kind="stable"))


def copy_spells(activity: RankActivity, device: DeviceActivity) -> Spells:
    """The spells that tile the time in which a device moved data and did nothing else, in the order of time.

    Where several copies run at once the one that started first counts, until it ends.
    """
    t = activity.timeline
    if device.device is None:
        return _host_copies(activity, device)
    rows = device.rows[t.state[device.rows] == DATA_MOVEMENT].astype(np.int64)
    reach = np.maximum.accumulate(np.concatenate([[np.iinfo(np.int64).min], t.end[rows]]))[:-1]
    starts, ends = np.maximum(t.ts[rows], reach), t.end[rows]
    rows, starts, ends = rows[ends > starts], starts[ends > starts], ends[ends > starts]
    low = np.searchsorted(device.exposed_movement[:, 1], starts, side="right")
    high = np.searchsorted(device.exposed_movement[:, 0], ends, side="left")
    owner, piece = iv.expand(low, high)
    call = t.launch[rows][owner].astype(np.int64)
    own = np.where(call >= 0, np.append(activity.causes.cause, -1)[call], -1)
    plain = np.isin(own, [-1, CAUSE_CODE["launch"], CAUSE_CODE["dispatch"]])
    return _spells(
        np.maximum(starts[owner], device.exposed_movement[piece, 0]),
        np.minimum(ends[owner], device.exposed_movement[piece, 1]),
        cause=np.where(plain, CAUSE_CODE["copy"], own),
        host=call,
        op=rows[owner],
    )


def _host_copies(activity: RankActivity, device: DeviceActivity) -> Spells:
    """The same for threads that stand in for a device: the op that copied is the host's slice."""
    token = activity.host.token(activity.host.threads.main)
    moves = device.exposed_movement
    _, piece, starts, ends = token.walk(moves[:, 0], moves[:, 1])
    return _spells(starts, ends, cause=CAUSE_CODE["copy"], host=token.rows[piece], op=token.rows[piece])


def _spells(
    ts: Ints,
    end: Ints,
    *,
    cause: npt.ArrayLike,
    host: npt.ArrayLike = -1,
    gap: npt.ArrayLike = -1,
    whole: npt.ArrayLike = 0,
    op: npt.ArrayLike = -1,
    latency: bool = False,
    reason: npt.ArrayLike = NO_REASON,
) -> Spells:
    def integers(values: npt.ArrayLike) -> Ints:
        return np.broadcast_to(np.asarray(values, dtype=np.int64), ts.shape)

    def codes(values: npt.ArrayLike) -> Codes:
        return np.broadcast_to(np.asarray(values).astype(np.int8), ts.shape)

    return Spells(
        gap=integers(gap),
        ts=ts,
        end=end,
        cause=codes(cause),
        host=integers(host),
        whole=integers(whole),
        op=integers(op),
        latency=np.full(ts.shape, latency, dtype=np.bool_),
        reason=codes(reason),
    )


def _held(gaps: Gaps, waited_for: Ints, source: Ints) -> Spells:
    """Gaps whose operation was queued already: behind what it waits for, else behind its predecessor."""
    number = np.flatnonzero(gaps.held)
    # A call that began before the gap may still run in it: until it returns the device has nothing to start.
    starts = np.where(gaps.call[number] >= 0, gaps.call_end[number], gaps.starts[number])
    reason = np.where(gaps.call[number] >= 0, NO_REASON, UNORDERED)
    return _held_spells(starts, gaps.ends[number], gaps, number, (waited_for, source), reason)


def _held_after_launch(gaps: Gaps, waited_for: Ints, source: Ints) -> Spells:
    """The rest of a late gap once the launch and its latency are over."""
    number = np.flatnonzero(gaps.late & (gaps.ends - gaps.call_end > LATENCY_NS))
    waits = waited_for, source
    return _held_spells(gaps.call_end[number] + LATENCY_NS, gaps.ends[number], gaps, number, waits, NO_REASON)


def _held_spells(
    starts: Ints, ends: Ints, gaps: Gaps, number: Ints, waits: tuple[Ints, Ints], reason: npt.ArrayLike
) -> Spells:
    """What waits for other work belongs to the call that asked for that work, where it is recorded."""
    op = gaps.op[number]
    waited_for, source = waits
    explicit = waited_for[op] >= 0
    call = np.where(explicit & (source[op] >= 0), source[op], gaps.call[number])
    cause = np.where(explicit, CAUSE_CODE["dependency"], CAUSE_CODE["kernel_gap"])
    reason = np.where(~explicit & (ends - starts > LATENCY_NS), HELD_LONG, reason)
    return _spells(starts, ends, cause=cause, host=call, gap=number, op=op, reason=reason)


def _without_launch(gaps: Gaps) -> Spells:
    number = np.flatnonzero(~gaps.held & ~gaps.late)
    op = gaps.op[number]
    cause = np.where(op < 0, CAUSE_CODE["tail"], CAUSE_CODE["unknown"])
    reason = np.where(op < 0, NO_REASON, NO_LAUNCH)
    return _spells(gaps.starts[number], gaps.ends[number], cause=cause, gap=number, op=op, reason=reason)


def _launches(activity: RankActivity, gaps: Gaps) -> Spells:
    """The launch calls inside the gaps, and the latency of the late ones; both belong to the call's context."""
    called = np.flatnonzero(gaps.late | (gaps.held & (gaps.call >= 0)))
    late = np.flatnonzero(gaps.late)
    parts = []
    for number, starts, ends, latency in (
        (called, gaps.call_start[called], gaps.call_end[called], False),
        (late, gaps.call_end[late], np.minimum(gaps.ends[late], gaps.call_end[late] + LATENCY_NS), True),
    ):
        call = gaps.call[number]
        own = activity.causes.cause[call]
        cause = np.where((activity.causes.context[call] >= 0) & (own >= 0), own, CAUSE_CODE["launch"])
        parts.append(_spells(starts, ends, cause=cause, host=call, gap=number, op=gaps.op[number], latency=latency))
    return joined(parts)


def _walks(activity: RankActivity, gaps: Gaps) -> list[Spells]:
    """What the launching thread did from the start of each late gap to the launch, thread by thread."""
    t = activity.timeline
    late = np.flatnonzero(gaps.late)
    threads = t.track[gaps.call[late]]
    parts = []
    for thread in np.unique(threads).tolist():
        number = late[threads == thread]
        parts.append(_walk(activity, gaps, number, thread, gaps.call_start[number]))
    return parts


def _walk(activity: RankActivity, gaps: Gaps, number: Ints, thread: int, until: Ints) -> Spells:
    """What a thread did from the start of each of some gaps until an instant in it."""
    token = activity.host.token(thread)
    owner, piece, starts, ends = token.walk(gaps.starts[number], until)
    host = token.rows[piece]
    whole = np.where(host < 0, token.edges[piece + 1] - token.edges[piece], 0)
    # Waiting in torch's own Python, for the backward pass mostly, is no code of the user's.
    middle = token.edges[piece] + whole // 2
    long = (whole > LONG_PYTHON_NS) & ~activity.host.in_framework(middle)
    unrecorded = np.where(long, _unrecorded_cause(activity, thread), CAUSE_CODE["dispatch"])
    cause = np.where(host < 0, unrecorded, np.append(activity.causes.cause, -1)[host])
    cause = np.where(cause < 0, CAUSE_CODE["unknown"], cause)
    reason = np.where((host < 0) & (cause == CAUSE_CODE["unknown"]), NO_HOST, NO_REASON)
    gap = number[owner]
    return _spells(starts, ends, cause=cause, host=host, gap=gap, whole=whole, op=gaps.op[gap], reason=reason)


def _unrecorded_cause(activity: RankActivity, thread: int) -> int:
    """What long unrecorded time of a thread is: the user's code, where ops or Python functions are recorded at all.

    Where Python functions are recorded and none on this thread (autograd's, mostly), no Python runs on it.
    """
    t = activity.timeline
    python = t.is_category("python", "module") & t.is_on(t.threads)
    if not (python | (t.is_category("op") & t.is_on(t.threads))).any():
        return CAUSE_CODE["unknown"]
    place = t.rows_of_track(thread)
    without = thread != activity.host.threads.main and python.any() and not python[place].any()
    return CAUSE_CODE["dispatch" if without else "python"]
