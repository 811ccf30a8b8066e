"""The links of the chain behind one stall, in words: the device, the host, what emptied the queue, a second cause."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..profiler.recording.short_names import short_name
from .causes import CAUSE_CODE, CAUSE_NAMES, CAUSES
from .dependencies import waited_for
from .device_activity import DeviceActivity, rank_activity
from .finding_texts import duration_text
from .interpreter import interpreter_waits
from .spells import HELD_LONG
from .stall_rows import StallRows
from .timeline import DATA_MOVEMENT, Ints, Timeline

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


@dataclass(frozen=True, eq=False)
class StalledTime:
    """The rows of one gap or copy of one device; ``main`` is the largest of them."""

    recording: Recording
    device: DeviceActivity
    rows: StallRows
    first: int
    last: int
    main: int

    @property
    def t(self) -> Timeline:
        """The slices of the device's rank."""
        return rank_activity(self.recording, self.device.rank).timeline

    @property
    def ts(self) -> int:
        """When it began, ns."""
        return int(self.rows.ts[self.first])

    @property
    def end(self) -> int:
        """When it ended, ns."""
        return int(self.rows.end[self.last])


def links_of(stall: StalledTime) -> list[Link]:
    """The chain, from the device back to what emptied its queue."""
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


def _device_link(stall: StalledTime) -> Link:
    t, device = stall.t, stall.device
    before = device.rows[t.end[device.rows] <= stall.ts]
    noun = "the device" if device.device is not None else "the training thread"
    text = f"{noun} had nothing to run for {duration_text(stall.end - stall.ts)}"
    if not len(before):
        return Link("device", f"{text}, from the beginning", None, stall.ts, stall.end - stall.ts)
    last = int(before[np.argmax(t.end[before])])
    text += f", after {_named(t, last)} had ended"
    return Link("device", text, int(t.slice_id[last]), int(t.ts[last]), int(t.end[last] - t.ts[last]))


def _copy_links(stall: StalledTime) -> list[Link]:
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


def _next_link(stall: StalledTime) -> list[Link]:
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


def _held_link(stall: StalledTime, op: int) -> list[Link]:
    """What held an operation that was queued already."""
    t = stall.t
    other = int(waited_for(stall.recording, t, stall.device)[op])
    if other >= 0:
        text = f"it had to wait for {_named(t, other)} on {t.tracks[int(t.track[other])].name}"
        return [Link("device", text, int(t.slice_id[other]), int(t.ts[other]), int(t.end[other] - t.ts[other]))]
    if stall.rows.reason[stall.main] == HELD_LONG:
        return [Link("device", "what held it is not recorded")]
    return [Link("device", "that is the time from one queued operation to the next")]


def _host_links(stall: StalledTime) -> list[Link]:
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
            told.append(Link("host", what + _meanwhile(stall, group, cause)))
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


def _meanwhile(stall: StalledTime, group: Ints, cause: int) -> str:
    """Which thread held the interpreter in the longest wait for it; "" for every other cause."""
    rows = stall.rows
    mine = group[rows.cause[group] == CAUSE_CODE["lock"]]
    if cause != CAUSE_CODE["lock"] or not len(mine):
        return ""
    longest = int(mine[np.argmax(rows.dur[mine])])
    waits = interpreter_waits(stall.recording, rank_activity(stall.recording, stall.device.rank))
    holder = waits.holder_at(int(rows.ts[longest] + rows.dur[longest] // 2))
    if holder < 0:
        return ""
    return f"; {stall.t.tracks[holder].name or 'another thread'} ran Python meanwhile and held the interpreter"


def _root_link(stall: StalledTime) -> Link:
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


def _second_link(stall: StalledTime) -> Link:
    t, rows, main = stall.t, stall.rows, stall.main
    name, row = CAUSE_NAMES[rows.co_cause[main]], int(rows.co_row[main])
    ts, end = int(rows.co_ts[main]), int(rows.co_end[main])
    what = f" ({_named(t, row)}, {duration_text(end - ts)})" if row >= 0 else ""
    others = " and the waits at other places" if rows.co_tied[main] else ""
    text = f"without {name}{what}{others} the stall would be gone as well: the host would have been far enough ahead"
    return Link("second", text, int(t.slice_id[row]) if row >= 0 else None, ts, end - ts)


def _named(t: Timeline, row: int) -> str:
    name = t.name_of(row)
    return short_name(name) or name


def _thread(t: Timeline, row: int) -> str:
    return t.tracks[int(t.track[row])].name or "a thread without a name"
