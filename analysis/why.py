"""Why one stall happened: the chain from the idle device back to the line of source, link by link, in words.

A stall is asked for by a slice (the operation that ended it, or the host's slice behind it), by an instant in it, or as
the largest there is. All rows of the same gap are told together: the largest decides what the chain is about.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..profiler.recording.errors import QueryError
from .causes import CAUSE_NAMES
from .device_activity import DeviceActivity, rank_activity
from .finding_texts import duration_text, wording
from .spells import ALL_REASONS
from .stall_claims import KINDS, NOT_A_FINDING, kinds_of
from .stall_lines import LINE_SOURCES, stall_lines
from .stall_rows import CONFIDENCE, StallRows, stall_rows
from .steps import device_steps
from .timeline import STATES
from .why_links import Link, StalledTime, links_of

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


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


def _largest(recording: Recording, device: DeviceActivity) -> StalledTime | None:
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


def _around(recording: Recording, device: DeviceActivity, rows: StallRows, row: int) -> StalledTime:
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
    return StalledTime(recording, device, rows, first, last, int(chosen[np.argmax(rows.dur[chosen])]))


def _chain(stall: StalledTime) -> Chain:
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
        links=tuple(links_of(stall)),
        file=place.file if place else None, line=(place.line or None) if place else None,
        function=place.function if place else None, line_source=LINE_SOURCES[source[main]] if place else None,
        evidence=_evidence(stall), confidence=CONFIDENCE[rows.confidence[main]], reason=ALL_REASONS[rows.told[main]],
        same_count=int(same.sum()), same_dur=int(rows.dur[same].sum()),
        kind=kind if known else None,
        advice=wording(kind, on_device=device.device is not None).advice if known else "",
    )  # fmt: skip


def _evidence(stall: StalledTime) -> tuple[int, ...]:
    rows, t, main = stall.rows, stall.t, stall.main
    op = int(rows.op[main])
    mine = [int(rows.root_row[main]), int(rows.host[main]), int(t.launch[op]) if op >= 0 else -1, op]
    return tuple(int(t.slice_id[row]) for row in dict.fromkeys(mine) if row >= 0)
