"""What each root cause could give back by itself: its own stalls, and those whose second sufficient cause it is.

A stall with two sufficient causes is gone without either, so it counts for both: what the causes give back alone may be
more than all stalls together.
"""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import numpy.typing as npt

from .causes import CAUSE_CODE, CAUSE_NAMES
from .copies import direction_of
from .device_activity import DeviceActivity
from .group_statistics import distinct
from .spells import HELD_LONG
from .stall_rows import LAUNCHING, StallRows
from .timeline import COMPUTE, DATA_MOVEMENT, Ints, Timeline

ALL_OVER = ("launch_bound", "between_ops", "kernel_gap", "held")
"""Kinds that many lines have a small share in: none of them is to blame, unless one has most of it."""

MOST_FRAC = 0.5
"""A line with this share of such a kind, or more, is to blame."""

NOT_A_FINDING = ("tail",)

MOVEMENTS = ("copy", "pageable_copy", "device_copy", "awaited_copy", "memset")
"""Kinds in which the device moves data itself: what is measured is the operation, and no wait for it."""

KINDS = (
    *CAUSE_NAMES, "launch_bound", "between_ops", "held", "pageable_copy", "device_copy", "awaited_copy", "memset",
)  # fmt: skip
"""What findings about stalls are called: by their root cause, in most cases."""


def claims(rows: StallRows) -> tuple[StallRows, npt.NDArray[np.bool_]]:
    """The rows, and again those with a second cause as if it were the root; and which of them are those."""
    second = np.flatnonzero(rows.co_cause >= 0)
    again = rows.take(second)
    again = replace(
        again, root=again.co_cause, root_row=again.co_row, root_ts=again.co_ts, root_end=again.co_end,
        co_cause=again.root, co_row=again.root_row, co_ts=again.root_ts, co_end=again.root_end,
    )  # fmt: skip
    both = StallRows(*(np.concatenate([getattr(rows, f.name), getattr(again, f.name)]) for f in fields(StallRows)))
    return both, np.arange(len(both)) >= len(rows)


def kinds_of(t: Timeline, device: DeviceActivity, rows: StallRows) -> Ints:
    """The kind of finding that each row belongs to, as an index into ``KINDS``."""
    kind = rows.root.astype(np.int64)
    launching = "launch_bound" if device.device is not None else "between_ops"
    kind[np.isin(kind, [CAUSE_CODE[name] for name in LAUNCHING])] = KINDS.index(launching)
    kind[(kind == CAUSE_CODE["kernel_gap"]) & (rows.reason == HELD_LONG)] = KINDS.index("held")
    plain = np.flatnonzero((rows.state == DATA_MOVEMENT) & (kind == CAUSE_CODE["copy"]) & (rows.op >= 0))
    for name in np.unique(t.name[rows.op[plain]]).tolist():
        special = _kind_of_copy(t.names[name])
        if special:
            kind[plain[t.name[rows.op[plain]] == name]] = KINDS.index(special)
    left = plain[kind[plain] == CAUSE_CODE["copy"]]
    kind[left[_aside(t, device)[t.track[rows.op[left]]]]] = KINDS.index("awaited_copy")
    return kind


def blamed(kind: Ints, line: Ints, dur: Ints) -> Ints:
    """The line of each row, without those of kinds that are all over and of which the line has no large share."""
    result = line.copy()
    for name in ALL_OVER:
        mine = np.flatnonzero(kind == KINDS.index(name))
        if not len(mine):
            continue
        _, member = distinct(line[mine])
        share = np.bincount(member, weights=dur[mine])
        most = int(share.argmax())
        keep = (member == most) & (share[most] >= MOST_FRAC * share.sum())
        result[mine[~keep]] = -1
    return result


def _kind_of_copy(name: str) -> str | None:
    """What is special about a copy of that name; None for nothing."""
    if "ageable" in name:
        return "pageable_copy"
    return {"device_to_device": "device_copy", "set": "memset"}.get(direction_of(name))


def _aside(t: Timeline, device: DeviceActivity) -> npt.NDArray[np.bool_]:
    """Per track whether it is a stream that never computes: copies there are meant to run beside something."""
    computes = np.bincount(t.track[device.rows[t.state[device.rows] == COMPUTE]], minlength=len(t.tracks)) > 0
    stream = np.array([track.kind == "stream" for track in t.tracks], dtype=np.bool_)
    return stream & ~computes
