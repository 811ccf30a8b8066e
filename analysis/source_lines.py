"""What each line of source costs: on the host, on the device beneath it, and in stalls.

The line is the innermost frame of the user's own code (see ``source_position``). Time goes to exactly one line, so
these columns add up, with the row without a file; ``host_total_ns`` counts a function with all it calls, so it does
not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from .columns import nullable_ints, texts
from .device_activity import rank_activity
from .executing_lines import executing_lines
from .group_statistics import group_sum
from .host_activity import training_threads
from .nesting import Ints, Mask, outermost
from .selection import Selection, Window, host_selection
from .self_time import self_time
from .slice_facts import of_the_program
from .source_position import SourceLine, origin_of, python_line, row_lines, stack_lines
from .timeline import Timeline, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

Place = tuple[str, int, str]
"""File, line and function; ("", 0, "") stands for what no line is known for."""

NOWHERE: Place = ("", 0, "")
LINE_SOURCES = ("function", "stack", "sample")


@dataclass(slots=True)
class _Sums:
    """Sums by place; ``add`` takes a place's number and value per item.

    A trace names a file by its end where the sampler and the recorded source have its path: ``path`` makes them one.
    """

    path: Callable[[str], str]
    places: dict[Place, int]
    columns: dict[str, dict[int, int]]
    source: dict[int, int]

    def whole(self, place: Place) -> Place:
        return (self.path(place[0]), *place[1:]) if place[0] else place

    def number(self, place: Place, source: int) -> int:
        known = self.places.setdefault(self.whole(place), len(self.places))
        self.source.setdefault(known, source)
        return known

    def add(self, column: str, sums: Ints, numbers: list[int]) -> None:
        target = self.columns.setdefault(column, {})
        for number, value in zip(numbers, sums.tolist(), strict=True):
            target[number] = target.get(number, 0) + value

    def column(self, name: str) -> Ints:
        sums = self.columns.get(name, {})
        return np.array([sums.get(number, 0) for number in range(len(self.places))], dtype=np.int64)


def source_lines(
    recording: Recording,
    *,
    rank: int | None = None,
    step: int | None = None,
    window: Window | None = None,
    stalls: pd.DataFrame | None = None,
    training_only: bool = False,
) -> pd.DataFrame:
    """The lines of source of a rank, those first that cost most host, device and stall time together.

    A slice belongs to the selection if it starts in it; device work belongs to the line that launched it, whenever it
    ran. Work of the backward pass belongs to the line of its forward op.

    Args:
        recording: The recording.
        rank: The rank; the first by default.
        step: One step, as the host saw it.
        window: ``(start, end)`` in ns; the steady steps by default.
        stalls: Rows of the table ``stalls`` for the same part, for stall_ns and exposed_copy_ns; without it those are
            null. Joined by file, line and function; the recording's own pauses (``overhead``) are left out.
        training_only: Whether host_ns leaves out threads that neither launch device work nor run ops (a progress bar
            that waits all the time costs no step anything), and ranges that are not nested with the other slices of
            their thread, which spend their time.

    Returns:
        One row a line: file, line, function (null in the row of what no line is known for), origin ("user", "library"),
        host_ns (self time of all slices of host threads whose line it is), device_ns (sum of the device work launched),
        backward_host_ns and backward_device_ns (how much of these is of the backward pass), stall_ns, exposed_copy_ns,
        calls and host_total_ns (of the function, with all that it calls, a call inside itself once; null without Python
        slices), samples (of the sampler, null without one), line_source ("function": the line of the function's def;
        "stack": the line that ran, from a stack taken at an op; "sample": the line that ran, from the sampler).
        ``attrs``: selection (what it is about, in words), steps.
    """
    rank = recording.ranks[0] if rank is None else rank
    t = timeline(recording, rank)
    selection = host_selection(recording, rank, step=step, window=window)
    sums = _Sums(executing_lines(recording, rank).path, {NOWHERE: 0}, {}, {0: -1})
    has_python = bool(t.is_category("python").any())
    known = LINE_SOURCES.index("function" if has_python else "stack")
    _add_slices(recording, t, selection, sums, known, _on_threads(t, training_only=training_only))
    _add_functions(t, selection, sums)
    if stalls is not None:
        _add_stalls(stalls[stalls["rank"] == rank], sums)
    has_samples = _add_samples(recording, rank, selection, sums)
    return _frame(sums, selection, has_python, stalls is not None, has_samples)


def _add_slices(
    recording: Recording, t: Timeline, selection: Selection, sums: _Sums, source: int, on_threads: Mask
) -> None:
    """Self time of the slices on some threads, and the device work that slices launched."""
    lines = row_lines(recording, t.rank)
    numbers = [*(sums.number((line.file, line.line, line.function), source) for line in lines.lines), 0]
    line = np.where(lines.line >= 0, lines.line, len(lines.lines))
    host = np.flatnonzero(on_threads & selection.holds(t.ts))
    self_ns = self_time(t.ts, t.end, t.parent)
    work = t.device_rows[t.launch[t.device_rows] >= 0]
    launch = t.launch[work]
    chosen = selection.holds(t.ts[launch])
    work, launch = work[chosen], launch[chosen]
    for name, rows, values in (("host_ns", host, self_ns[host]), ("device_ns", launch, t.dur[work])):
        back = lines.through_backward[rows]
        sums.add(name, group_sum(line[rows], values, len(numbers)), numbers)
        sums.add(f"backward_{name}", group_sum(line[rows], np.where(back, values, 0), len(numbers)), numbers)


def _add_functions(t: Timeline, selection: Selection, sums: _Sums) -> None:
    """Calls of Python functions that have a row, with all that they call."""
    of_name = np.full(len(t.names) + 1, -1, dtype=np.int64)
    python = t.is_category("python")
    for code in np.unique(t.name[python]).tolist():
        line = python_line(t.names[code])
        if line is not None:
            of_name[code] = sums.places.get(sums.whole((line.file, line.line, line.function)), -1)
    group = np.where(python, of_name[t.name], -1)
    rows = np.flatnonzero((group >= 0) & selection.holds(t.ts))
    outer = outermost(t.parent, t.depth, group)[rows]
    numbers = list(range(len(sums.places)))
    sums.add("calls", group_sum(group[rows], np.ones(len(rows), dtype=np.int64), len(numbers)), numbers)
    whole = np.where(outer, group[rows], -1)
    sums.add("host_total_ns", group_sum(whole, t.dur[rows], len(numbers)), numbers)


def _add_stalls(stalls: pd.DataFrame, sums: _Sums) -> None:
    """Stalls by line, but for the recording's own pauses: they happen at a line and are not its doing."""
    stalls = of_the_program(stalls)
    key = [stalls["file"].fillna(""), stalls["line"].fillna(0), stalls["function"].fillna("")]
    for state, column in (("stall", "stall_ns"), ("data_movement", "exposed_copy_ns")):
        for place, dur in stalls["dur"][stalls["state"] == state].groupby(key).sum().items():
            file, line, function = (str(place[0]), int(place[1]), str(place[2]))  # type: ignore[index]
            number = sums.number((file, line, function) if file else NOWHERE, LINE_SOURCES.index("stack"))
            sums.add(column, np.array([dur]), [number])


def _add_samples(recording: Recording, rank: int, selection: Selection, sums: _Sums) -> bool:
    """Counts the sampler's stacks of the training threads by the line that ran; whether there are any."""
    table = recording.table("samples", ranks=(rank,), columns=["track_id", "ts", "stack_id"])
    host, tracks = rank_activity(recording, rank).host, timeline(recording, rank).tracks
    training = [tracks[track].track_id for track in {*host.threads.training, host.threads.main} if track >= 0]
    if training:
        table = table.filter(pc.is_in(table["track_id"], value_set=pa.array(training)))
    if not len(table):
        return False
    stacks = stack_lines(recording)
    stack = table["stack_id"].fill_null(-1).to_numpy()[selection.holds(table["ts"].to_numpy())]
    best = np.append(stacks.best, -1)[stacks.place(stack)]
    for code, count in zip(*np.unique(best, return_counts=True), strict=True):
        place = _place(stacks.lines[code]) if code >= 0 else NOWHERE
        sums.add("samples", np.array([count]), [sums.number(place, LINE_SOURCES.index("sample"))])
    return True


def _place(line: SourceLine) -> Place:
    return line.file, line.line, line.function


def _on_threads(t: Timeline, *, training_only: bool) -> Mask:
    """Which rows are on threads of the host; only on those that train where there are any and only they count."""
    training = training_threads(t).training if training_only else ()
    on_thread = np.array([*(track.kind == "thread" for track in t.tracks), False], dtype=np.bool_)
    if training:
        on_thread[:] = False
        on_thread[list(training)] = True
    there: Mask = on_thread[t.track]
    return there & ~(t.is_category("annotation") & (t.lane > 0)) if training_only else there


def _frame(sums: _Sums, selection: Selection, has_python: bool, has_stalls: bool, has_samples: bool) -> pd.DataFrame:
    places, count = list(sums.places), len(sums.places)
    all_rows = np.arange(count)
    frame = pd.DataFrame(
        {
            "file": texts([place[0] or None for place in places], all_rows),
            "line": nullable_ints([place[1] for place in places], [place[1] > 0 for place in places]),
            "function": texts([place[2] or None for place in places], all_rows),
            "origin": texts([origin_of(place[0]) if place[0] else None for place in places], all_rows),
        }
    )
    for name in ("host_ns", "device_ns", "backward_host_ns", "backward_device_ns"):
        frame[name] = sums.column(name)
    for names, said in (
        (("stall_ns", "exposed_copy_ns"), has_stalls),
        (("calls", "host_total_ns"), has_python),
        (("samples",), has_samples),
    ):
        for name in names:
            frame[name] = nullable_ints(sums.column(name), np.full(count, said))
    frame["line_source"] = texts(LINE_SOURCES, np.array([sums.source[number] for number in range(count)]))
    cost = frame[["host_ns", "device_ns"]].sum(axis=1) + sums.column("stall_ns") + sums.column("exposed_copy_ns")
    frame = frame.assign(cost=cost, seen=sums.column("samples"))
    frame = frame[(frame["cost"] > 0) | (frame["seen"] > 0)]
    order = ["cost", "seen", "file", "line"]
    frame = frame.sort_values(order, ascending=[False, False, True, True], ignore_index=True)
    frame = frame.drop(columns=["cost", "seen"])
    frame.attrs |= {"selection": selection.text, "steps": selection.steps}
    return frame
