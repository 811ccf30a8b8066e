"""Why each device waited, by root cause and line: what it would give back, on what evidence, and what to try."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from ..profiler.recording.short_names import short_name
from .device_activity import DeviceActivity, rank_activity
from .finding_texts import wording
from .spells import ONLY_TOGETHER, REASONS
from .stall_claims import NOT_A_FINDING, PlacedClaims, gives_back, placed_claims, second_cause
from .stall_rows import CONFIDENCE, StallRows
from .stalls import Window, stalls_of_device
from .steps import device_steps
from .timeline import DATA_MOVEMENT, Ints, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_CASES = 3


@dataclass(frozen=True, slots=True)
class Named:
    """Something that most of a group's time has in common: its name, how many pieces have it, and their time [ns]."""

    name: str
    count: int
    dur: int


@dataclass(frozen=True, slots=True)
class StallReason:
    """All stalls and exposed copies of one device with the same root cause and line.

    Attributes:
        rank: The rank.
        device_type: The device, as in ``stalls``.
        device_index: The device, as in ``stalls``.
        kind: What a finding about it is called: the root cause, or launch_bound (dispatch and launch together),
            held, between_ops, pageable_copy.
        file: The line; None where it is not known, or where no single line is to blame.
        line: Its number.
        function: Its function.
        line_source: As in ``stalls``.
        dur: The time that it would give back, ns: its own, and that of others whose second cause it is; of copies
            what fits beside the rest of the time.
        second_ns: How much of that is the others'.
        together_ns: How much more would come back only together with another delay, ns. The other fields leave that
            time out, unless all of the reason is like that.
        movement_ns: How much of it is exposed copies.
        steady_step_ns: The mean of it in a steady step; None where there is no steady step.
        count: Pieces of it.
        longest_ns: The longest of them.
        window_frac: The share of the chosen time.
        also: What else would do, by second or root cause, ``several_waits`` for waits that would have to go together;
            None where nothing would.
        host: The slice of the host that most of it was spent in; None where nothing of the host is recorded.
        later_ns: How much of it shows later than its root, in gaps that the lost head start would have hidden.
        ended_by: The operation that ended most of it.
        typical_ns: The median length of the operations that ended them; None where none did.
        slice_ids: Operations that ended the longest pieces, for ``stallscope why``.
        confidence: That of most of the time.
        reason: Why it is not certain; "" otherwise.
        advice: One thing to try; "" for the tail.
    """

    rank: int
    device_type: str
    device_index: int | None
    kind: str
    file: str | None
    line: int | None
    function: str | None
    line_source: str | None
    dur: int
    second_ns: int
    together_ns: int
    movement_ns: int
    steady_step_ns: int | None
    count: int
    longest_ns: int
    window_frac: float
    also: Named | None
    host: Named | None
    later_ns: int
    ended_by: Named | None
    typical_ns: int | None
    slice_ids: tuple[int, ...]
    confidence: str
    reason: str
    advice: str


def stall_reasons(
    recording: Recording,
    *,
    ranks: tuple[int, ...] | None = None,
    step: int | None = None,
    window: Window | None = None,
) -> list[StallReason]:
    """Why each device waited, the reason that would give back most first.

    The profiler's own pauses come last, however long: without it they are not there.

    Args:
        recording: The recording.
        ranks: As for ``stalls``.
        step: As for ``stalls``.
        window: As for ``stalls``.
    """
    found = [
        reason
        for rank in (recording.ranks if ranks is None else ranks)
        for device in rank_activity(recording, rank).devices
        for reason in _of_device(recording, device, step, window)
    ]
    return sorted(found, key=lambda reason: (reason.kind == "overhead", -reason.dur))


def _of_device(
    recording: Recording, device: DeviceActivity, step: int | None, window: Window | None
) -> Iterator[StallReason]:
    rows = stalls_of_device(recording, device.rank, device, step=step, window=window)
    whole = max(_length(recording, device, step, window), 1)
    for group in placed_claims(recording, device, rows).groups():
        yield _reason(recording, device, group, whole)


def _reason(recording: Recording, device: DeviceActivity, group: PlacedClaims, whole: int) -> StallReason:
    """The reason of a group of claims with the same kind and line."""
    t, (file, line, function, line_source) = rank_activity(recording, device.rank).timeline, group.location
    alone = ~np.isin(group.rows.reason, ONLY_TOGETHER)
    together, promises = int(group.rows.dur[~alone].sum()), bool(alone.any())
    group = group.take(alone) if promises else group
    mine, name = group.rows, group.name
    dur, (surest, why) = gives_back(device, name, int(mine.dur.sum()), whole) if promises else 0, _certainty(mine)
    advice = "" if name in NOT_A_FINDING else wording(name, on_device=device.device is not None).advice
    return StallReason(
        rank=device.rank, device_type=device.device_type, device_index=device.device_index, kind=name,
        file=file, line=line, function=function, line_source=line_source,
        dur=dur, second_ns=int(mine.dur[group.second].sum()), together_ns=together,
        movement_ns=int(mine.dur[mine.state == DATA_MOVEMENT].sum()),
        steady_step_ns=_per_steady_step(recording, device, name, mine) if promises else None, count=len(mine),
        longest_ns=int(mine.dur.max()), window_frac=dur / whole,
        also=_also(mine), host=_most(t, mine.root_row, mine.dur), later_ns=_later(mine, group.second),
        ended_by=_most(t, mine.op, mine.dur), typical_ns=_typical(t, mine.op),
        slice_ids=_cases(t, mine), confidence=surest, reason=why, advice=advice,
    )  # fmt: skip


def _length(recording: Recording, device: DeviceActivity, step: int | None, window: Window | None) -> int:
    """How long the chosen time is, ns."""
    if step is not None:
        cut = device_steps(recording, device.rank, device)
        return int((cut.ends - cut.starts)[cut.numbers == step].sum())
    start, end = window or device.window
    return end - start


def _per_steady_step(recording: Recording, device: DeviceActivity, kind: str, rows: StallRows) -> int | None:
    cut = device_steps(recording, device.rank, device)
    steady = np.array([*cut.steady, False], dtype=np.bool_)
    count = len(np.unique(rows.step[steady[rows.step]])) and int(steady.sum())
    whole = int((cut.ends - cut.starts)[steady[:-1]].sum())
    return gives_back(device, kind, int(rows.dur[steady[rows.step]].sum()), whole) // count if count else None


def _also(rows: StallRows) -> Named | None:
    """The other cause without which most of the time would be gone as well."""
    name, mine = second_cause(rows)
    return Named(name, int(mine.sum()), int(rows.dur[mine].sum())) if name else None


def _later(rows: StallRows, second: npt.NDArray[np.bool_]) -> int:
    """Time of rows that begin after what was behind them had ended."""
    return int(rows.dur[(rows.root_end <= rows.ts) & (rows.cause != rows.root) & ~second].sum())


def _most(t: Timeline, slices: Ints, dur: Ints) -> Named | None:
    """The name that most of the time has."""
    known = slices >= 0
    if not known.any():
        return None
    name = t.name[slices[known]]
    spent = np.bincount(name, weights=dur[known])
    most = int(spent.argmax())
    text = t.names[most]
    return Named(short_name(text) or text, int((name == most).sum()), int(dur[known][name == most].sum()))


def _typical(t: Timeline, slices: Ints) -> int | None:
    """The median length of slices, ns."""
    rows = slices[slices >= 0]
    return int(np.median(t.end[rows] - t.ts[rows])) if len(rows) else None


def _cases(t: Timeline, rows: StallRows) -> tuple[int, ...]:
    longest = np.argsort(-rows.dur, kind="stable")[:_CASES]
    ops = rows.op[longest]
    return tuple(dict.fromkeys(t.slice_id[ops[ops >= 0]].tolist()))


def _certainty(rows: StallRows) -> tuple[str, str]:
    """The confidence and the reason of most of the time."""
    sure = np.bincount(rows.confidence, weights=rows.dur, minlength=len(CONFIDENCE))
    why = np.bincount(rows.reason, weights=rows.dur, minlength=len(REASONS))
    return CONFIDENCE[int(sure.argmax())], REASONS[int(why.argmax())]
