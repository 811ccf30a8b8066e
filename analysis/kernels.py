"""What ran on the devices of a rank, by kernel: how often, how long, how soon after its launch, and for which op."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from ..profiler.recording.categories import CATEGORIES
from ..profiler.recording.short_names import short_name
from .columns import nullable_ints, texts
from .device_activity import rank_activity
from .event_arguments import number_lists
from .group_statistics import distinct, group_statistics, group_sum, group_union, largest_part
from .nesting import Ints
from .ops import innermost_op
from .selection import Window, device_selection
from .timeline import STATES, Timeline, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

KernelKey = Literal["name", "name+grid"]


def kernels(
    recording: Recording,
    *,
    rank: int | None = None,
    step: int | None = None,
    window: Window | None = None,
    by: KernelKey = "name",
) -> pd.DataFrame:
    """The work of a rank's devices, by name, most time first.

    Work belongs to the selection if it starts in it, and then counts as a whole. Every statistic is over the single
    pieces of work, never over sums of them.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        step: One step, as each device ran it.
        window: ``(start, end)`` in ns; the steady steps by default.
        by: What makes a row: the full name, or the name with the grid and block it was launched with.

    Returns:
        One row a kernel, collective, copy or memset: name, short_name (the readable form; the name itself where that is
        readable), grid (grid and block; null unless grouped by it), category, state (compute, communication or
        data_movement), count, total_ns (sum), union_ns (time in which at least one of them ran), busy_frac (union_ns
        over the time in which the devices did anything), mean_ns, p50_ns, p99_ns, min_ns, max_ns, streams (how many),
        launch_delay_p50_ns, launch_delay_p99_ns and launch_delay_max_ns (start minus the end of the launching call, not
        clipped; null without launches), early_count (those that start before that call ends; their delay is negative),
        without_launch_count (no launching call in the trace), op (the op that launched most of its time) and op_ns
        (that time). ``attrs``: selection (what it is about, in words), steps, busy_ns.
    """
    rank = recording.ranks[0] if rank is None else rank
    t = timeline(recording, rank)
    rows, device, attributes = _selected(recording, t, step, window)
    grids, grid = number_lists(recording, t, "grid", "block") if by == "name+grid" else ([], np.full(len(t), -1))
    groups, group = distinct(t.name[rows], t.category[rows], grid[rows])
    count = len(groups[0])
    busy_ns = int(group_union(device, t.ts[rows], t.end[rows], int(device.max(initial=-1)) + 1).sum())
    names = [t.names[code] for code in groups[0].tolist()]
    identity = {
        "name": texts(names, np.arange(count)),
        "short_name": texts([short_name(name) or name for name in names], np.arange(count)),
        "grid": texts(grids, groups[2]),
        "category": texts(CATEGORIES, groups[1]),
    }
    parts = [
        pd.DataFrame(identity),
        _durations(t, rows, group, device, count),
        _launches(recording, t, rows, group, count),
    ]
    frame = pd.concat(parts, axis=1)
    frame.insert(list(frame.columns).index("union_ns") + 1, "busy_frac", frame["union_ns"] / max(busy_ns, 1))
    order = ["total_ns", "name", "category", "grid"]
    frame = frame.sort_values(order, ascending=[False, True, True, True], ignore_index=True)
    frame.attrs |= attributes | {"busy_ns": busy_ns}
    return frame


def _durations(t: Timeline, rows: Ints, group: Ints, device: Ints, count: int) -> pd.DataFrame:
    """The columns about time, in the order of the groups."""
    stats = group_statistics(group, t.dur[rows], count)
    state = np.full(count, -1, dtype=np.int64)
    state[group] = t.state[rows]
    return pd.DataFrame(
        {
            "state": texts(STATES, state),
            "count": stats.count,
            "total_ns": stats.total,
            "union_ns": _union_over_devices(t, rows, group, device, count),
            "mean_ns": stats.mean,
            "p50_ns": stats.p50,
            "p99_ns": stats.p99,
            "min_ns": stats.low,
            "max_ns": stats.high,
            "streams": _streams(group, t.track[rows].astype(np.int64), count),
        }
    )


def _selected(
    recording: Recording, t: Timeline, step: int | None, window: Window | None
) -> tuple[Ints, Ints, dict[str, object]]:
    """The rows of the chosen device work, the number of the device of each, and what was chosen."""
    rows, devices = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    attributes: dict[str, object] = {"selection": "the whole recording: no device did any work", "steps": 0}
    for number, device in enumerate(rank_activity(recording, t.rank).devices):
        if device.device is None:
            continue
        selection = device_selection(recording, t.rank, device, step=step, window=window)
        mine = device.rows[selection.holds(t.ts[device.rows])].astype(np.int64)
        rows.append(mine)
        devices.append(np.full(len(mine), number, dtype=np.int64))
        attributes = {"selection": selection.text, "steps": selection.steps}
    return np.concatenate(rows), np.concatenate(devices), attributes


def _union_over_devices(t: Timeline, rows: Ints, group: Ints, device: Ints, count: int) -> Ints:
    """Per group the time in which at least one of its pieces ran, summed over the devices."""
    devices = int(device.max(initial=0)) + 1
    union = group_union(group * devices + device, t.ts[rows], t.end[rows], count * devices)
    summed: Ints = union.reshape(count, devices).sum(axis=1)
    return summed


def _streams(group: Ints, track: Ints, count: int) -> Ints:
    (owner, _), _ = distinct(group, track)
    return np.bincount(owner, minlength=count).astype(np.int64)


def _launches(recording: Recording, t: Timeline, rows: Ints, group: Ints, count: int) -> pd.DataFrame:
    """The columns about launches, in the order of the groups."""
    launch = t.launch[rows].astype(np.int64)
    launched = launch >= 0
    of_launched = np.where(launched, group, -1)
    delay = np.where(launched, t.ts[rows] - t.end[launch], 0) if len(rows) else rows
    stats = group_statistics(of_launched, delay, count)
    some = stats.count > 0
    op = np.append(innermost_op(recording, t.rank), -1)[launch]
    op_name = np.append(t.name, -1)[op].astype(np.int64)
    top = largest_part(group, op_name, t.dur[rows], count)
    mine = op_name == top[group]
    return pd.DataFrame(
        {
            "launch_delay_p50_ns": nullable_ints(stats.p50, some),
            "launch_delay_p99_ns": nullable_ints(stats.p99, some),
            "launch_delay_max_ns": nullable_ints(stats.high, some),
            "early_count": group_sum(of_launched, (delay < 0).astype(np.int64), count),
            "without_launch_count": group_sum(group, (~launched).astype(np.int64), count),
            "op": texts(t.names, top),
            "op_ns": nullable_ints(group_sum(np.where(mine, group, -1), t.dur[rows], count), top >= 0),
        }
    )
