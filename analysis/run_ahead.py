"""What became of the host's head start: waits that cost nothing when they happen and starve the device later.

A host that runs ahead keeps the device's queue filled, and short gaps in its own work are hidden behind that. A wait
for the device drains the queue without a gap; the device then starves in the small gaps that follow, which look like
slow dispatch. The ledger follows the head start: a wait of W ns (counted while the device was busy) is a debt of W;
work outside the framework that the device hid is a debt of what it hid; a launch that blocked on a full queue shows
that the head start was complete, so all debts are settled. Gaps without a cause of their own are then paid from the
newest debt first, and a debt pays until it is used up.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE, Codes
from .device_activity import DeviceActivity, RankActivity
from .host_activity import Pieces
from .timeline import DATA_MOVEMENT, Ints, Timeline

WAIT, HIDDEN, FULL = range(3)

LEAST_WAIT_NS = 20_000
"""A shorter wait takes no head start that matters: it is about what the call itself costs."""

FULL_QUEUE_NS = 150_000
"""A launch that takes this long while the device is busy waits for room in the queue."""

LONG_PYTHON_NS = 400_000
"""Unrecorded host time between ops from this length on is the user's own code; shorter, it is the framework's."""


PAYABLE = ("dispatch", "launch", "synchronization")
"""Causes that say only that the host was slow just then: a head start would have hidden them."""


_Part = tuple[int, Codes, Ints, Ints, Ints, Ints]


@dataclass(frozen=True, eq=False)
class Debts:
    """What took the host's head start, in the order of time; columns of equal length.

    Attributes:
        kind: WAIT, HIDDEN or FULL.
        cause: Code of the cause.
        amount: The head start it took, ns.
        row: The slice that took it; -1 for unrecorded host time.
        ts: When that began, ns.
        end: When that ended, ns.
    """

    kind: Codes
    cause: Codes
    amount: Ints
    row: Ints
    ts: Ints
    end: Ints

    def __len__(self) -> int:
        return len(self.kind)


def debts(activity: RankActivity, device: DeviceActivity) -> Debts:
    """Everything that took or restored the head start over one device."""
    t, cause = activity.timeline, activity.causes.cause
    waits = _waits(t, device)
    waited = iv.covered(device.busy, t.ts[waits], t.end[waits])
    keep = waited > LEAST_WAIT_NS
    waits, waited = waits[keep], waited[keep]
    wait_cause = np.where(activity.causes.context[waits] >= 0, cause[waits], np.int8(CAUSE_CODE["synchronization"]))
    parts = [
        (WAIT, wait_cause, waited, waits, t.ts[waits], t.end[waits]),
        _hidden_contexts(activity, device, waits, waited),
        _hidden_python(activity, device),
        _full_queues(t, device, waits),
    ]
    kind = np.concatenate([np.full(len(part[2]), part[0], dtype=np.int8) for part in parts])
    columns = [np.concatenate([np.asarray(part[i], dtype=np.int64) for part in parts]) for i in range(1, 6)]
    order = np.lexsort((kind, columns[4]))
    cause_, amount, row, ts, end = (column[order] for column in columns)
    return Debts(kind[order], cause_.astype(np.int8), amount, row, ts, end)


def _waits(t: Timeline, device: DeviceActivity) -> Ints:
    """Rows of the calls that returned only when the device had finished something."""
    on_host = np.isin(t.track, t.threads)
    waiting = t.is_category("synchronization") & on_host
    copies = device.rows[(t.state[device.rows] == DATA_MOVEMENT) & (t.launch[device.rows] >= 0)]
    calls = t.launch[copies]
    # A copy from or to pageable memory holds its call until the copy is through.
    waiting[calls[t.end[calls] >= t.end[copies]]] = True
    return np.flatnonzero(waiting)


def _hidden_contexts(activity: RankActivity, device: DeviceActivity, waits: Ints, waited: Ints) -> _Part:
    """Work with a cause of its own (a fallback, a batch being loaded) while the device was busy, waits in it apart."""
    t, context = activity.timeline, activity.causes.context
    rows = np.flatnonzero(context == np.arange(len(t)))
    rows = rows[np.isin(t.track[rows], [*activity.host.threads.training, activity.host.threads.main])]
    inside = np.zeros(len(t), dtype=np.int64)
    has = context[waits] >= 0
    np.add.at(inside, context[waits[has]], waited[has])
    hidden = iv.covered(device.busy, t.ts[rows], t.end[rows]) - inside[rows]
    rows, hidden = rows[hidden > 0], hidden[hidden > 0]
    return HIDDEN, activity.causes.cause[rows], hidden, rows, t.ts[rows], t.end[rows]


def _hidden_python(activity: RankActivity, device: DeviceActivity) -> _Part:
    """Long unrecorded time of the training loop while the device was busy."""
    nothing = np.zeros(0, dtype=np.int64)
    main = activity.host.threads.main
    pieces = activity.host.token(main) if main >= 0 else Pieces(nothing, nothing)
    # The first and the last piece reach beyond what was recorded of the thread.
    long = (
        np.flatnonzero((pieces.rows == -1) & (np.diff(pieces.edges) > LONG_PYTHON_NS)) if len(pieces.rows) else nothing
    )
    long = long[(long > 0) & (long < len(pieces.rows) - 1)]
    starts, ends = pieces.edges[long], pieces.edges[long + 1]
    hidden = iv.covered(device.busy, starts, ends)
    keep = hidden > 0
    cause = np.full(int(keep.sum()), CAUSE_CODE["python"], dtype=np.int8)
    return HIDDEN, cause, hidden[keep], np.full(len(cause), -1, dtype=np.int64), starts[keep], ends[keep]


def _full_queues(t: Timeline, device: DeviceActivity, waits: Ints) -> _Part:
    """Launches that blocked because the queue was full."""
    calls = iv.rising(t.launch[device.rows].astype(np.int64))
    calls = calls[calls >= 0]
    calls = calls[~np.isin(calls, waits) & (t.end[calls] - t.ts[calls] > FULL_QUEUE_NS)]
    busy = iv.covered(device.busy, t.ts[calls], t.end[calls])
    calls = calls[busy * 10 > (t.end[calls] - t.ts[calls]) * 9]
    nothing = np.zeros(len(calls), dtype=np.int64)
    return FULL, nothing.astype(np.int8), nothing, calls, t.ts[calls], t.end[calls]


def payments(owed: Debts, positions: Ints, length: int) -> Pieces:
    """Which debt pays for each ns of an axis on which only time that can be paid for counts.

    Args:
        owed: The debts in the order of time.
        positions: Ascending places on the axis from which each debt can pay.
        length: The axis's length.

    Returns:
        Pieces over ``[0, length)`` whose rows are numbers of debts, -1 where nothing is owed.
    """
    edges, holders = [0], [-1]
    stack: list[list[int]] = []
    stops = np.append(positions[1:], length)[: len(positions)].tolist()
    for number, (kind, amount, at, stop) in enumerate(
        zip(owed.kind.tolist(), owed.amount.tolist(), positions.tolist(), stops, strict=True)
    ):
        if kind != HIDDEN:
            stack.clear()
        if amount > 0:
            stack.append([number, amount])
        while at < stop and stack:
            holder, left = stack[-1]
            paid = min(left, stop - at)
            edges.append(at)
            holders.append(holder)
            at += paid
            stack[-1][1] = left - paid
            if paid == left:
                stack.pop()
        if at < stop:
            edges.append(at)
            holders.append(-1)
    rows = np.array(holders, dtype=np.int64)
    ends = np.array([*edges, length], dtype=np.int64)
    keep = ends[1:] > ends[:-1]
    return Pieces(np.append(ends[:-1][keep], length), rows[keep])
