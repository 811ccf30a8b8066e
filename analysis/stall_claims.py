"""What each root cause could give back by itself: its own stalls, and those whose second sufficient cause it is.

A stall with two sufficient causes is gone without either, so it counts for both: what the causes give back alone may be
more than all stalls together. Where the second cause is one of several waits that would have to go together, its claim
is one for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .causes import CAUSE_CODE, CAUSE_NAMES, Codes
from .copies import direction_of
from .device_activity import DeviceActivity, rank_activity
from .group_statistics import distinct
from .source_position import SourceLine
from .spells import HELD_LONG, TIED
from .stall_lines import LINE_SOURCES, stall_lines
from .stall_rows import LAUNCHING, StallRows
from .timeline import COMPUTE, DATA_MOVEMENT, Ints, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

ALL_OVER = ("launch_bound", "between_ops", "kernel_gap", "held")
"""Kinds that many lines have a small share in: none of them is to blame, unless one has most of it."""

MOST_FRAC = 0.5
"""A line with this share of such a kind, or more, is to blame."""

NOT_A_FINDING = ("tail",)

MOVEMENTS = ("copy", "pageable_copy", "device_copy", "awaited_copy", "memset")
"""Kinds in which the device moves data itself: what is measured is the operation, and no wait for it."""

OVERLAPPABLE = ("copy", "awaited_copy")
"""Kinds of copies that stay when they are hidden: only as much of them as there is other time to hide behind."""

KINDS = (
    *CAUSE_NAMES, "launch_bound", "between_ops", "held", "pageable_copy", "device_copy", "awaited_copy", "memset",
    "several_waits",
)  # fmt: skip
"""What findings about stalls are called: by their root cause, in most cases."""


@dataclass(frozen=True, eq=False)
class PlacedClaims:
    """Claims as columns of equal length, those of the same kind and line together, and of them the second ones last.

    Attributes:
        rows: The rows of a device, and again those with a second cause as if it were the root.
        second: Which are those.
        kind: The kind of finding, as an index into ``KINDS``.
        line: The line to blame, as an index into ``places``; -1 for none.
        source: Index into ``stall_lines.LINE_SOURCES``.
        places: The lines.
    """

    rows: StallRows
    second: npt.NDArray[np.bool_]
    kind: Ints
    line: Ints
    source: Codes
    places: tuple[SourceLine, ...]

    def groups(self) -> Iterator[PlacedClaims]:
        """The claims of each kind and line, as views: there may be a thousand."""
        changes = np.flatnonzero((np.diff(self.kind) != 0) | (np.diff(self.line) != 0)) + 1
        edges = [0, *changes.tolist(), len(self.kind)]
        for start, end in pairwise(edges):
            if end > start:
                yield self.take(slice(start, end))

    def take(self, chosen: npt.NDArray[np.int64] | npt.NDArray[np.bool_] | slice) -> PlacedClaims:
        """Some of them."""
        return PlacedClaims(
            self.rows.take(chosen), self.second[chosen], self.kind[chosen], self.line[chosen], self.source[chosen],
            self.places,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The kind of a group."""
        return KINDS[int(self.kind[0])]

    @property
    def location(self) -> tuple[str | None, int | None, str | None, str | None]:
        """File, line and function to blame for a group, and what tells them; None for each that is not known."""
        if self.line[0] < 0:
            return None, None, None, None
        place = self.places[int(self.line[0])]
        return place.file, place.line or None, place.function, LINE_SOURCES[int(self.source[0])]


def placed_claims(recording: Recording, device: DeviceActivity, rows: StallRows) -> PlacedClaims:
    """The claims of rows of one device, with their kinds and the lines to blame."""
    rows, second = claims(rows)
    places, line, source = stall_lines(recording, device.rank, rows)
    t = rank_activity(recording, device.rank).timeline
    kind = with_gaps_between(kinds_of(t, device, rows), line, rows.dur)
    found = PlacedClaims(rows, second, kind, blamed(kind, line, rows.dur), source, places)
    return found.take(np.argsort(distinct(found.kind, found.line)[1], kind="stable"))


def gives_back(device: DeviceActivity, kind: str, dur: int, whole: int) -> int:
    """How much of the time of one kind would come back in some time: a copy can hide only behind the rest of it."""
    hides = device.device is not None and kind in OVERLAPPABLE
    return max(min(dur, whole - dur), 0) if hides else dur


def claims(rows: StallRows) -> tuple[StallRows, npt.NDArray[np.bool_]]:
    """The rows, and again those with a second cause as if it were the root; and which of them are those."""
    second = np.flatnonzero(rows.co_cause >= 0)
    again = rows.take(second)
    again = replace(
        again, root=again.co_cause, root_row=again.co_row, root_ts=again.co_ts, root_end=again.co_end,
        co_cause=again.root, co_row=again.root_row, co_ts=again.root_ts, co_end=again.root_end,
        co_tied=np.zeros(len(again), dtype=np.bool_),
        reason=np.where(again.co_tied, TIED, again.reason).astype(np.int8),
    )  # fmt: skip
    both = StallRows(*(np.concatenate([getattr(rows, f.name), getattr(again, f.name)]) for f in fields(StallRows)))
    return both, np.arange(len(both)) >= len(rows)


def second_cause(rows: StallRows) -> tuple[str, npt.NDArray[np.bool_]]:
    """What else would do for most of the rows' time, and which rows these are; "" and none where nothing would."""
    name = np.where(rows.co_tied, KINDS.index("several_waits"), rows.co_cause.astype(np.int64))
    spent = np.bincount(name[name >= 0], weights=rows.dur[name >= 0], minlength=1)
    most = int(spent.argmax())
    return (KINDS[most], name == most) if spent[most] else ("", name < -1)


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


def with_gaps_between(kind: Ints, line: Ints, dur: Ints) -> Ints:
    """The kinds, where the device's gaps before operations of a line that launches too slowly count as that.

    With fewer, larger operations there they would be gone as well.
    """
    bound = kind == KINDS.index("launch_bound")
    to_blame = blamed(kind, line, dur)[bound]
    between = (kind == KINDS.index("kernel_gap")) & np.isin(line, to_blame[to_blame >= 0])
    return np.where(between, KINDS.index("launch_bound"), kind)


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
