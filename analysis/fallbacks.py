"""Ops that ran on the CPU although their tensors were on the device.

PyTorch's CPU fallback leaves a mark in a trace: an ``aten::_to_cpu`` directly under the op, with copies to the host
before and copies back after. The CPU kernel itself is not recorded, its time is the op's self time. A composite op
falls back inside, so the op with the mark is named together with the outermost ``aten::`` op around it. Neither
``.item()`` nor ``.cpu()`` leaves the mark: they move data because the program said so. A backend whose fallback is
written in Python leaves no mark either; its own record of fallbacks, where a collector wrote one, is read as slices of
that category.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .columns import nullable_ints, texts
from .copies import direction_of
from .group_statistics import group_statistics, group_sum
from .nesting import Ints, Mask, above, nearest, outermost, sum_beneath
from .selection import Window, host_selection
from .self_time import self_time
from .slice_lines import slice_lines
from .timeline import COMPUTE, DATA_MOVEMENT, Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

MARK = "aten::_to_cpu"


def fallbacks(
    recording: Recording, *, rank: int | None = None, step: int | None = None, window: Window | None = None
) -> pd.DataFrame:
    """The ops that fell back to the CPU, most host time first.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        step: One step, as the host saw it.
        window: ``(start, end)`` in ns. By default the whole recording: a fallback is worth knowing wherever it is.

    Returns:
        One row an op, root op and call site: op, root_op (the outermost ``aten::`` op around it), count, host_ns (with
        everything inside, fallbacks inside fallbacks once), host_self_ns (the CPU kernel, which is not recorded as a
        slice, is in it), host_max_ns, copies (device copies launched inside), to_host_bytes and to_device_bytes (null:
        no copy says how much), file, line, function (of the call: the line that ran where the recording tells, else
        that of the function's ``def``; null where there is no stack). ``attrs["selection"]``
        says which part of the recording it is about.
    """
    rank = recording.ranks[0] if rank is None else rank
    everything = step is None and window is None
    selection = host_selection(recording, rank, step=step, window=window, everything=everything)
    t = timeline(recording, rank)
    rows = np.flatnonzero(fallback_rows(recording, rank) & selection.holds(t.ts))
    lines, line_of = slice_lines(recording, rank, rows)
    root = _roots(t)[rows]
    keys = np.stack([t.name[rows], t.name[root], line_of]).astype(np.int64)
    groups, group = np.unique(keys, axis=1, return_inverse=True)
    group, count = group.reshape(-1), groups.shape[1]
    self_ns = self_time(t.ts, t.end, t.parent)[rows]
    stats = group_statistics(group, t.dur[rows], count)
    outer = outermost(t.parent, t.depth, _marked(len(t), rows, group))[rows]
    copies = _copies(t)
    line = groups[2]
    number = np.array([*(known.line for known in lines), 0], dtype=np.int64)[line]
    said = group_sum(group, copies["known"][rows], count) > 0
    frame = pd.DataFrame(
        {
            "op": texts(t.names, groups[0]),
            "root_op": texts(t.names, groups[1]),
            "count": stats.count,
            "host_ns": group_sum(np.where(outer, group, -1), t.dur[rows], count),
            "host_self_ns": group_sum(group, self_ns, count),
            "host_max_ns": stats.high,
            "copies": group_sum(group, copies["copies"][rows], count),
            "to_host_bytes": nullable_ints(group_sum(group, copies["to_host"][rows], count), said),
            "to_device_bytes": nullable_ints(group_sum(group, copies["to_device"][rows], count), said),
            "file": texts([known.file for known in lines], line),
            "line": nullable_ints(number, line >= 0),
            "function": texts([known.function for known in lines], line),
        }
    )
    frame = frame.sort_values(["host_ns", "op", "root_op"], ascending=[False, True, True], ignore_index=True)
    frame.attrs["selection"] = selection.text
    return frame


def fallback_rows(recording: Recording, rank: int) -> Mask:
    """Which rows of a rank's timeline are ops that fell back to the CPU; worked out once per recording."""
    return memoized(recording, ("fallback_rows", rank), lambda: _fallback_rows(timeline(recording, rank)))


def _fallback_rows(t: Timeline) -> Mask:
    recorded = t.is_category("fallback") & ~_name_is(t, MARK)
    marks = np.flatnonzero(_name_is(t, MARK))
    if not len(marks):
        return recorded
    innermost = nearest(t.parent, t.is_category("op", "fallback"))
    marked = above(t.parent, innermost)[marks]
    found = np.zeros(len(t), dtype=np.bool_)
    found[marked[marked >= 0]] = True
    kernels = t.device_rows[(t.state[t.device_rows] == COMPUTE) & (t.launch[t.device_rows] >= 0)]
    launcher = innermost[t.launch[kernels]]
    found[launcher[launcher >= 0]] = False
    return np.logical_or(found, recorded)


def _name_is(t: Timeline, name: str) -> Mask:
    code = t.names.index(name) if name in t.names else -1
    return np.asarray(t.name == code, dtype=np.bool_)


def _roots(t: Timeline) -> Ints:
    """Per row the outermost ``aten::`` op at or above it; the row itself where there is none."""
    aten = np.array([name.startswith("aten::") for name in t.names], dtype=np.bool_)
    is_aten = aten[t.name] & t.is_category("op", "fallback") if len(t) else np.zeros(0, dtype=np.bool_)
    top = is_aten & (above(t.parent, nearest(t.parent, is_aten)) < 0)
    root = nearest(t.parent, top)
    return np.where(root >= 0, root, np.arange(len(t)))


def _marked(rows: int, chosen: Ints, group: Ints) -> Ints:
    code = np.full(rows, -1, dtype=np.int64)
    code[chosen] = group
    return code


def _copies(t: Timeline) -> dict[str, Ints]:
    """Per row what was copied by everything launched at or beneath it."""
    copies = t.device_rows[(t.state[t.device_rows] == DATA_MOVEMENT) & (t.launch[t.device_rows] >= 0)]
    to_host = np.array([direction_of(name) == "device_to_host" for name in t.names], dtype=np.bool_)
    known = t.bytes[copies] >= 0
    home = to_host[t.name[copies]] if len(copies) else known
    columns = {
        "copies": np.ones(len(copies), dtype=np.int64),
        "known": known.astype(np.int64),
        "to_host": np.where(known & home, t.bytes[copies], 0),
        "to_device": np.where(known & ~home, t.bytes[copies], 0),
    }
    result = {}
    for name, values in columns.items():
        at = np.zeros(len(t), dtype=np.int64)
        np.add.at(at, t.launch[copies], values)
        result[name] = sum_beneath(t.parent, t.depth, at)
    return result
