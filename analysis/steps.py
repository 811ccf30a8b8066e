"""Where one step ends and the next begins, on the host and on each device.

A device runs behind the host: much of the work that a step launches runs while the host is in a later one. So a step is
cut on the device at ``b_k``, the earliest start among the operations launched in steps >= k, and lasts until
``b_(k+1)``; the last one lasts until its last operation ends. Windows are half-open and do not overlap.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from . import intervals as iv
from .causes import CAUSE_CODE
from .device_activity import DeviceActivity, RankActivity, rank_activity
from .timeline import Ints, Timeline, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

LAUNCHES_NEEDED_FRAC = 0.5
"""Below this share of device operations with a recorded launch, steps are cut where the host cut them."""

COMPILE_FRAC = 0.1
"""A leading step that compiles for more than this share of its host time is preparation."""

LEAST_ENDLESS = 4
"""From so many steps on that all prepare, preparing is what the program does in every step."""

STEADY = "execution"

_ONLY = "only_steps"

PAUSED = "paused"
"""The phase of a device's step in which the recorder held the program up, to end and export a segment."""

LEFT_OUT = "left out"
"""The phase of a steady step that a comparison leaves out, since not all of its runs have it."""


@dataclass(frozen=True, eq=False)
class StepCut:
    """The steps of one rank on one device, or on the host. Columns of equal length, in the order of time.

    Attributes:
        numbers: The steps' numbers.
        starts: Where each begins, ns.
        ends: Where each ends, ns; at most the next one's start.
        phases: preparation, warm_up, execution, paused (``PAUSED``), or left out (``LEFT_OUT``).
        basis: ``device``, or ``host`` where the steps are the host's.
        reason: Why a device's steps are the host's; "" otherwise.
    """

    numbers: Ints
    starts: Ints
    ends: Ints
    phases: tuple[str, ...]
    basis: str
    reason: str

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def steady(self) -> tuple[bool, ...]:
        """Which steps may be averaged: neither preparation nor warm-up, and not held up by the recorder."""
        return tuple(phase == STEADY for phase in self.phases)

    @property
    def cold(self) -> tuple[bool, ...]:
        """Which steps are preparation or warm-up."""
        return tuple(phase not in (STEADY, PAUSED, LEFT_OUT) for phase in self.phases)


def only_steps(recording: Recording, numbers: frozenset[int]) -> None:
    """Lets only steady steps of these numbers count in all that is worked out from here on; see ``same_steps``."""
    memoized(recording, _ONLY, lambda: numbers)


def host_steps(recording: Recording, rank: int) -> StepCut:
    """The steps of a rank as its host saw them; none where it marked none."""

    def build() -> StepCut:
        only: frozenset[int] | None = memoized(recording, _ONLY, lambda: None)
        cut = _host_steps(recording, rank)
        return cut if only is None else _without_others(cut, only)

    return memoized(recording, ("host_steps", rank), build)


def device_steps(recording: Recording, rank: int, device: DeviceActivity) -> StepCut:
    """The steps of a rank as a device ran them; those of the host where launches are not recorded."""
    key = ("device_steps", rank, device.device_type, device.device_index)
    return memoized(recording, key, lambda: _device_steps(rank_activity(recording, rank), recording, rank, device))


def steps(recording: Recording, *, ranks: tuple[int, ...] | None = None) -> pd.DataFrame:
    """Every step of every rank and device.

    Returns:
        One row per rank, device and step, with the columns rank, device_type, device_index (NA: the host's own window,
        or threads in a device's place), step, ts and dur (ns, the device's window), host_ts and host_dur (ns, the
        host's), phase (preparation, warm_up, execution, paused), basis (device, host), reason (why the host's windows
        are used). Where a rank did no work its host steps stand alone, with device_type "".
    """
    rows: list[dict[str, object]] = []
    for rank in recording.ranks if ranks is None else ranks:
        host = host_steps(recording, rank)
        devices: tuple[DeviceActivity | None, ...] = rank_activity(recording, rank).devices or (None,)
        for device in devices:
            cut = device_steps(recording, rank, device) if device else host
            rows.extend(
                {
                    "rank": rank,
                    "device_type": device.device_type if device else "",
                    "device_index": device.device_index if device else None,
                    "step": int(cut.numbers[i]),
                    "ts": int(cut.starts[i]),
                    "dur": int(cut.ends[i] - cut.starts[i]),
                    "host_ts": int(host.starts[i]),
                    "host_dur": int(host.ends[i] - host.starts[i]),
                    "phase": cut.phases[i],
                    "basis": cut.basis,
                    "reason": cut.reason,
                }
                for i in range(len(cut))
            )
    columns = ["rank", "device_type", "device_index", "step", "ts", "dur", "host_ts", "host_dur", "phase", "basis"]
    frame = pd.DataFrame(rows, columns=[*columns, "reason"])
    return frame.astype({"rank": "int64", "device_index": "Int64", "step": "int64", "ts": "int64", "dur": "int64"})


def _host_steps(recording: Recording, rank: int) -> StepCut:
    table = recording.table("steps", ranks=(rank,), columns=["rank", "step", "ts", "dur", "basis", "phase"])
    rows = [row for row in table.to_pylist() if row["basis"] == "host"]
    rows.sort(key=lambda row: (row["ts"], row["step"]))
    starts = np.array([row["ts"] for row in rows], dtype=np.int64)
    ends = np.array([row["ts"] + max(row["dur"], 0) for row in rows], dtype=np.int64)
    ends[:-1] = np.minimum(ends[:-1], starts[1:])
    numbers = np.array([row["step"] for row in rows], dtype=np.int64)
    phases = _with_an_end([row["phase"] or STEADY for row in rows])
    cut = StepCut(numbers, starts, ends, phases, "host", "")
    if all(row["phase"] is None for row in rows) and rows:
        cut = replace(cut, phases=_phases(rank_activity(recording, rank), starts, ends))
    return _without_pauses(cut, recorder_pauses(recording, rank))


def _with_an_end(phases: list[str]) -> tuple[str, ...]:
    """The phases as recorded; where preparation never ended (every step compiles), only the first step is that."""
    endless = len(phases) >= LEAST_ENDLESS and all(phase == "preparation" for phase in phases)
    return (phases[0], *([STEADY] * (len(phases) - 1))) if endless else tuple(phases)


def _phases(activity: RankActivity, starts: Ints, ends: Ints) -> tuple[str, ...]:
    """Leading steps that compile are preparation; where every step does, only the first is."""
    compiling = activity.causes.cause == CAUSE_CODE["compile"]
    t: Timeline = activity.timeline
    spent = iv.covered(iv.union(iv.intervals(t.ts[compiling], t.end[compiling])), starts, ends)
    cold = (spent > COMPILE_FRAC * (ends - starts)).tolist()
    leading = cold.index(False) if False in cold else min(len(cold) - 1, 1)
    return ("preparation",) * leading + (STEADY,) * (len(cold) - leading)


def _device_steps(activity: RankActivity, recording: Recording, rank: int, device: DeviceActivity) -> StepCut:
    host = host_steps(recording, rank)
    if not len(host):
        return replace(host, basis="device")
    t, rows = activity.timeline, device.rows
    if device.device is None:
        return replace(host, reason="no device: its steps are the host's")
    launched = rows[t.launch[rows] >= 0]
    if len(launched) < LAUNCHES_NEEDED_FRAC * len(rows) or not len(launched):
        known = f"{len(launched)} of {len(rows)} device operations have a recorded launch"
        return replace(host, reason=f"only {known}: steps are cut where the host cut them")
    step = np.searchsorted(host.starts, t.ts[t.launch[launched]], side="right") - 1
    step[t.ts[t.launch[launched]] >= host.ends[-1]] = len(host)
    starts, ends = _cut(t.ts[launched], t.end[launched], step, len(host))
    return _without_pauses(replace(host, starts=starts, ends=ends, basis="device"), recorder_pauses(recording, rank))


def recorder_pauses(recording: Recording, rank: int) -> Ints:
    """When the recorder held the program up to write what it had, as a union of intervals."""
    rows = recording.table("losses", ranks=(rank,), columns=["kind", "ts", "dur"]).to_pylist()
    known = [row for row in rows if row["kind"] == PAUSED and row["ts"] is not None and row["dur"] is not None]
    return iv.union(iv.intervals([row["ts"] for row in known], [row["ts"] + row["dur"] for row in known]))


def _without_pauses(cut: StepCut, pauses: Ints) -> StepCut:
    """Steady steps that a pause lies in are ``paused``; the host's end before it, the device's have no such gap.

    Where that would leave no steady step, they stay what they are.
    """
    held = iv.covered(pauses, cut.starts, cut.ends) > 0
    phases = tuple(
        PAUSED if paused and phase == STEADY else phase for phase, paused in zip(cut.phases, held, strict=True)
    )
    return replace(cut, phases=phases) if STEADY in phases else cut


def _without_others(cut: StepCut, numbers: frozenset[int]) -> StepCut:
    """Steady steps of other numbers are left out."""
    phases = tuple(
        LEFT_OUT if phase == STEADY and number not in numbers else phase
        for phase, number in zip(cut.phases, cut.numbers.tolist(), strict=True)
    )
    return replace(cut, phases=phases)


def _cut(ts: Ints, end: Ints, step: Ints, count: int) -> tuple[Ints, Ints]:
    """The starts and ends of ``count`` steps from operations and the step that launched each.

    Operations of a step below 0 (launched before the first) or of ``count`` (after the last) belong to none. A step
    that launches nothing, nor does a later one, is empty and stands at the end.
    """
    inside = (step >= 0) & (step < count)
    if not inside.any():
        nowhere = np.full(count, int(ts.min()), dtype=np.int64)
        return nowhere, nowhere
    far = np.iinfo(np.int64).max
    earliest = np.full(count, far, dtype=np.int64)
    np.minimum.at(earliest, step[inside], ts[inside])
    begins = np.minimum.accumulate(earliest[::-1])[::-1]
    last = int(step[inside].max())
    finish = max(int(end[step == last].max()), int(begins[last]))
    begins = np.minimum(begins, finish)
    return begins, np.append(begins[1:], finish)
