"""Why one stall happened: the chain from the idle device back to the line of source, link by link, in words.

A stall is asked for by a slice (the operation that ended it, or the host's slice behind it), by an instant in it, or as
the largest there is. All rows of the same gap are told together: the largest decides what the chain is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..profiler.recording.errors import QueryError
from ..profiler.recording.short_names import short_name
from .causes import CAUSE_CODE, CAUSE_NAMES, CAUSES
from .dependencies import waited_for
from .device_activity import DeviceActivity, rank_activity
from .finding_texts import duration_text, wording
from .spells import HELD_LONG, REASONS
from .stall_claims import KINDS, NOT_A_FINDING, kinds_of
from .stall_lines import LINE_SOURCES, stall_lines
from .stall_rows import CONFIDENCE, StallRows, stall_rows
from .steps import device_steps
from .timeline import DATA_MOVEMENT, STATES, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

LATE_RETURN_NS = 100_000
"""A wait that ends later than this after the device woke the host late: the machine is busy, or the driver polls."""

_MOST_PARTS = 4
_HELD = (CAUSE_CODE["kernel_gap"], CAUSE_CODE["dependency"])


@dataclass(frozen=True, slots=True)
class Link:
    """One link of the chain.

    Attributes:
        role: device, host, root, second or line.
        text: What happened, as a sentence without its full stop.
        slice_id: The slice that it is about; None for unrecorded time.
        ts: When that began, ns; None where it is about no time.
        dur: How long it lasted, ns.
    """

    role: str
    text: str
    slice_id: int | None = None
    ts: int | None = None
    dur: int | None = None


@dataclass(frozen=True, slots=True)
class Chain:
    """One stall, explained.

    Attributes:
        rank: The rank.
        device_type: The device, as in ``stalls``.
        device_index: The device, as in ``stalls``.
        step: The step that the device was in; None outside of all steps.
        ts: When the device had nothing more to do, ns.
        dur: Until it had, ns.
        origin_ns: The start of the device's window: what offsets in texts count from.
        state: stall or data_movement.
        cause: What the host or the device did in most of that time.
        root_cause: Why the queue was empty.
        co_cause: A second cause without which the stall would also be gone; None for none.
        links: The chain, from the device back to the line.
        file: The line behind the root cause; None where not known.
        line: Its number.
        function: Its function.
        line_source: As in ``stalls``.
        evidence: Ids of the slices that the chain rests on.
        confidence: low, medium or high.
        reason: Why it is not known, or not certain; "" otherwise.
        same_count: How many pieces of the device's stalls have the same root cause and line, this one included.
        same_dur: How long they last together, ns.
        kind: What a finding about it is called: a key of ``finding_texts.WORDING``; None for what is none.
        advice: One thing to try; "" where there is nothing to do.
    """

    rank: int
    device_type: str
    device_index: int | None
    step: int | None
    ts: int
    dur: int
    origin_ns: int
    state: str
    cause: str
    root_cause: str
    co_cause: str | None
    links: tuple[Link, ...]
    file: str | None
    line: int | None
    function: str | None
    line_source: str | None
    evidence: tuple[int, ...]
    confidence: str
    reason: str
    same_count: int
    same_dur: int
    kind: str | None
    advice: str


@dataclass(frozen=True, eq=False)
class _Stall:
    """The rows of one gap or copy of one device; ``main`` is the largest of them."""

    recording: Recording
    device: DeviceActivity
    rows: StallRows
    first: int
    last: int
    main: int

    @property
    def t(self) -> Timeline:
        return rank_activity(self.recording, self.device.rank).timeline

    @property
    def ts(self) -> int:
        return int(self.rows.ts[self.first])

    @property
    def end(self) -> int:
        return int(self.rows.end[self.last])


def why_largest(recording: Recording, *, ranks: tuple[int, ...] | None = None) -> Chain:
    """The longest stall or exposed copy inside the devices' windows.

    Raises:
        QueryError: There is none.
    """
    found = [stall for device in _devices(recording, ranks) for stall in [_largest(recording, device)] if stall]
    if not found:
        raise QueryError("no device ever waited.", hint="`stallscope summary` says what the time went to instead.")
    return _chain(max(found, key=lambda stall: stall.end - stall.ts))


def why_at(recording: Recording, instant_ns: int, *, ranks: tuple[int, ...] | None = None) -> Chain:
    """The stall or exposed copy that holds an instant, the longest where several devices waited.

    Raises:
        QueryError: No device waited then.
    """
    found = []
    nearest: tuple[int, int] | None = None
    for device in _devices(recording, ranks):
        rows = stall_rows(recording, device.rank, device)
        place = int(np.searchsorted(rows.ts, instant_ns, side="right")) - 1
        if place >= 0 and rows.end[place] > instant_ns:
            found.append(_around(recording, device, rows, place))
        elif len(rows):
            other = min(max(place, 0), len(rows) - 1)
            for near in (other, min(other + 1, len(rows) - 1)):
                far = abs(int(rows.ts[near]) - instant_ns)
                one = (far, int(rows.ts[near] - device.window[0]))
                nearest = one if nearest is None else min(nearest, one)
    if not found:
        hint = f"The nearest stall begins at +{duration_text(nearest[1])}." if nearest else ""
        raise QueryError("no device waited at that time.", hint=hint)
    return _chain(max(found, key=lambda stall: stall.end - stall.ts))


def why_slice(recording: Recording, slice_id: int) -> Chain:
    """The stall that a slice ended or is behind: a device operation, or a host slice that made it late.

    Raises:
        QueryError: There is no such slice, or no stall has to do with it.
    """
    rank = slice_id >> 40
    if rank not in recording.ranks:
        raise QueryError(f"there is no slice {slice_id}.", hint="Ids are in `stallscope stalls --by none --json`.")
    t = rank_activity(recording, rank).timeline
    row = int(t.rows_of(np.array([slice_id], dtype=np.int64))[0])
    if row < 0:
        raise QueryError(f"there is no slice {slice_id}.", hint="Ids are in `stallscope stalls --by none --json`.")
    found = []
    for device in rank_activity(recording, rank).devices:
        rows = stall_rows(recording, rank, device)
        for column in (rows.op, rows.root_row, rows.host, rows.co_row):
            mine = np.flatnonzero(column == row)
            if len(mine):
                found.append(_around(recording, device, rows, int(mine[np.argmax(rows.dur[mine])])))
                break
    if not found:
        raise QueryError(
            f"no stall ended with {t.name_of(row)!r} (slice {slice_id}), and none was its fault.",
            hint="An operation that starts right behind its predecessor ends no stall.",
        )
    return _chain(max(found, key=lambda stall: stall.end - stall.ts))


def _devices(recording: Recording, ranks: tuple[int, ...] | None) -> list[DeviceActivity]:
    return [
        device
        for rank in (recording.ranks if ranks is None else ranks)
        for device in rank_activity(recording, rank).devices
    ]


def _largest(recording: Recording, device: DeviceActivity) -> _Stall | None:
    rows = stall_rows(recording, device.rank, device)
    inside = (rows.ts >= device.window[0]) & (rows.end <= device.window[1])
    if not inside.any():
        return None
    gap = np.concatenate([[0], np.cumsum(~_joined(rows))])[: len(rows)]
    total = np.bincount(gap[inside], weights=rows.dur[inside])
    mine = np.flatnonzero(gap == int(total.argmax()))
    return _around(recording, device, rows, int(mine[0]))


def _joined(rows: StallRows) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each row but the first belongs to the gap or copy of the one before it."""
    same = (rows.ts[1:] == rows.end[:-1]) & (rows.op[1:] == rows.op[:-1]) & (rows.state[1:] == rows.state[:-1])
    return np.asarray(same, dtype=np.bool_)


def _around(recording: Recording, device: DeviceActivity, rows: StallRows, row: int) -> _Stall:
    """The gap or copy that a row is a piece of."""
    joined = _joined(rows)
    first = last = row
    while first > 0 and joined[first - 1]:
        first -= 1
    while last < len(rows) - 1 and joined[last]:
        last += 1
    group = np.arange(first, last + 1)
    by_root = np.bincount(rows.root[group], weights=rows.dur[group], minlength=len(CAUSE_NAMES))
    chosen = group[rows.root[group] == by_root.argmax()]
    return _Stall(recording, device, rows, first, last, int(chosen[np.argmax(rows.dur[chosen])]))


def _chain(stall: _Stall) -> Chain:
    rows, device, main = stall.rows, stall.device, stall.main
    places, line, source = stall_lines(stall.recording, device.rank, rows)
    same = (rows.root == rows.root[main]) & (line == line[main])
    place = places[line[main]] if line[main] >= 0 else None
    cut = device_steps(stall.recording, device.rank, device)
    step, co_cause = int(rows.step[main]), int(rows.co_cause[main])
    kind = KINDS[int(kinds_of(stall.t, device, rows.take(np.array([main])))[0])]
    known = kind not in NOT_A_FINDING
    return Chain(
        rank=device.rank, device_type=device.device_type, device_index=device.device_index,
        step=int(cut.numbers[step]) if step >= 0 else None, ts=stall.ts, dur=stall.end - stall.ts,
        origin_ns=device.window[0], state=STATES[rows.state[main]],
        cause=CAUSE_NAMES[rows.cause[main]], root_cause=CAUSE_NAMES[rows.root[main]],
        co_cause=CAUSE_NAMES[co_cause] if co_cause >= 0 else None,
        links=tuple(_links(stall)),
        file=place.file if place else None, line=(place.line or None) if place else None,
        function=place.function if place else None, line_source=LINE_SOURCES[source[main]] if place else None,
        evidence=_evidence(stall), confidence=CONFIDENCE[rows.confidence[main]], reason=REASONS[rows.reason[main]],
        same_count=int(same.sum()), same_dur=int(rows.dur[same].sum()),
        kind=kind if known else None,
        advice=wording(kind, on_device=device.device is not None).advice if known else "",
    )  # fmt: skip


def _evidence(stall: _Stall) -> tuple[int, ...]:
    rows, t, main = stall.rows, stall.t, stall.main
    op = int(rows.op[main])
    mine = [int(rows.root_row[main]), int(rows.host[main]), int(t.launch[op]) if op >= 0 else -1, op]
    return tuple(int(t.slice_id[row]) for row in dict.fromkeys(mine) if row >= 0)


def _links(stall: _Stall) -> list[Link]:
    rows, main = stall.rows, stall.main
    if rows.state[main] == DATA_MOVEMENT:
        links = _copy_links(stall)
    else:
        links = [_device_link(stall), *_next_link(stall)]
    links += _host_links(stall)
    if rows.cause[main] != rows.root[main]:
        links.append(_root_link(stall))
    if rows.co_cause[main] >= 0:
        links.append(_second_link(stall))
    return links


def _device_link(stall: _Stall) -> Link:
    t, device = stall.t, stall.device
    before = device.rows[t.end[device.rows] <= stall.ts]
    noun = "the device" if device.device is not None else "the training thread"
    text = f"{noun} had nothing to run for {duration_text(stall.end - stall.ts)}"
    if not len(before):
        return Link("device", f"{text}, from the beginning", None, stall.ts, stall.end - stall.ts)
    last = int(before[np.argmax(t.end[before])])
    text += f", after {_named(t, last)} had ended"
    return Link("device", text, int(t.slice_id[last]), int(t.ts[last]), int(t.end[last] - t.ts[last]))


def _copy_links(stall: _Stall) -> list[Link]:
    """The copy, and the call that asked for it."""
    t, op, dur = stall.t, int(stall.rows.op[stall.main]), stall.end - stall.ts
    name = _named(t, op) if op >= 0 else "copies"
    text = f"the device only copied for {duration_text(dur)}: {name}, with nothing beside it"
    links = [Link("device", text, int(t.slice_id[op]) if op >= 0 else None, stall.ts, dur)]
    call = int(t.launch[op]) if op >= 0 else -1
    if call >= 0:
        asked = f"{_named(t, call)} on {_thread(t, call)} asked for it"
        links.append(Link("host", asked, int(t.slice_id[call]), int(t.ts[call]), int(t.end[call] - t.ts[call])))
    return links


def _next_link(stall: _Stall) -> list[Link]:
    """What ended the stall, and whether its launch was late."""
    t, rows, main = stall.t, stall.rows, stall.main
    op = int(rows.op[main])
    if op < 0:
        return [Link("device", "nothing came after it", None, stall.end, 0)]
    name, launch = _named(t, op), int(t.launch[op])
    where = (int(t.slice_id[op]), int(t.ts[op]), int(t.end[op] - t.ts[op]))
    if stall.device.device is None:
        return [Link("device", f"{name} ended that", *where)]
    if launch < 0:
        return [Link("device", f"{name} ended that; its launch is not recorded", *where)]
    call, ahead = _named(t, launch), stall.ts - int(t.ts[launch])
    if ahead >= 0:
        held = f"{name} ended that; {call} had queued it {duration_text(ahead)} before, so the host was not late"
        return [Link("device", held, *where), *_held_link(stall, op)]
    late = f"{name} ended that; it was launched only {duration_text(-ahead)} after the device ran out of work"
    return [
        Link("device", late, *where),
        Link("host", f"{call} launched it from {_thread(t, launch)}", int(t.slice_id[launch]), int(t.ts[launch]),
             int(t.end[launch] - t.ts[launch])),
    ]  # fmt: skip


def _held_link(stall: _Stall, op: int) -> list[Link]:
    """What held an operation that was queued already."""
    t = stall.t
    other = int(waited_for(stall.recording, t, stall.device)[op])
    if other >= 0:
        text = f"it had to wait for {_named(t, other)} on {t.tracks[int(t.track[other])].name}"
        return [Link("device", text, int(t.slice_id[other]), int(t.ts[other]), int(t.end[other] - t.ts[other]))]
    if stall.rows.reason[stall.main] == HELD_LONG:
        return [Link("device", "what held it is not recorded")]
    return [Link("device", "that is the time from one queued operation to the next")]


def _host_links(stall: _Stall) -> list[Link]:
    """What the host did in the stall, the longest first; its launches and the device's own time apart."""
    t, rows = stall.t, stall.rows
    group = np.arange(stall.first, stall.last + 1)
    group = group[~np.isin(rows.cause[group], _HELD)]
    parts: dict[tuple[int, int], int] = {}
    for row in group.tolist():
        key = (int(rows.cause[row]), int(rows.host[row]))
        parts[key] = parts.get(key, 0) + int(rows.dur[row])
    by_cause: dict[int, tuple[int, int, int]] = {}
    for (cause, host), dur in parts.items():
        total, longest, chosen = by_cause.get(cause, (0, -1, -1))
        by_cause[cause] = (total + dur, *((dur, host) if dur > longest else (longest, chosen)))
    told = []
    for cause, (total, _, host) in sorted(by_cause.items(), key=lambda item: -item[1][0])[:_MOST_PARTS]:
        if CAUSE_NAMES[cause] in ("tail", "copy"):
            continue
        what = f"{duration_text(total)} of it: {CAUSE_NAMES[cause]} ({CAUSES[CAUSE_NAMES[cause]]})"
        if host < 0:
            told.append(Link("host", what))
            continue
        context = int(rank_activity(stall.recording, t.rank).causes.context[host])
        inner = f" ({_named(t, host)})" if context not in (-1, host) else ""
        host = context if context >= 0 else host
        what += f", in {_named(t, host)}{inner} on {_thread(t, host)}"
        late = int(t.end[host]) - stall.ts
        if CAUSE_NAMES[cause] == "synchronization" and late >= LATE_RETURN_NS:
            what += f"; it returned only {duration_text(late)} after the device had finished"
        told.append(Link("host", what, int(t.slice_id[host]), int(t.ts[host]), int(t.end[host] - t.ts[host])))
    return told


def _root_link(stall: _Stall) -> Link:
    """What emptied the queue before the stall."""
    t, rows, main = stall.t, stall.rows, stall.main
    ts, end, root = int(rows.root_ts[main]), int(rows.root_end[main]), int(rows.root_row[main])
    what = _named(t, root) if root >= 0 else "code for which nothing is recorded"
    name = CAUSE_NAMES[rows.root[main]]
    text = (
        f"the queue was empty because of {name}: {what} took {duration_text(end - ts)}, "
        f"{duration_text(max(stall.ts - end, 0))} before; ahead by that much the host would have hidden this"
    )
    return Link("root", text, int(t.slice_id[root]) if root >= 0 else None, ts, end - ts)


def _second_link(stall: _Stall) -> Link:
    t, rows, main = stall.t, stall.rows, stall.main
    name, row = CAUSE_NAMES[rows.co_cause[main]], int(rows.co_row[main])
    ts, end = int(rows.co_ts[main]), int(rows.co_end[main])
    what = f" ({_named(t, row)}, {duration_text(end - ts)})" if row >= 0 else ""
    text = f"without {name}{what} the stall would be gone as well: the host would have been far enough ahead"
    return Link("second", text, int(t.slice_id[row]) if row >= 0 else None, ts, end - ts)


def _named(t: Timeline, row: int) -> str:
    name = t.name_of(row)
    return short_name(name) or name


def _thread(t: Timeline, row: int) -> str:
    return t.tracks[int(t.track[row])].name or "a thread without a name"
