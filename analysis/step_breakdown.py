"""What the time of each step is made of, exactly.

Every nanosecond of a window has one state: compute, else communication, else data movement, else stall. The four add
up to the window to the nanosecond, per device and step and over the whole recording.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from . import intervals as iv
from .device_activity import DeviceActivity, all_devices, rank_activity
from .steps import STEADY, StepCut, device_steps
from .timeline import COMMUNICATION, COMPUTE, DATA_MOVEMENT, Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

STATE_COLUMNS = ("compute_ns", "communication_ns", "data_movement_ns", "stall_ns")
"""The columns that add up to ``dur``."""

_COLUMNS = (
    "rank", "device_type", "device_index", "step", "phase", "basis", "ts", "dur", *STATE_COLUMNS, "busy_ns",
    "communication_total_ns", "communication_overlapped_ns", "data_movement_total_ns", "data_movement_overlapped_ns",
)  # fmt: skip


def step_breakdown(
    recording: Recording, *, ranks: tuple[int, ...] | None = None, window: tuple[int, int] | None = None
) -> pd.DataFrame:
    """The states of every step, and of the whole window, per rank and device.

    Args:
        recording: The recording.
        ranks: Which ranks; all if None.
        window: ``(start, end)`` in ns: only one row per device, for this window.

    Returns:
        A frame with the columns rank; device_type and device_index ("cpu" and NA where training threads stand in for a
        device, "all" and NA for all devices of a rank with several taken together); step (NA: the whole window, first
        to last operation); phase and basis of the step (see ``steps``; "" for a window); ts and dur of the window in
        ns; compute_ns, communication_ns (exposed), data_movement_ns (exposed) and stall_ns, which add up to dur;
        busy_ns (dur minus stall_ns); and for communication and data movement the whole time (``_total_ns``) and how
        much of it lay under something stronger (``_overlapped_ns``). Rows of a device: the whole window first, then
        its steps in the order of time. A rank that did nothing has no rows.
    """
    frames = []
    for rank in recording.ranks if ranks is None else ranks:
        activity = rank_activity(recording, rank)
        for device in activity.devices:
            cut = device_steps(recording, rank, device) if window is None else None
            frames.append(_of_device(device, window or device.window, cut))
        together = all_devices(activity)
        if together is not None and len(activity.devices) > 1:
            frames.append(_of_device(together, window or together.window, None))
    if not frames:
        return pd.DataFrame({name: [] for name in _COLUMNS}).astype(_types())
    return pd.concat(frames, ignore_index=True)


def mean_steady_step(breakdown: pd.DataFrame) -> pd.DataFrame:
    """The mean of each device's steady steps.

    Args:
        breakdown: As ``step_breakdown`` returns it.

    Returns:
        A row for each device that has steady steps: rank, device_type, device_index, steps (how many those are), dur
        and ``STATE_COLUMNS`` (means in ns, which add up to dur).
    """
    steady = breakdown[breakdown["step"].notna() & (breakdown["phase"] == STEADY)]
    groups = steady.groupby(["rank", "device_type", "device_index"], sort=False, dropna=False, observed=True)
    frame = groups[["dur", *STATE_COLUMNS]].mean()
    frame.insert(0, "steps", groups.size())
    return frame.reset_index()


def states_within(device: DeviceActivity, starts: Ints, ends: Ints) -> dict[str, Ints]:
    """The columns of ``step_breakdown`` that are sums of time, for any windows of a device."""
    compute = iv.covered(device.states[COMPUTE], starts, ends)
    working = iv.covered(device.working, starts, ends)
    busy = iv.covered(device.busy, starts, ends)
    communication = iv.covered(device.states[COMMUNICATION], starts, ends)
    movement = iv.covered(device.states[DATA_MOVEMENT], starts, ends)
    return {
        "compute_ns": compute,
        "communication_ns": working - compute,
        "data_movement_ns": busy - working,
        "stall_ns": ends - starts - busy,
        "busy_ns": busy,
        "communication_total_ns": communication,
        "communication_overlapped_ns": communication - (working - compute),
        "data_movement_total_ns": movement,
        "data_movement_overlapped_ns": movement - (busy - working),
    }


def _of_device(device: DeviceActivity, window: tuple[int, int], cut: StepCut | None) -> pd.DataFrame:
    starts, ends = np.array([window[0]], dtype=np.int64), np.array([max(window)], dtype=np.int64)
    steps: list[int | None] = [None]
    phases, bases = [""], [""]
    if cut is not None:
        starts, ends = np.concatenate([starts, cut.starts]), np.concatenate([ends, cut.ends])
        steps += cut.numbers.tolist()
        phases, bases = phases + list(cut.phases), bases + [cut.basis] * len(cut)
    columns = {
        "rank": [device.rank] * len(starts),
        "device_type": [device.device_type] * len(starts),
        "device_index": pd.array([device.device_index] * len(starts), dtype="Int64"),
        "step": pd.array(steps, dtype="Int64"),
        "phase": phases,
        "basis": bases,
        "ts": starts,
        "dur": ends - starts,
    } | states_within(device, starts, ends)
    return pd.DataFrame(columns)[list(_COLUMNS)]


def _types() -> dict[str, str]:
    text = dict.fromkeys(("device_type", "phase", "basis"), "object")
    return dict.fromkeys(_COLUMNS, "int64") | {"device_index": "Int64", "step": "Int64"} | text
