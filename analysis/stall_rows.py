"""The stalls and exposed copies of a device as rows: pieces of time, each with one cause and one root cause.

The rows of a device tile, without a gap or an overlap, all time in which it neither computed nor communicated: from the
first stamp of the rank to the last. Whoever asks for less clips them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from . import intervals as iv
from .causes import CAUSE_CODE, Codes
from .dependencies import waited_for
from .device_activity import DeviceActivity, RankActivity, rank_activity
from .device_gaps import Gaps, device_gaps
from .host_activity import Pieces
from .interpreter import interpreter_waits
from .preemption import preempted
from .refills import gave_back
from .run_ahead import (
    HIDDEN,
    HIDEABLE,
    LONG_PYTHON_NS,
    PAYABLE,
    WAIT,
    WITH_ANOTHER,
    WITH_WAITS,
    Debts,
    debts,
    payments,
)
from .spells import (
    HELD_LONG,
    NO_REASON,
    OTHER_RAN,
    REASONS,
    SCHEDULED_OUT,
    TIED,
    TWICE_LOST,
    Spells,
    copy_spells,
    gap_spells,
    host_spells,
    joined,
)
from .steps import device_steps
from .timeline import DATA_MOVEMENT, STALL, Ints, Timeline, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

ANALYSIS_VERSION = 8
"""Raised when the same recording would give other rows: kept with every row, and part of the key of cached ones."""

CONFIDENCE = ("low", "medium", "high")

LAUNCHING = ("dispatch", "launch")
"""What a burst of launches consists of: the host is too slow for what the device has to run."""

_BURST = 64
_BURST_FRAC = 0.5


@dataclass(frozen=True, eq=False)
class StallRows:
    """Stalls and exposed copies of one device in the order of time, as columns of equal length.

    Attributes:
        ts: Start, ns.
        end: End, ns.
        state: STALL or DATA_MOVEMENT.
        step: Index of the step in the device's ``StepCut``; -1 outside all steps.
        cause: Code of what the host or the device did in that time.
        root: Code of why the queue was empty; the cause itself where no head start was lost before.
        co_cause: Code of a second cause without which the stall would also be gone; -1 for none.
        co_tied: Whether that is so only if waits at other places go as well.
        op: Row of the operation that ended the stall, or of the copy; -1 for none.
        host: Row of the host's slice behind ``cause``; -1 for unrecorded time or none.
        root_row: Row of the slice behind ``root``; -1 for unrecorded time or none.
        root_ts: Start of the time behind ``root``, ns: what to look at for a line where there is no slice.
        root_end: End of that time, ns.
        co_row: Row of the slice behind ``co_cause``; -1 for unrecorded time or none.
        co_ts: Start of the time behind ``co_cause``, ns.
        co_end: End of that time, ns.
        confidence: Index into ``CONFIDENCE``.
        reason: Number of a text of ``spells.REASONS``.
    """

    ts: Ints
    end: Ints
    state: Codes
    step: Ints
    cause: Codes
    root: Codes
    co_cause: Codes
    co_tied: npt.NDArray[np.bool_]
    op: Ints
    host: Ints
    root_row: Ints
    root_ts: Ints
    root_end: Ints
    co_row: Ints
    co_ts: Ints
    co_end: Ints
    confidence: Codes
    reason: Codes

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def dur(self) -> Ints:
        """Lengths in ns."""
        return self.end - self.ts

    @property
    def told(self) -> Ints:
        """Indices into ``spells.ALL_REASONS``."""
        return self.reason + len(REASONS) * self.co_tied

    def take(self, rows: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> StallRows:
        """Some of the rows."""
        return StallRows(*(getattr(self, field.name)[rows] for field in fields(self)))

    def clipped(self, start: int, end: int) -> StallRows:
        """The rows inside ``[start, end)``, cut at its edges."""
        kept = self.take((self.end > start) & (self.ts < end))
        return replace(kept, ts=np.maximum(kept.ts, start), end=np.minimum(kept.end, end))


def stall_rows(recording: Recording, rank: int, device: DeviceActivity) -> StallRows:
    """All stalls and exposed copies of one device over the whole extent of its rank; worked out once per recording."""
    key = ("stall_rows", rank, device.device_type, device.device_index)
    return memoized(recording, key, lambda: _build(recording, rank_activity(recording, rank), device))


def _build(recording: Recording, activity: RankActivity, device: DeviceActivity) -> StallRows:
    t = activity.timeline
    gaps = device_gaps(t, device, activity.host.extent)
    owed = debts(recording, activity, device)
    if device.device is None:
        spells = host_spells(activity, gaps)
        payer = besides = np.full(len(spells), -1, dtype=np.int64)
    else:
        spells = _with_returns(t, gap_spells(activity, gaps, waited_for(recording, t, device)), owed)
        spells = _with_inherited_latency(_with_waits_of_the_thread(recording, activity, spells))
        spells, payer, besides = _paid(activity, gaps, spells, owed)
    copies = copy_spells(activity, device)
    nobody = np.full(len(copies), -1, dtype=np.int64)
    payer, besides = np.concatenate([payer, nobody]), np.concatenate([besides, nobody])
    spells = joined([spells, copies])
    burst = np.where(spells.gap >= 0, _bursts(t, device, gaps, owed)[spells.gap], False)
    rows = _rows(activity, spells, payer, besides, owed, burst)
    rows = rows.take(np.argsort(rows.ts, kind="stable"))
    return _merged(_cut_at_steps(recording, activity, device, rows))


def _with_returns(t: Timeline, spells: Spells, owed: Debts) -> Spells:
    """The spells, where what is left of a call after the copy that held it up is the return from a wait."""
    own_work = np.append(t.launch, -1)[spells.op] == spells.host
    returns = np.isin(spells.host, owed.row[owed.kind == WAIT]) & (spells.cause == CAUSE_CODE["launch"]) & ~own_work
    return replace(spells, cause=np.where(returns, CAUSE_CODE["synchronization"], spells.cause).astype(np.int8))


def _with_waits_of_the_thread(recording: Recording, activity: RankActivity, spells: Spells) -> Spells:
    """The spells, where those in which the thread had no core, or not the interpreter, have that for their cause."""
    cores = preempted(recording, activity.timeline, activity.host, activity.causes.cause)
    waits = interpreter_waits(recording, activity).spans
    spells = _inside(spells, cores, spells.cause >= 0, CAUSE_CODE["preempted"], SCHEDULED_OUT)
    return _inside(spells, waits, spells.host < 0, CAUSE_CODE["lock"], OTHER_RAN)


def _inside(spells: Spells, spans: Ints, chosen: npt.NDArray[np.bool_], cause: int, reason: int) -> Spells:
    """The spells, where those of the chosen ones that lie in a union of intervals have another cause."""
    held = np.isin(spells.cause, [CAUSE_CODE["kernel_gap"], CAUSE_CODE["dependency"], CAUSE_CODE["tail"]])
    inside = (iv.covered(spans, spells.ts, spells.end) == spells.end - spells.ts) & chosen & ~held & ~spells.latency
    return replace(
        spells,
        cause=np.where(inside, cause, spells.cause).astype(np.int8),
        reason=np.where(inside, reason, spells.reason).astype(np.int8),
    )


def _slow_only(activity: RankActivity, spells: Spells) -> npt.NDArray[np.bool_]:
    """Which spells have no cause of their own: launches, dispatch, the return from a wait, and short loads of data."""
    t, context = activity.timeline, np.append(activity.causes.context, -1)[spells.host]
    slow = np.isin(spells.cause, [CAUSE_CODE[name] for name in PAYABLE])
    lasted = np.append(t.end - t.ts, 0)[context]
    small = (spells.cause == CAUSE_CODE["input"]) & (context >= 0) & (lasted < LONG_PYTHON_NS)
    found: npt.NDArray[np.bool_] = slow | small
    return found


def _paid(activity: RankActivity, gaps: Gaps, spells: Spells, owed: Debts) -> tuple[Spells, Ints, Ints]:
    """The spells, cut where a debt begins or ends to pay for them; the number of that debt, and what must go besides.

    Both numbers are -1 for none.
    """
    generic = _slow_only(activity, spells)
    payable = gaps.late[spells.gap] & (generic | np.isin(spells.cause, [CAUSE_CODE[name] for name in HIDEABLE]))
    lengths = np.where(payable, spells.end - spells.ts, 0)
    axis_end = np.cumsum(lengths)
    axis_start = axis_end - lengths
    length = int(axis_end[-1]) if len(axis_end) else 0
    # A wait that ends before the launch counts for the gap that the launch ends: it is why the queue was empty.
    decides = np.where(gaps.late, np.maximum(gaps.call_start, gaps.starts), gaps.starts)
    gap = np.searchsorted(decides, owed.end, side="left")
    first_spell = np.searchsorted(spells.gap, gap, side="left")
    positions = np.append(axis_start, length)[first_spell]
    debtor, besides = payments(owed, positions, length, _own_causes(spells, payable, generic, axis_end))
    owner, piece, starts, ends = debtor.walk(axis_start, axis_end)
    whole = np.flatnonzero(~payable)
    rows = np.concatenate([whole, owner])
    shift = spells.ts[owner] - axis_start[owner]
    ts = np.concatenate([spells.ts[whole], starts + shift])
    end = np.concatenate([spells.end[whole], ends + shift])
    nobody = np.full(len(whole), -1, dtype=np.int64)
    payer, other = (np.concatenate([nobody, one.rows[piece]]) for one in (debtor, besides))
    order = np.argsort(ts, kind="stable")
    return replace(spells.take(rows[order]), ts=ts[order], end=end[order]), payer[order], other[order]


def _own_causes(
    spells: Spells, payable: npt.NDArray[np.bool_], generic: npt.NDArray[np.bool_], axis_end: Ints
) -> Pieces:
    """On the axis of payable time the cause that it has of its own; -1 where it has none."""
    own = np.where(generic, -1, spells.cause)[payable].astype(np.int64)
    ends = axis_end[payable]
    last = np.append(own[1:] != own[:-1], True)[: len(own)]
    return Pieces(np.concatenate([[0], ends[last]]).astype(np.int64), own[last])


def _with_inherited_latency(spells: Spells) -> Spells:
    """The spells, where a late launch's latency has the cause and the host slice of what made the launch late.

    Of several causes in the gap the one that took longest counts, and of its slices the longest.
    """
    device_held = np.isin(spells.cause, [CAUSE_CODE["kernel_gap"], CAUSE_CODE["dependency"]])
    latency, lateness = np.flatnonzero(spells.latency), np.flatnonzero(~spells.latency & ~device_held)
    if not len(latency) or not len(lateness):
        return spells
    dur = (spells.end - spells.ts)[lateness]
    key = spells.gap[lateness] * len(CAUSE_CODE) + spells.cause[lateness]
    order = np.lexsort((dur, key))
    last = np.flatnonzero(np.append(key[order][1:] != key[order][:-1], True))
    sums = np.diff(np.concatenate([[0], np.cumsum(dur[order])[last]]))
    longest, groups = lateness[order[last]], key[order[last]] // len(CAUSE_CODE)
    best = np.lexsort((sums, groups))
    winner = best[np.flatnonzero(np.append(groups[best][1:] != groups[best][:-1], True))]
    place = np.minimum(np.searchsorted(groups[winner], spells.gap[latency]), len(winner) - 1)
    known = groups[winner[place]] == spells.gap[latency]
    latency, heir = latency[known], longest[winner[place[known]]]
    cause, host = spells.cause.copy(), spells.host.copy()
    cause[latency], host[latency] = spells.cause[heir], spells.host[heir]
    return replace(spells, cause=cause, host=host)


def _bursts(t: Timeline, device: DeviceActivity, gaps: Gaps, owed: Debts) -> npt.NDArray[np.bool_]:
    """Which gaps end a burst of launches that the host alone cannot keep up with, with a False at the end.

    Over the last operations, all launched since the host last waited, launching took at least twice as long as running,
    the host's other delays left out.
    """
    result = np.zeros(len(gaps) + 1, dtype=bool)
    rows = device.rows[t.launch[device.rows] >= 0]
    if len(rows) <= _BURST:
        return result
    called = t.ts[t.launch[rows]]
    earliest = np.lib.stride_tricks.sliding_window_view(called, _BURST).min(axis=1)
    work = np.concatenate([[0], np.cumsum(t.end[rows] - t.ts[rows])])
    at = np.searchsorted(t.ts[rows], gaps.ends, side="left")
    ready = np.flatnonzero(gaps.late & (at >= _BURST))
    at = at[ready]
    waits = owed.end[owed.kind != HIDDEN]
    place = np.searchsorted(waits, gaps.call_start[ready], side="right") - 1
    since = np.append(waits, np.iinfo(np.int64).min)[place]
    begun = earliest[at - _BURST]
    delays = iv.union(np.stack([owed.ts, owed.end], axis=1)[owed.kind == HIDDEN])
    span = gaps.call_start[ready] - begun - iv.covered(delays, begun, gaps.call_start[ready])
    result[ready] = (begun > since) & (work[at] - work[at - _BURST] < _BURST_FRAC * span)
    return result


def _rows(
    activity: RankActivity,
    spells: Spells,
    payer: Ints,
    besides: Ints,
    owed: Debts,
    burst: npt.NDArray[np.bool_],
) -> StallRows:
    cause, host = spells.cause, spells.host
    launching = burst & np.isin(cause, [CAUSE_CODE[name] for name in LAUNCHING])
    lost = _slow_only(activity, spells) & ~launching
    paid = (payer >= 0) & lost
    # A long delay, and launches that could not have kept up anyway, are causes enough; what owes is another one, but
    # not where it would have to go together with a third.
    second = (payer >= 0) & ~lost & (besides != WITH_ANOTHER)
    reason = np.where(paid & (besides == WITH_ANOTHER), TWICE_LOST, spells.reason)
    reason = np.where(paid & (besides == WITH_WAITS), TIED, reason)
    context = np.append(activity.causes.context, -1)[host]
    own = np.where(context >= 0, context, host)
    given_back = np.append(gave_back(activity.timeline), -1)
    own = _made_up_for(own, cause, given_back)
    debt = np.where(payer >= 0, payer, len(owed))
    owes = np.append(owed.cause, -1)[debt]
    owing_row = _made_up_for(np.append(owed.row, -1)[debt], owes, given_back)
    owing_ts, owing_end = np.append(owed.ts, 0)[debt], np.append(owed.end, 0)[debt]
    root = np.where(paid, owes, cause).astype(np.int8)
    guess = (cause == CAUSE_CODE["unknown"]) | (spells.reason == HELD_LONG)
    certain = np.where(guess, 0, np.where(paid | (host < 0) | (reason != NO_REASON), 1, 2))
    return StallRows(
        ts=spells.ts,
        end=spells.end,
        state=np.where(spells.gap >= 0, STALL, DATA_MOVEMENT).astype(np.int8),
        step=np.full(len(spells), -1, dtype=np.int64),
        cause=cause.astype(np.int8),
        root=root,
        co_cause=np.where(second, owes, -1).astype(np.int8),
        co_tied=second & (besides == WITH_WAITS),
        op=spells.op,
        host=host,
        root_row=np.where(paid, owing_row, own),
        root_ts=np.where(paid, owing_ts, spells.ts),
        root_end=np.where(paid, owing_end, spells.end),
        co_row=np.where(second, owing_row, -1),
        co_ts=np.where(second, owing_ts, spells.ts),
        co_end=np.where(second, owing_end, spells.end),
        confidence=certain.astype(np.int8),
        reason=reason.astype(np.int8),
    )


def _made_up_for(rows: Ints, cause: Codes, given_back: Ints) -> Ints:
    """The slices behind a cause; for a call that asks for memory the one that gave it back."""
    earlier = given_back[rows]
    return np.where((cause == CAUSE_CODE["allocation"]) & (earlier >= 0), earlier, rows)


def _cut_at_steps(recording: Recording, activity: RankActivity, device: DeviceActivity, rows: StallRows) -> StallRows:
    cut = device_steps(recording, activity.timeline.rank, device)
    if not len(cut) or not len(rows):
        return rows
    edges = np.concatenate([np.stack([cut.starts, cut.ends], axis=1).reshape(-1), rows.end.max(keepdims=True)])
    edges = np.concatenate([[min(int(rows.ts.min()), int(edges.min())) - 1], edges])
    inside = np.tile([-1, 1], len(cut))
    holds = np.where(inside > 0, np.repeat(np.arange(len(cut)), 2), -1)
    holds = np.append(holds, -1)
    keep = edges[1:] > edges[:-1]
    steps = Pieces(np.append(edges[:-1][keep], edges[-1]), holds[keep])
    owner, piece, starts, ends = steps.walk(rows.ts, rows.end)
    return replace(rows.take(owner), ts=starts, end=ends, step=steps.rows[piece])


def _merged(rows: StallRows) -> StallRows:
    """Neighbours of the same gap or copy with the same causes as one row, with the particulars of the longest."""
    if not len(rows):
        return rows
    same = rows.ts[1:] == rows.end[:-1]
    for name in ("state", "step", "cause", "root", "co_cause", "co_tied", "op", "reason"):
        values = getattr(rows, name)
        same &= values[1:] == values[:-1]
    begins = np.flatnonzero(np.concatenate([[True], ~same]))
    counts = np.diff(np.append(begins, len(rows)))
    longest = np.flatnonzero(rows.dur == np.repeat(np.maximum.reduceat(rows.dur, begins), counts))
    group = np.concatenate([[0], np.cumsum(~same)])[longest]
    chosen = longest[np.append(True, group[1:] != group[:-1])]  # of equally long ones the first
    ends = rows.end[begins + counts - 1]
    return replace(rows.take(chosen), ts=rows.ts[begins], end=ends)
