"""Findings from stalls and exposed copies: grouped by root cause and line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .causes import CAUSE_CODE
from .device_activity import rank_activity
from .finding_candidates import Candidate, Scope
from .finding_texts import duration_text
from .spells import ONLY_TOGETHER, TIED
from .stall_claims import ALL_OVER, MOVEMENTS, NOT_A_FINDING, PlacedClaims, gives_back, placed_claims, second_cause
from .stall_rows import CONFIDENCE, StallRows, stall_rows
from .timeline import CATEGORY_CODE, DATA_MOVEMENT, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_CASES = 3
_FEW_STEPS = 4
_TYPICAL_FRAC = 0.25
_OWN_FRAC = 0.25


def stall_candidates(recording: Recording, scope: Scope) -> list[Candidate]:
    """What stalls and exposed copies of one device could give back, by kind and line, in no order."""
    rows = _within(stall_rows(recording, scope.rank, scope.device), scope)
    t = rank_activity(recording, scope.rank).timeline
    placed = placed_claims(recording, scope.device, rows)
    result = _several_waits(t, scope, placed.take(placed.rows.reason == TIED))
    # What comes back only if two delays go is promised by neither.
    for group in placed.take(~np.isin(placed.rows.reason, ONLY_TOGETHER)).groups():
        mine, name = group.rows, group.name
        if name in NOT_A_FINDING or (name in ALL_OVER and not _recurs(mine, scope)):
            continue
        if _is_hidden_work(recording, scope, group):
            continue
        dur, text = int(mine.dur.sum()), _evidence(t, scope, name, mine, group.second)
        dur = gives_back(scope.device, name, dur, scope.total_ns)
        result.append(Candidate(scope, name, "", dur, text, _cases(t, mine), _confidence(mine), *group.location))
    return result


def _is_hidden_work(recording: Recording, scope: Scope, group: PlacedClaims) -> bool:
    """Whether most of it has another cause first, and this one for work of the host that the device hid, no wait.

    The finding about the first cause says that it would be gone without this one as well.
    """
    dur, second = group.rows.dur, group.second
    if dur[~second].sum() >= _OWN_FRAC * dur.sum():
        return False
    activity = rank_activity(recording, scope.rank)
    t, rows = activity.timeline, group.rows.root_row[second]
    is_slice = rows >= 0
    rows = np.where(is_slice, rows, 0)
    allocates = t.category[rows] == CATEGORY_CODE["allocation"]
    is_wait = is_slice & ~allocates & (activity.causes.context[rows] != rows)
    return bool(dur[~second].sum() + dur[second][is_wait].sum() < _OWN_FRAC * dur.sum())


def _several_waits(t: Timeline, scope: Scope, tied: PlacedClaims) -> list[Candidate]:
    """What only several waits together would give back, beyond what each of them does: one candidate for all."""
    rows, line = tied.rows, tied.line
    if not len(rows):
        return []
    spent = np.bincount(line[line >= 0], weights=rows.dur[line >= 0], minlength=len(tied.places))
    most = [tied.places[at] for at in np.argsort(-spent, kind="stable")[:_CASES].tolist() if spent[at]]
    text = _evidence(t, scope, "several_waits", rows, tied.second)
    if most:
        named = ", ".join(f"{place.file.rsplit('/', 1)[-1]}:{place.line}" for place in most)
        text = f"{text[:-1]}; what the waits at {named} took, later ones at other places would have taken as well."
    dur = int(rows.dur.sum())
    return [Candidate(scope, "several_waits", "", dur, text, _cases(t, rows), _confidence(rows))]


def _recurs(rows: StallRows, scope: Scope) -> bool:
    """Whether a typical step loses something as well, at least a quarter of the mean: not one or two that were slow."""
    if scope.steps < _FEW_STEPS:
        return True
    step, member = np.unique(rows.step, return_inverse=True)
    lost = np.sort(np.bincount(member.reshape(-1), weights=rows.dur, minlength=len(step)))[::-1]
    middle = scope.steps // 2
    typical = float(lost[middle]) if middle < len(lost) else 0.0
    return typical >= _TYPICAL_FRAC * float(lost.sum()) / scope.steps


def _within(rows: StallRows, scope: Scope) -> StallRows:
    """The rows of the scope's windows."""
    parts = [rows.clipped(start, end) for start, end in _runs(scope)]
    keep = [part for part in parts if len(part)]
    if not keep:
        return rows.take(np.zeros(0, dtype=np.int64))
    return StallRows(
        *(np.concatenate([getattr(part, name) for part in keep]) for name in StallRows.__dataclass_fields__)
    )


def _runs(scope: Scope) -> list[tuple[int, int]]:
    """The windows, neighbours joined."""
    runs: list[tuple[int, int]] = []
    for start, end in zip(scope.starts.tolist(), scope.ends.tolist(), strict=True):
        if runs and runs[-1][1] == start:
            runs[-1] = (runs[-1][0], end)
        else:
            runs.append((start, end))
    return runs


def _evidence(t: Timeline, scope: Scope, kind: str, rows: StallRows, second: npt.NDArray[np.bool_]) -> str:
    """The numbers behind a candidate, as a sentence."""
    unit = f" per {scope.unit}" if scope.steps else ""
    dur, count = int(rows.dur.sum()), len(rows)
    movement = int(rows.dur[rows.state == DATA_MOVEMENT].sum())
    pieces = _per(count, scope)
    text = f"{duration_text(scope.per_unit(dur))}{unit} in {pieces} {'piece' if pieces == '1' else 'pieces'}{unit}"
    text += f", the longest {duration_text(int(rows.dur.max()))}"
    if movement and kind not in MOVEMENTS:
        text += f"; {duration_text(scope.per_unit(movement))} of it are copies"
    if (fits := gives_back(scope.device, kind, dur, scope.total_ns)) < dur:
        text += f"; only {duration_text(scope.per_unit(fits))} of it would fit beside the rest of the {scope.unit}"
    if kind in ALL_OVER:
        text += f"; {_operations(t, scope)}"
    if kind == "launch_bound" and (between := int(rows.dur[rows.cause == CAUSE_CODE["kernel_gap"]].sum())):
        text += f"; {duration_text(scope.per_unit(between))} of it between operations that were queued already"
    if int(rows.dur[rows.co_cause >= 0].sum()) * 2 > dur:
        other, _ = second_cause(rows)
        text += f"; most of it would also be gone without {'the waits' if other == 'several_waits' else other}"
        if int(rows.dur[second].sum()) * 2 > dur:
            text += ", its first cause, and is in the finding about that as well"
    later = int(rows.dur[(rows.cause != rows.root) & (rows.root != CAUSE_CODE["copy"]) & ~second].sum())
    if later * 2 > dur and kind not in ALL_OVER:
        text += "; it shows later, in gaps that the lost head start would have hidden"
    return text + "."


def _per(count: int, scope: Scope) -> str:
    each = count / max(scope.steps, 1)
    return f"{each:.0f}" if each >= 10 or each == int(each) else f"{each:.1f}"


def _operations(t: Timeline, scope: Scope) -> str:
    rows = scope.device.rows
    place = np.searchsorted(scope.starts, t.ts[rows], side="right") - 1
    rows = rows[(place >= 0) & (t.ts[rows] < scope.ends[np.maximum(place, 0)])]
    if not len(rows):
        return "no operation is recorded"
    typical = int(np.median(t.end[rows] - t.ts[rows]))
    unit = f" per {scope.unit}" if scope.steps else ""
    return f"{_per(len(rows), scope)} operations{unit}, half of them shorter than {duration_text(typical)}"


def _cases(t: Timeline, rows: StallRows) -> tuple[int, ...]:
    """Ids of the slices of the longest pieces: the root's, and the operation that ended it."""
    longest = np.argsort(-rows.dur, kind="stable")[:_CASES]
    pairs = np.stack([rows.root_row[longest], rows.op[longest]], axis=1).reshape(-1)
    return tuple(dict.fromkeys(t.slice_id[pairs[pairs >= 0]].tolist()))


def _confidence(rows: StallRows) -> str:
    """That of most of the time."""
    weights = np.bincount(rows.confidence, weights=rows.dur, minlength=len(CONFIDENCE))
    return CONFIDENCE[int(weights.argmax())]
