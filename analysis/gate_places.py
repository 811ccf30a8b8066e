"""Where in the source a run holds and moves its bytes, and launches its work: a short table, kept with a baseline.

Amounts are those of the mean steady device step in ns, or bytes. A place is known again on the other side by the name
of its file and its function: lines move when code is edited, and folders differ from machine to machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

import numpy as np

from .copies import direction_of
from .memory_holders import BEFORE, live_blocks
from .nesting import Ints
from .run_facts import RunMeasures
from .selection import host_selection
from .slice_lines import slice_lines
from .timeline import COMPUTE, DATA_MOVEMENT, timeline

if TYPE_CHECKING:
    import pandas as pd

    from ..profiler.recording.reader import Recording

MOST_PLACES = 16
"""Kept of each kind; the rest is small beside them."""

SpotOfLine = tuple[str | None, int | None, str | None]
"""File, line and function; each None where no line is known."""


@dataclass(frozen=True, slots=True)
class Place:
    """One place and what it costs.

    Attributes:
        kind: ``memory`` (bytes held at the peak), ``bytes`` (moved in a step) or ``compute`` (device time that the
            line launches in a step).
        what: The op that allocates, or ``memory_holders.BEFORE``; "" elsewhere.
        file: The file; None where it is not known.
        line: The line.
        function: The function.
        amount: ns or bytes.
    """

    kind: str
    what: str
    file: str | None
    line: int | None
    function: str | None
    amount: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What it is known by on the other side."""
        name = PurePosixPath(self.file.replace("\\", "/")).name if self.file else ""
        return self.kind, self.what, name, self.function or ""


def places(recording: Recording, measures: RunMeasures) -> tuple[Place, ...]:
    """The places of a run, most of each kind first.

    Args:
        recording: The recording of the run.
        measures: Its measures, of the same ranks.
    """
    found = [*_memory(recording, measures), *_bytes(recording, measures), *_compute(recording, measures)]
    by_kind: dict[str, list[Place]] = {}
    for place in sorted(found, key=lambda place: -place.amount):
        by_kind.setdefault(place.kind, []).append(place)
    return tuple(place for kind in sorted(by_kind) for place in by_kind[kind][:MOST_PLACES] if place.amount > 0)


def _compute(recording: Recording, measures: RunMeasures) -> list[Place]:
    """Device time of what each line launched in the steady steps, in a mean step."""
    sums: dict[SpotOfLine, int] = {}
    for rank in measures.ranks:
        t, selection = timeline(recording, rank), host_selection(recording, rank)
        rows = t.device_rows[(t.state[t.device_rows] == COMPUTE) & (t.launch[t.device_rows] >= 0)]
        rows = rows[selection.holds(t.ts[t.launch[rows]])]
        _add(sums, recording, rank, t.launch[rows], t.dur[rows])
    count = max(measures.device_steps, 1)
    return [Place("compute", "", *spot, total // count) for spot, total in sums.items() if spot[0]]


def _memory(recording: Recording, measures: RunMeasures) -> list[Place]:
    """Who holds the memory of the device with the highest peak, by op and line."""
    devices = [one for one in measures.memory if one.device_type != "cpu"] or list(measures.memory)
    if not devices:
        return []
    top = max(devices, key=lambda one: one.peak_allocated_bytes)
    number = [one for one in measures.memory if one.rank == top.rank].index(top)
    frame = live_blocks(recording, rank=top.rank, device=number)
    frame = frame[frame["ts"].notna()]
    keys = ["op", "file", "line", "function"]
    summed = frame.groupby(keys, dropna=False, observed=True)["bytes"].sum().reset_index()
    rest = top.peak_allocated_bytes - int(frame["bytes"].sum())
    return [
        Place("memory", BEFORE, None, None, None, max(rest, 0)),
        *(
            Place("memory", row["op"] or "", row["file"], row["line"], row["function"], int(row["bytes"]))
            for row in _rows(summed)
        ),
    ]


def _bytes(recording: Recording, measures: RunMeasures) -> list[Place]:
    """Bytes of the copies that each line launched, a mean over all steps of the recording."""
    sums: dict[SpotOfLine, int] = {}
    count = 0
    for rank in measures.ranks:
        t = timeline(recording, rank)
        rows = t.device_rows[t.state[t.device_rows] == DATA_MOVEMENT]
        moves = np.array([direction_of(name) != "set" for name in t.names], dtype=np.bool_)
        rows = rows[(t.bytes[rows] > 0) & moves[t.name[rows]]]
        _add(sums, recording, rank, t.launch[rows], t.bytes[rows])
        count += max(measures.all_steps, 1)
    return [Place("bytes", "", *spot, total // max(count, 1)) for spot, total in sums.items()]


def _add(sums: dict[SpotOfLine, int], recording: Recording, rank: int, launch: Ints, amount: Ints) -> None:
    """Adds amounts to the lines of the slices that launched them."""
    lines, line = slice_lines(recording, rank, launch, amount)
    for code in np.unique(line).tolist():
        place = lines[code] if code >= 0 else None
        spot = (place.file, place.line or None, place.function) if place else (None, None, None)
        sums[spot] = sums.get(spot, 0) + int(amount[line == code].sum())


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows with None for what is null, and plain integers."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {
            str(key): int(value) if key in ("line", "bytes") and value is not None else value
            for key, value in row.items()
        }
        for row in plain.to_dict("records")
    ]
