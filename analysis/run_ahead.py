"""What became of the host's head start: waits that cost nothing when they happen and starve the device later.

A host that runs ahead keeps the device's queue filled, and gaps in its own work are hidden behind that. A wait for the
device drains the queue without a gap; the device then starves in the small gaps that follow, which look like slow
dispatch. The ledger follows the head start: a wait of W ns (counted while the device was busy) is a debt of W; work
outside the framework that the device hid is a debt of what it hid, until the next wait, which would have come just the
same; a launch that blocked on a full queue shows that the head start was complete, so all debts are settled. What waits
owe adds up, since a host that never waited would be ahead by all of it, up to what a queue holds. Gaps in the host's
work are then paid from the newest debt first, and a debt pays until it is used up. A gap without a cause of its own has
the debt for its root; a long one with a cause of its own keeps that, and has the debt for a second sufficient cause.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE, Codes, blocking_copies
from .device_activity import DeviceActivity, RankActivity
from .host_activity import Pieces
from .timeline import Ints, Timeline

WAIT, HIDDEN, FULL = range(3)

LEAST_WAIT_NS = 20_000
"""A shorter wait takes no head start that matters: it is about what the call itself costs."""

FULL_QUEUE_NS = 150_000
"""A launch that takes this long while the device is busy waits for room in the queue."""

LONG_PYTHON_NS = 400_000
"""Unrecorded host time between ops from this length on is the user's own code; shorter, it is the framework's."""


PAYABLE = ("dispatch", "launch", "synchronization")
"""Causes that say only that the host was slow just then: a head start would have hidden them."""

HIDEABLE = ("input", "cpu_fallback", "compile", "allocation", "python", "gc", "io", "lock", "preempted")
"""Causes of their own, of time that a head start would have hidden as well."""

QUEUE_OPERATIONS = 1024
"""No host is further ahead than this many operations: about what the queues of drivers hold."""


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
        most: The longest head start that was possible then: the device time of ``QUEUE_OPERATIONS`` operations, ns.
    """

    kind: Codes
    cause: Codes
    amount: Ints
    row: Ints
    ts: Ints
    end: Ints
    most: Ints

    def __len__(self) -> int:
        return len(self.kind)


def debts(activity: RankActivity, device: DeviceActivity) -> Debts:
    """Everything that took or restored the head start over one device."""
    t, cause = activity.timeline, activity.causes.cause
    waits = _waits(t, device)
    waited = iv.covered(device.busy, t.ts[waits], t.end[waits])
    # A copy that holds its call and nothing else on the device is lost time of its own, and takes no head start.
    alone = iv.covered(device.exposed_movement, t.ts[waits], t.end[waits])
    waited -= np.where(activity.causes.blocking[waits], alone, 0)
    keep = waited > LEAST_WAIT_NS
    waits, waited = waits[keep], waited[keep]
    part_of_more = (activity.causes.context[waits] >= 0) | (cause[waits] == CAUSE_CODE["allocation"])
    wait_cause = np.where(part_of_more, cause[waits], np.int8(CAUSE_CODE["synchronization"]))
    parts = [
        (WAIT, wait_cause, waited, waits, t.ts[waits], t.end[waits]),
        _hidden_contexts(activity, device, waits, waited),
        _hidden_python(activity, device),
        _hidden_allocation(activity, device),
        _full_queues(t, device, waits),
    ]
    kind = np.concatenate([np.full(len(part[2]), part[0], dtype=np.int8) for part in parts])
    columns = [np.concatenate([np.asarray(part[i], dtype=np.int64) for part in parts]) for i in range(1, 6)]
    order = np.lexsort((kind, columns[4]))
    cause_, amount, row, ts, end = (column[order] for column in columns)
    return Debts(kind[order], cause_.astype(np.int8), amount, row, ts, end, _longest_head_start(t, device, end))


def _longest_head_start(t: Timeline, device: DeviceActivity, instants: Ints) -> Ints:
    work = np.concatenate([[0], np.cumsum(t.end[device.rows] - t.ts[device.rows])])
    at = np.searchsorted(t.ts[device.rows], instants)
    most: Ints = work[at] - work[np.maximum(at - QUEUE_OPERATIONS, 0)]
    return most


def _waits(t: Timeline, device: DeviceActivity) -> Ints:
    """Rows of the calls that returned only when the device had finished something."""
    on_host = np.isin(t.track, t.threads)
    waiting = t.is_category("synchronization") & on_host
    waiting[blocking_copies(t, device.rows)] = True
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


def _hidden_allocation(activity: RankActivity, device: DeviceActivity) -> _Part:
    """Calls that take memory from the driver or give it back, where they lasted while the device was busy."""
    t, causes = activity.timeline, activity.causes
    own = (causes.cause == CAUSE_CODE["allocation"]) & (causes.context < 0) & t.is_category("allocation")
    rows = np.flatnonzero(own & t.is_on([*activity.host.threads.training, activity.host.threads.main]))
    hidden = iv.covered(device.busy, t.ts[rows], t.end[rows])
    rows, hidden = rows[hidden > LEAST_WAIT_NS], hidden[hidden > LEAST_WAIT_NS]
    return HIDDEN, causes.cause[rows], hidden, rows, t.ts[rows], t.end[rows]


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
    own = ~activity.host.in_framework(starts + (ends - starts) // 2)
    starts, ends = starts[own], ends[own]
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


def payments(owed: Debts, positions: Ints, length: int, own: Pieces) -> Pieces:
    """Which debt pays for each ns of an axis on which only time that a head start would have hidden counts.

    Args:
        owed: The debts in the order of time.
        positions: Ascending places on the axis from which each debt can pay.
        length: The axis's length.
        own: The code of the cause that each ns has of its own, -1 for none. For time with a cause only waits of another
            cause pay.

    Returns:
        Pieces over ``[0, length)`` whose rows are numbers of debts, -1 where nothing is owed.
    """
    ledger = _Ledger(owed)
    stops = np.append(positions[1:], length)[: len(positions)]
    first = np.searchsorted(own.edges, positions, side="right") - 1
    edges, causes = own.edges.tolist(), own.rows.tolist()
    for number, (at, stop, piece) in enumerate(zip(positions.tolist(), stops.tolist(), first.tolist(), strict=True)):
        ledger.enter(number)
        while at < stop:
            until = min(stop, edges[piece + 1])
            ledger.pay(at, until, causes[piece])
            at, piece = until, piece + 1
    return ledger.pieces(length)


class _Ledger:
    """The debts that are open, the newest last, and what they have paid for."""

    def __init__(self, owed: Debts) -> None:
        self._kind, self._cause = owed.kind.tolist(), owed.cause.tolist()
        self._amount, self._most = owed.amount.tolist(), owed.most.tolist()
        self._open: list[list[int]] = []
        self._edges, self._holders = [0], [-1]

    def enter(self, number: int) -> None:
        """A debt, or what settles others, happens."""
        kind = self._kind[number]
        if kind == FULL:
            self._open.clear()
        elif kind == WAIT:
            kept = self._cause[number]
            self._open = [debt for debt in self._open if self._kind[debt[0]] == WAIT or self._cause[debt[0]] == kept]
        if self._amount[number] > 0:
            self._open.append([number, self._amount[number]])
        beyond = sum(left for _, left in self._open) - self._most[number] if kind == WAIT else 0
        while beyond > 0 and len(self._open) > 1:
            dropped = min(beyond, self._open[0][1])
            self._open[0][1] -= dropped
            beyond -= dropped
            if not self._open[0][1]:
                del self._open[0]

    def pay(self, at: int, until: int, own: int) -> None:
        """Pays for ``[at, until)`` of the axis, which has the cause ``own`` of its own."""
        place = len(self._open) - 1
        while at < until:
            while place >= 0 and not self._pays(self._open[place][0], own):
                place -= 1
            holder, left = self._open[place] if place >= 0 else (-1, until - at)
            paid = min(left, until - at)
            self._edges.append(at)
            self._holders.append(holder)
            at += paid
            if place >= 0:
                self._open[place][1] = left - paid
                if paid == left:
                    del self._open[place]
                    place -= 1

    def _pays(self, number: int, own: int) -> bool:
        """Whether a debt pays for time with the cause ``own``: nothing excuses more of the same."""
        return own < 0 or self._cause[number] != own

    def pieces(self, length: int) -> Pieces:
        """Who paid for each ns of ``[0, length)``."""
        rows = np.array(self._holders, dtype=np.int64)
        ends = np.array([*self._edges, length], dtype=np.int64)
        keep = ends[1:] > ends[:-1]
        return Pieces(np.append(ends[:-1][keep], length), rows[keep])
