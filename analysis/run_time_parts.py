"""What the steady steps of a run were made of, device by device: states and root causes that add up exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .causes import CAUSE_NAMES
from .device_activity import DeviceActivity, rank_activity
from .group_statistics import group_sum
from .run_facts import LaneMeasures, StallPlace, TimePart, Unit
from .stall_lines import stall_lines
from .stall_rows import StallRows, stall_rows
from .step_breakdown import states_within
from .steps import PAUSED, device_steps
from .timeline import DATA_MOVEMENT, STALL, STATES, Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class MeasuredLanes:
    """The lanes of a run, their stalls by line, and its steps over all of them (see ``RunMeasures``)."""

    unit: Unit
    lanes: tuple[LaneMeasures, ...]
    places: tuple[StallPlace, ...]
    numbers: tuple[int, ...]
    steps_ns: tuple[int, ...]


Measured = tuple[LaneMeasures, StallRows]
Place = tuple[str, str, str | None, int | None, str | None]


def lanes(recording: Recording, ranks: tuple[int, ...]) -> MeasuredLanes:
    """Every device that ran steady steps; where none did, every device with its whole window as one step."""
    devices = [(rank, device) for rank in ranks for device in rank_activity(recording, rank).devices]
    steady = [_steady_lane(recording, *one) for one in devices]
    found = [lane for lane in steady if lane is not None]
    unit: Unit = "step" if found else "recording"
    if not found:
        found = [_whole_lane(recording, *one) for one in devices]
    sums: dict[Place, int] = {}
    for lane, rows in found:
        _add_places(recording, lane.rank, rows, sums)
    places = [StallPlace(*place, ns) for place, ns in sums.items()]
    places.sort(key=lambda one: (-one.ns, one.state, one.cause, one.file or "", one.line or 0))
    measured = tuple(lane for lane, _ in found)
    numbers, steps_ns = _over_lanes(measured)
    return MeasuredLanes(unit, measured, tuple(places), numbers, steps_ns)


def _steady_lane(recording: Recording, rank: int, device: DeviceActivity) -> Measured | None:
    """The steady steps in which the device did anything, with their stalls; None where there is none."""
    cut = device_steps(recording, rank, device)
    chosen = np.array(cut.steady, dtype=np.bool_) & (cut.ends > cut.starts)
    if not chosen.any():
        return None
    rows = stall_rows(recording, rank, device)
    rows = rows.take(np.append(chosen, False)[rows.step])
    lane = LaneMeasures(
        rank=rank,
        device_type=device.device_type,
        device_index=device.device_index,
        basis=cut.basis,
        numbers=tuple(cut.numbers[chosen].tolist()),
        steps_ns=tuple((cut.ends - cut.starts)[chosen].tolist()),
        paused=tuple(cut.numbers[[phase == PAUSED for phase in cut.phases]].tolist()),
        parts=_parts(device, cut.starts[chosen], cut.ends[chosen], rows),
    )
    return lane, rows


def _whole_lane(recording: Recording, rank: int, device: DeviceActivity) -> Measured:
    start, end = device.window
    rows = stall_rows(recording, rank, device).clipped(start, end)
    parts = _parts(device, np.array([start], dtype=np.int64), np.array([end], dtype=np.int64), rows)
    return LaneMeasures(rank, device.device_type, device.device_index, "", (0,), (end - start,), (), parts), rows


def _add_places(recording: Recording, rank: int, rows: StallRows, sums: dict[Place, int]) -> None:
    """Adds up stalls and exposed copies by state, root cause and line."""
    lines, line, _ = stall_lines(recording, rank, rows)
    keys = np.stack([rows.state.astype(np.int64), rows.root.astype(np.int64), line])
    groups, group = np.unique(keys, axis=1, return_inverse=True)
    totals = group_sum(group.reshape(-1), rows.dur, groups.shape[1])
    for (state, root, number), ns in zip(groups.T.tolist(), totals.tolist(), strict=True):
        known = lines[number] if number >= 0 else None
        at = (known.file or None, known.line or None, known.function or None) if known else (None, None, None)
        place = (STATES[state], CAUSE_NAMES[root], *at)
        if ns:
            sums[place] = sums.get(place, 0) + ns


def _parts(device: DeviceActivity, starts: Ints, ends: Ints, rows: StallRows) -> tuple[TimePart, ...]:
    """The states of the windows; stalls and exposed copies by root cause, which the rows of the windows tile."""
    states = states_within(device, starts, ends)
    parts = [TimePart(name, "", int(states[f"{name}_ns"].sum())) for name in ("compute", "communication")]
    for state in (DATA_MOVEMENT, STALL):
        mine = rows.state == state
        sums = np.zeros(len(CAUSE_NAMES), dtype=np.int64)
        np.add.at(sums, rows.root[mine], rows.dur[mine])
        parts += [TimePart(STATES[state], CAUSE_NAMES[code], int(sums[code])) for code in np.flatnonzero(sums).tolist()]
    return tuple(part for part in parts if part.ns)


def _over_lanes(found: Sequence[LaneMeasures]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The step numbers that every lane has, in the first one's order, and the mean of each over the lanes."""
    by_number = [dict(zip(lane.numbers, lane.steps_ns, strict=True)) for lane in found]
    numbers = [n for n in (found[0].numbers if found else ()) if all(n in steps for steps in by_number)]
    count = max(len(by_number), 1)
    means = [(2 * sum(steps[n] for steps in by_number) + count) // (2 * count) for n in numbers]
    return tuple(numbers), tuple(means)
