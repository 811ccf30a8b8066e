"""What the framework's ops cost: on the host, on the device, and in stalls that they were the cause of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from .columns import nullable_ints, texts
from .event_arguments import number_lists
from .fallbacks import fallback_rows
from .group_statistics import distinct, group_statistics, group_sum
from .nesting import Ints, Mask, nearest, outermost, sum_beneath
from .selection import Window, host_selection
from .self_time import self_time
from .timeline import Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

OpKey = Literal["name", "name+shape"]


def ops(
    recording: Recording,
    *,
    rank: int | None = None,
    step: int | None = None,
    window: Window | None = None,
    by: OpKey = "name",
    stalls: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """The ops of a rank, those first whose own kernels took longest.

    An op belongs to the selection if it starts in it; device work belongs to the op that launched it, whenever it ran.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        step: One step, as the host saw it.
        window: ``(start, end)`` in ns; the steady steps by default.
        by: What makes a row: the op's name, or its name with its input shapes.
        stalls: Rows of the table ``stalls``, for the column stall_ns; without it, that is null.

    Returns:
        One row an op: op, shape (null unless grouped by it, and where shapes were not recorded), count,
        host_total_ns (an op inside one of its own group once), host_self_ns (without everything inside),
        host_mean_ns, host_p50_ns, host_p99_ns and host_max_ns (of single calls, with everything inside),
        device_self_ns (sum of the device work for which it is the innermost op), device_total_ns (with that of the ops
        inside), launched_count (the number of those inside it included), stall_ns (of the stalls that it is the
        innermost op of), fallback_count (calls that ran on the CPU instead), fallback (whether there are any).
        ``attrs``: selection (what it is about, in words), steps, unattributed_device_ns: device work launched in the
        selection outside any op, or by no call that the trace holds (then counted by when it started).
    """
    rank = recording.ranks[0] if rank is None else rank
    t = timeline(recording, rank)
    selection = host_selection(recording, rank, step=step, window=window)
    inside, op = selection.holds(t.ts), innermost_op(recording, rank)
    rows = np.flatnonzero(op_rows(t) & inside)
    shapes, shape = number_lists(recording, t, "Input Dims") if by == "name+shape" else ([], np.full(len(t), -1))
    groups, group = distinct(t.name[rows], shape[rows])
    frame = _sums(recording, t, op, rows, group, len(groups[0]))
    frame["stall_ns"] = _stall_column(t, op, stalls, _spread(len(t), rows, group), len(frame))
    frame["fallback_count"] = group_sum(group, fallback_rows(recording, rank)[rows].astype(np.int64), len(frame))
    frame["fallback"] = frame["fallback_count"] > 0
    frame.insert(0, "op", texts(t.names, groups[0]))
    frame.insert(1, "shape", texts(shapes, groups[1]))
    order = ["device_self_ns", "host_self_ns", "op", "shape"]
    frame = frame.sort_values(order, ascending=[False, False, True, True], ignore_index=True)
    frame.attrs |= {"selection": selection.text, "steps": selection.steps}
    frame.attrs["unattributed_device_ns"] = _unattributed(t, op, inside)
    return frame


def op_rows(t: Timeline) -> Mask:
    """Which rows are ops: of category op, collective or fallback, on a host thread."""
    ops_there: Mask = t.is_category("op", "collective", "fallback") & t.is_on(t.threads)
    return ops_there


def innermost_op(recording: Recording, rank: int) -> Ints:
    """For every row of a rank's timeline the innermost op at or above it, -1 for none; worked out once."""
    t = timeline(recording, rank)
    return memoized(recording, ("innermost_op", rank), lambda: nearest(t.parent, op_rows(t)))


def _sums(recording: Recording, t: Timeline, op: Ints, rows: Ints, group: Ints, count: int) -> pd.DataFrame:
    """The columns of host and device time of the groups of op rows, in their order."""
    outer = outermost(t.parent, t.depth, _spread(len(t), rows, group))[rows]
    whole = np.where(outer, group, -1)
    device, launched = _device_time(recording, t)
    own = _self_times(recording, t)
    stats = group_statistics(group, t.dur[rows], count)
    return pd.DataFrame(
        {
            "count": stats.count,
            "host_total_ns": group_sum(whole, t.dur[rows], count),
            "host_self_ns": group_sum(group, own[rows], count),
            "host_mean_ns": stats.mean,
            "host_p50_ns": stats.p50,
            "host_p99_ns": stats.p99,
            "host_max_ns": stats.high,
            "device_self_ns": group_sum(group, _of_ops(op, device)[rows], count),
            "device_total_ns": group_sum(whole, sum_beneath(t.parent, t.depth, device)[rows], count),
            "launched_count": group_sum(whole, sum_beneath(t.parent, t.depth, launched)[rows], count),
        }
    )


def _device_time(recording: Recording, t: Timeline) -> tuple[Ints, Ints]:
    """Per row the sum of the device work that it launched itself, ns, and its number."""

    def build() -> tuple[Ints, Ints]:
        work = t.device_rows[t.launch[t.device_rows] >= 0]
        time, number = np.zeros(len(t), dtype=np.int64), np.zeros(len(t), dtype=np.int64)
        np.add.at(time, t.launch[work], t.dur[work])
        np.add.at(number, t.launch[work], 1)
        return time, number

    return memoized(recording, ("launched_time", t.rank), build)


def _self_times(recording: Recording, t: Timeline) -> Ints:
    return memoized(recording, ("self_times", t.rank), lambda: self_time(t.ts, t.end, t.parent))


def _of_ops(op: Ints, values: Ints) -> Ints:
    """Values of single rows summed up at the innermost op at or above each."""
    result = np.zeros(len(op), dtype=np.int64)
    some = np.flatnonzero((values != 0) & (op >= 0))
    np.add.at(result, op[some], values[some])
    return result


def _stall_column(t: Timeline, innermost: Ints, stalls: pd.DataFrame | None, group: Ints, count: int) -> pd.Series[int]:
    if stalls is None:
        return nullable_ints(np.zeros(count), np.zeros(count, dtype=np.bool_))
    mine = stalls[(stalls["rank"] == t.rank) & stalls["host_slice_id"].notna()]
    row = t.rows_of(mine["host_slice_id"].to_numpy(dtype=np.int64))
    op = np.append(innermost, -1)[row]
    sums = group_sum(np.append(group, -1)[op], mine["dur"].to_numpy(dtype=np.int64), count)
    return nullable_ints(sums, np.ones(count, dtype=np.bool_))


def _unattributed(t: Timeline, op: Ints, inside: Mask) -> int:
    work = t.device_rows
    launch = t.launch[work]
    no_op = np.append(op, -1)[launch] < 0
    counted = np.where(launch >= 0, inside[launch], inside[work]) if len(work) else no_op
    return int(t.dur[work][no_op & counted].sum())


def _spread(length: int, rows: Ints, group: Ints) -> Ints:
    """The group of every row of the timeline; -1 for rows that are not chosen."""
    result = np.full(length, -1, dtype=np.int64)
    result[rows] = group
    return result
