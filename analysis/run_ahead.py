"""What became of the host's head start: waits that cost nothing when they happen and starve the device later.

A host that runs ahead keeps the device's queue filled, and gaps in its own work are hidden behind that. A wait for the
device drains the queue without a gap; the device then starves in the small gaps that follow, which look like slow
dispatch. The ledger follows the head start: a wait of W ns (counted while the device was busy) is a debt of W; work
outside the framework that the device hid is a debt of what it hid, until the next wait, which would have come just the
same; a launch that blocked on a full queue shows that the head start was complete, so all debts are settled. What waits
owe adds up, since a host that never waited would be ahead by all of it, up to what a queue holds; but what a wait took
before one at another place comes back only if both go, since without it the host would have waited there. Gaps in the
host's work are then paid from the newest debt first, and a debt pays until it is used up. A gap without a cause of its
own has the debt for its root; a long one with a cause of its own keeps that, and has the debt for a second sufficient
cause.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_CODE, Codes
from .device_activity import DeviceActivity, RankActivity
from .executing_lines import executing_lines
from .host_activity import Pieces
from .interpreter import interpreter_waits
from .source_position import row_lines
from .timeline import DATA_MOVEMENT, Ints, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

WAIT, HIDDEN, FULL = range(3)

WITH_ANOTHER, WITH_WAITS = range(2)
"""What would have to go as well for lost time to come back: a delay of another kind, or waits at other places."""

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
        place: For a wait a number for the place in the program that waits; -1 where that is not known, and elsewhere.
    """

    kind: Codes
    cause: Codes
    amount: Ints
    row: Ints
    ts: Ints
    end: Ints
    most: Ints
    place: Ints

    def __len__(self) -> int:
        return len(self.kind)


def debts(recording: Recording, activity: RankActivity, device: DeviceActivity) -> Debts:
    """Everything that took or restored the head start over one device."""
    t, cause = activity.timeline, activity.causes.cause
    waits, waited = _waits(t, device)
    locked = interpreter_waits(recording, activity).spans
    part_of_more = (activity.causes.context[waits] >= 0) | (cause[waits] == CAUSE_CODE["allocation"])
    wait_cause = np.where(part_of_more, cause[waits], np.int8(CAUSE_CODE["synchronization"]))
    parts = [
        (WAIT, wait_cause, waited, waits, t.ts[waits], t.end[waits]),
        _hidden_contexts(activity, device, waits, waited),
        _hidden_python(activity, device, locked),
        _hidden_locks(device, locked),
        _hidden_allocation(activity, device),
        _full_queues(t, device, waits),
    ]
    kind = np.concatenate([np.full(len(part[2]), part[0], dtype=np.int8) for part in parts])
    columns = [np.concatenate([np.asarray(part[i], dtype=np.int64) for part in parts]) for i in range(1, 6)]
    order = np.lexsort((kind, columns[4]))
    cause_, amount, row, ts, end = (column[order] for column in columns)
    most, place = _longest_head_start(t, device, end), np.full(len(order), -1, dtype=np.int64)
    is_wait = kind[order] == WAIT
    if is_wait.any():
        place[is_wait] = _places(recording, activity, row[is_wait])
    return Debts(kind[order], cause_.astype(np.int8), amount, row, ts, end, most, place)


def _places(recording: Recording, activity: RankActivity, waits: Ints) -> Ints:
    """Which place in the program waits: a call in a function of the user's, where those are traced, else a line.

    All waits in a checkpoint, or while a tensor is printed, are at the place of that.
    """
    t, context = activity.timeline, activity.causes.context[waits]
    rows = np.where(context >= 0, context, waits)
    calls = executing_lines(recording, t.rank).calls
    function, call = calls.function[rows], calls.call[rows]
    line = row_lines(recording, t.rank).line[rows].astype(np.int64)
    names = np.append(t.name, -1)
    keys = np.stack([names[function], np.where(function >= 0, names[call], line)], axis=1)
    _, place = np.unique(keys, axis=0, return_inverse=True)
    return np.where((function >= 0) | (line >= 0), place.reshape(-1), -1)


def _longest_head_start(t: Timeline, device: DeviceActivity, instants: Ints) -> Ints:
    work = np.concatenate([[0], np.cumsum(t.end[device.rows] - t.ts[device.rows])])
    at = np.searchsorted(t.ts[device.rows], instants)
    most: Ints = work[at] - work[np.maximum(at - QUEUE_OPERATIONS, 0)]
    return most


def _waits(t: Timeline, device: DeviceActivity) -> tuple[Ints, Ints]:
    """Rows of the calls that returned only when the device had finished something, and the head start that they took.

    A wait that finds the device idle takes none, and yet is one: whoever comes earlier waits there.
    """
    waiting = t.is_category("synchronization") & np.isin(t.track, t.threads)
    copying = np.zeros(len(t), dtype=np.bool_)
    copies = device.rows[(t.state[device.rows] == DATA_MOVEMENT) & (t.launch[device.rows] >= 0)]
    calls = t.launch[copies]
    # A copy from or to pageable memory holds its call until the copy is through.
    copying[calls[t.end[calls] >= t.end[copies]]] = True
    rows = np.flatnonzero(waiting | copying)
    waited = iv.covered(device.busy, t.ts[rows], t.end[rows])
    idle = waiting[rows] & (iv.covered(device.busy, t.end[rows] - 1, t.end[rows]) == 0)
    # The time in which a copy holds its call and nothing else runs is lost as such, and takes no head start.
    alone = np.where(copying[rows], iv.covered(device.exposed_movement, t.ts[rows], t.end[rows]), 0)
    keep = (waited > LEAST_WAIT_NS) | idle
    return rows[keep], (waited - alone)[keep]


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


def _hidden_python(activity: RankActivity, device: DeviceActivity, locked: Ints) -> _Part:
    """Long unrecorded time of the training loop while the device was busy, but for waits for the interpreter."""
    nothing = np.zeros(0, dtype=np.int64)
    main = activity.host.threads.main
    pieces = activity.host.token(main) if main >= 0 else Pieces(nothing, nothing)
    # The first and the last piece reach beyond what was recorded of the thread.
    long = (
        np.flatnonzero((pieces.rows == -1) & (np.diff(pieces.edges) > LONG_PYTHON_NS)) if len(pieces.rows) else nothing
    )
    long = long[(long > 0) & (long < len(pieces.rows) - 1)]
    starts, ends = pieces.edges[long], pieces.edges[long + 1]
    own = ~activity.host.in_framework(starts + (ends - starts) // 2) & (iv.covered(locked, starts, ends) == 0)
    starts, ends = starts[own], ends[own]
    return _hidden_time(device, "python", starts, ends)


def _hidden_locks(device: DeviceActivity, locked: Ints) -> _Part:
    """Waits for the interpreter while the device was busy."""
    return _hidden_time(device, "lock", locked[:, 0], locked[:, 1])


def _hidden_time(device: DeviceActivity, cause: str, starts: Ints, ends: Ints) -> _Part:
    hidden = iv.covered(device.busy, starts, ends)
    keep = hidden > 0
    causes = np.full(int(keep.sum()), CAUSE_CODE[cause], dtype=np.int8)
    return HIDDEN, causes, hidden[keep], np.full(len(causes), -1, dtype=np.int64), starts[keep], ends[keep]


def _full_queues(t: Timeline, device: DeviceActivity, waits: Ints) -> _Part:
    """Launches that blocked because the queue was full."""
    calls = iv.rising(t.launch[device.rows].astype(np.int64))
    calls = calls[calls >= 0]
    calls = calls[~np.isin(calls, waits) & (t.end[calls] - t.ts[calls] > FULL_QUEUE_NS)]
    busy = iv.covered(device.busy, t.ts[calls], t.end[calls])
    calls = calls[busy * 10 > (t.end[calls] - t.ts[calls]) * 9]
    nothing = np.zeros(len(calls), dtype=np.int64)
    return FULL, nothing.astype(np.int8), nothing, calls, t.ts[calls], t.end[calls]


def payments(owed: Debts, positions: Ints, length: int, own: Pieces) -> tuple[Pieces, Pieces]:
    """Which debt pays for each ns of an axis on which only time that a head start would have hidden counts.

    Args:
        owed: The debts in the order of time.
        positions: Ascending places on the axis from which each debt can pay.
        length: The axis's length.
        own: The code of the cause that each ns has of its own, -1 for none. For time with a cause only debts of another
            cause pay.

    Returns:
        Pieces over ``[0, length)`` whose rows are numbers of debts, -1 where nothing is owed; and pieces whose rows say
        what would have to go together with what owes for the time to come back, -1 for nothing.
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


@dataclass(slots=True, eq=False)
class _Debt:
    """An open debt.

    Attributes:
        number: Which it is.
        left: What is left of it.
        alone: How much of that would come back without its cause alone: not what a delay hid that a later wait took
            over, nor what a later delay with a cause of its own would have taken.
        tied: How much would come back if later waits at other places went as well.
    """

    number: int
    left: int
    alone: int
    tied: int = 0

    def drop(self, amount: int) -> None:
        """Makes it smaller; what comes back alone stays as far as it can."""
        self.left -= amount
        self.alone = min(self.alone, self.left)
        self.tied = min(self.tied, self.left - self.alone)

    def pay(self, most: int, *, keep: bool) -> tuple[int, int]:
        """Pays, at most so much and at most what is alike of it; returns how much, and what would have to go as well.

        What comes back alone pays first, then what is tied. With ``keep`` only these are used up; what is left stays.
        """
        paid = min(most, self.alone or self.tied or self.left)
        besides = -1 if self.alone else WITH_WAITS if self.tied else WITH_ANOTHER
        if self.alone:
            self.alone -= paid
        elif self.tied:
            self.tied -= paid
        self.left -= 0 if keep else paid
        return paid, besides


class _Ledger:
    """The debts that are open, the newest last, and what they have paid for."""

    def __init__(self, owed: Debts) -> None:
        self._kind, self._cause = owed.kind.tolist(), owed.cause.tolist()
        self._amount, self._most, self._place = owed.amount.tolist(), owed.most.tolist(), owed.place.tolist()
        self._open: list[_Debt] = []
        self._edges, self._holders, self._besides = [0], [-1], [-1]

    def enter(self, number: int) -> None:
        """A debt, or what settles others, happens."""
        kind, amount = self._kind[number], self._amount[number]
        if kind == FULL:
            self._open.clear()
        taken_over = 0
        if kind == WAIT:
            taken_over = self._take_over(self._cause[number])
            self._tie(self._place[number])
        if amount + taken_over > 0:
            self._open.append(_Debt(number, amount + taken_over, amount))
        if kind == WAIT:
            self._forget(sum(debt.left for debt in self._open) - self._most[number], keep=amount)

    def _forget(self, beyond: int, *, keep: int) -> None:
        """Drops what no host could have been ahead by, the oldest first; the newest wait's own amount stays."""
        if beyond <= 0:
            return
        for debt in self._open:
            dropped = max(0, min(beyond, debt.left - (keep if debt is self._open[-1] else 0)))
            debt.drop(dropped)
            beyond -= dropped
        self._open = [debt for debt in self._open if debt.left]

    def _take_over(self, cause: int) -> int:
        """What a wait takes over of what others hid before it: without them it would have waited for so much longer."""
        taken = [self._kind[debt.number] == HIDDEN and self._cause[debt.number] != cause for debt in self._open]
        if not any(taken):
            return 0
        total = sum(debt.left for debt, is_taken in zip(self._open, taken, strict=True) if is_taken)
        self._open = [debt for debt, is_taken in zip(self._open, taken, strict=True) if not is_taken]
        return total

    def _tie(self, place: int) -> None:
        """What waits at other places took comes back only together with a later one: the host would wait there."""
        for debt in self._open if place >= 0 else ():
            if debt.alone and self._kind[debt.number] == WAIT and self._place[debt.number] not in (-1, place):
                debt.alone, debt.tied = 0, debt.alone + debt.tied

    def pay(self, at: int, until: int, own: int) -> None:
        """Pays for ``[at, until)`` of the axis, which has the cause ``own`` of its own.

        Time with a cause of its own uses up what comes back without the debts' causes: first what comes back without
        one of them alone, then what is tied. The debts stay: without the other cause they would pay for what follows.
        """
        if own < 0:
            while at < until and self._open:
                at = self._pay_from(self._open[-1], at, until, keep=False)
                if not self._open[-1].left:
                    self._open.pop()
        else:
            others = [debt for debt in reversed(self._open) if self._cause[debt.number] != own]
            for is_tied in (False, True):
                for debt in others:
                    if at < until and (debt.tied if is_tied else debt.alone):
                        at = self._pay_from(debt, at, until, keep=True)
        if at < until:
            self._note(at, -1, -1)

    def _pay_from(self, debt: _Debt, at: int, until: int, *, keep: bool) -> int:
        paid, besides = debt.pay(until - at, keep=keep)
        self._note(at, debt.number, besides)
        return at + paid

    def _note(self, at: int, holder: int, besides: int) -> None:
        self._edges.append(at)
        self._holders.append(holder)
        self._besides.append(besides)

    def pieces(self, length: int) -> tuple[Pieces, Pieces]:
        """Who paid for each ns of ``[0, length)``, and what would have to go as well."""
        ends = np.array([*self._edges, length], dtype=np.int64)
        keep = ends[1:] > ends[:-1]
        edges = np.append(ends[:-1][keep], length)
        holders, besides = (np.array(rows, dtype=np.int64)[keep] for rows in (self._holders, self._besides))
        return Pieces(edges, holders), Pieces(edges, besides)
