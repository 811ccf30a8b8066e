"""Which line of source a stall belongs to: the line behind its root cause, the innermost of the user's own code.

In this order: the stack that was taken at the slice; the call in the text of the source that the slice came from; the
line that the sampler saw meanwhile; the ``def`` of the function around it. Loading a batch, and time for which nothing
of the host is recorded, belong to the line on which most of that time was spent.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .causes import CAUSE_CODE
from .device_activity import RankActivity, rank_activity
from .executing_lines import executing_lines
from .host_activity import Pieces, innermost
from .interpreter import interpreter_waits
from .nesting import above, nearest
from .run_ahead import LONG_PYTHON_NS
from .sampled_lines import SampledLines, sampled_lines
from .source_position import RowLines, SourceLine, python_line, row_lines
from .stall_rows import StallRows
from .timeline import Ints, Timeline, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

LINE_SOURCES = ("function", "stack", "source", "sample")
"""``function``: the line of the function's ``def``; the others the line that ran: ``stack`` from a stack taken there,
``source`` from the calls in the text of the source, ``sample`` from the sampler."""

FUNCTION, STACK, SOURCE, SAMPLE = range(len(LINE_SOURCES))

MOST_ANCHORS = 20_000
"""So many slices and stretches of time, the longest stalls first, are looked up in the source and among the samples."""

_MOST_PIECES = 500
_WAITS = re.compile(r"\b(?:get|wait|acquire|join|sleep|select|poll|recv|recv_into|accept|result)\(")

Found = tuple[int, int]
"""Index of a line, index of its source; -1 twice for none."""


def stall_lines(
    recording: Recording, rank: int, rows: StallRows
) -> tuple[tuple[SourceLine, ...], Ints, npt.NDArray[np.int8]]:
    """The line of each stall row.

    Returns:
        Lines; per stall row an index into them, -1 where no line is known; and per stall row an index into
        ``LINE_SOURCES``, -1 with it.
    """
    finder = line_finder(recording, rank)
    line, source = finder.recorded(rows)
    if finder.may_know_better and len(rows):
        finder.refine(rows, line, source)
    # What the device held is no line's doing; the line that queued it may be known.
    held = np.isin(rows.root, [CAUSE_CODE["kernel_gap"], CAUSE_CODE["dependency"]]) & (rows.root_row < 0)
    line[held], source[held] = -1, -1
    return tuple(finder.lines), line, source


def line_finder(recording: Recording, rank: int) -> LineFinder:
    """What finds the lines of a rank; set up once per recording."""
    return memoized(recording, ("line_finder", rank), lambda: LineFinder(recording, rank_activity(recording, rank)))


class LineFinder:
    """Finds the lines of slices and of stretches of the training loop's time, each once.

    Attributes:
        may_know_better: Whether samples or source text may tell the line that ran, beside what slices say themselves.
        lines: The lines found so far, which results are indices into.
    """

    def __init__(self, recording: Recording, activity: RankActivity) -> None:
        self._recording, self._activity, self._t = recording, activity, activity.timeline
        rank = activity.timeline.rank
        self._rows = row_lines(recording, rank)
        self._inside = _first_inside(self._t, self._rows)
        self._python = _python_pieces(activity)
        python = self._t.is_category("python")
        self._traced = bool(python.any())
        defs = {
            python_line(self._t.names[name]) for name in np.flatnonzero(np.bincount(self._t.name[python], minlength=1))
        }
        self._is_def = np.array([place in defs for place in self._rows.lines], dtype=np.bool_)
        self._source = executing_lines(recording, rank)
        sampled = recording.table("samples", ranks=(rank,), columns=["ts"]).num_rows > 0
        self.may_know_better = sampled or (self._traced and self._source.has_text)
        self.lines: list[SourceLine] = list(self._rows.lines)
        self._number = {place: number for number, place in enumerate(self.lines)}
        self._of_slice: dict[int, Found] = {}
        self._of_time: dict[tuple[int, int], Found] = {}
        self._of_holder: dict[int, tuple[SampledLines, SampledLines]] = {}

    def line_of_rows(self, rows: Ints) -> Ints:
        """Per row of the timeline the line that its stack says, as an index into ``lines``; -1 for none."""
        return np.append(self._rows.line.astype(np.int64), -1)[rows]

    def durations(self, rows: Ints) -> Ints:
        """Per row of the timeline how long it is, ns; 0 for -1."""
        return np.append(self._t.dur, 0)[rows]

    def recorded(self, rows: StallRows) -> tuple[Ints, npt.NDArray[np.int8]]:
        """Per row what slices and their stacks say by themselves."""
        t, anchor = self._t, rows.root_row
        of_row = np.append(self._rows.line.astype(np.int64), -1)
        found = of_row[anchor]
        found = np.where((found < 0) & (anchor >= 0), of_row[np.append(self._inside, -1)[anchor]], found)
        starts = np.where(anchor >= 0, np.append(t.ts, 0)[anchor], rows.root_ts)
        ends = np.where(anchor >= 0, np.append(t.end, 0)[anchor], rows.root_end)
        missing = np.flatnonzero((found < 0) & (starts < ends))
        found[missing] = of_row[_covering(self._python, starts[missing], ends[missing])]
        # Python slices name a def; stacks that were taken at an op, or by a live collector, what ran.
        source = np.where(np.append(self._is_def, False)[found], FUNCTION, STACK)
        return found, np.where(found >= 0, source, -1).astype(np.int8)

    def refine(self, rows: StallRows, line: Ints, source: npt.NDArray[np.int8]) -> None:
        """Puts the line that ran into both columns where the source or the samples tell."""
        anchors = np.stack([rows.root_row, rows.root_ts, rows.root_end], axis=1)
        anchors[rows.root_row >= 0, 1:] = 0
        different, place = np.unique(anchors, axis=0, return_inverse=True)
        place = place.reshape(-1)
        dur = np.bincount(place, weights=rows.dur, minlength=len(different))
        found = np.full((len(different) + 1, 2), -1, dtype=np.int64)
        for number in np.argsort(-dur, kind="stable")[:MOST_ANCHORS].tolist():
            row, start, end = different[number].tolist()
            found[number] = self.of_slice(row) if row >= 0 else self.of_time(start, end)
        better = found[place]
        known = better[:, 0] >= 0
        line[known], source[known] = better[known, 0], better[known, 1]

    def of_slice(self, row: int) -> Found:
        """The line behind a slice."""
        if row not in self._of_slice:
            self._of_slice[row] = self._slice(row)
        return self._of_slice[row]

    def of_time(self, start: int, end: int) -> Found:
        """The line on which the training loop spent most of a stretch of time in which nothing else is recorded."""
        if (start, end) not in self._of_time:
            held = self._held(start, end)
            known = held[0] >= 0
            self._of_time[start, end] = held if known else self._time(self._activity.host.threads.main, start, end)
        return self._of_time[start, end]

    def _slice(self, row: int) -> Found:
        t = self._t
        track, start, end = int(t.track[row]), int(t.ts[row]), int(t.end[row])
        line = int(self._rows.line[row])
        if int(self._activity.causes.cause[row]) == CAUSE_CODE["input"]:
            inside = self._time(track, start, end, within=(start, end))
            if inside[0] >= 0:
                return inside
        if line >= 0 and not self._is_def[line]:
            return self._add(self._rows.lines[line], STACK)
        exact = self._source.line_of(row)
        if exact is not None:
            return self._add(exact, SOURCE)
        around = self._source.function_of(row)
        sampled = self._samples(track).between(start, end, around)
        if sampled is not None:
            return self._add(sampled, SAMPLE)
        if around is not None:
            return self._add(around, FUNCTION)
        return (-1, -1) if line >= 0 else self._time(track, start, end)

    def _time(self, track: int, start: int, end: int, within: tuple[int, int] | None = None) -> Found:
        """The line that took most of a thread's time; with ``within`` only in functions that were called in there."""
        spent: Counter[tuple[SourceLine, int]] = Counter()
        loops: dict[SourceLine, SourceLine | None] = {}
        for row, dur in self._functions(start, end):
            function = int(self._source.calls.function[row])
            if within is not None and (function < 0 or not within[0] <= self._t.ts[function] < within[1]):
                continue
            exact, around = self._source.line_of(row), self._source.function_of(row)
            if exact is None and around is not None and dur > LONG_PYTHON_NS:
                loops[around] = self._source.only_loop(row)
            if exact is not None:
                spent[exact, SOURCE] += dur
            elif around is not None:
                spent[around, FUNCTION] += dur
            elif self._rows.line[row] >= 0:
                spent[self._rows.lines[int(self._rows.line[row])], FUNCTION] += dur
        samples = self._samples(track)
        if not spent:
            seen = samples.between(start, end) if within is None else None
            return self._add(seen, SAMPLE) if seen is not None else (-1, -1)
        place, source = spent.most_common(1)[0][0]
        if source == FUNCTION and place.origin == "user":
            seen = samples.between(start, end, place) or samples.within(place)
            if seen is not None:
                return self._add(seen, SAMPLE)
            if loop := loops.get(place):
                return self._add(loop, SOURCE)
        return self._add(place, source)

    def _held(self, start: int, end: int) -> Found:
        """The line of a thread that held the interpreter meanwhile: where the sampler saw it run, then or ever.

        A thread that gives the interpreter away by itself before it has to is never seen running, only where it waits:
        then the one loop of that function is what can have taken long.
        """
        waits = interpreter_waits(self._recording, self._activity)
        holder = waits.holder_at((start + end) // 2)
        if holder < 0:
            return -1, -1
        for samples in self._held_samples(holder, waits.running[holder]):
            seen = samples.between(start, end) or samples.most_common()
            if seen is not None:
                return self._add(seen, SAMPLE)
        seen = sampled_lines(self._recording, self._t.rank, self._t.tracks[holder].track_id).most_common()
        loop = self._source.loop_around(seen) if seen is not None else None
        return self._add(loop, SOURCE) if loop is not None else (-1, -1)

    def _held_samples(self, holder: int, running: Ints) -> tuple[SampledLines, SampledLines]:
        """The samples of a thread while it ran, first without those on lines that call something that waits.

        The sampler, too, gets the interpreter when the thread gives it away, and then sees it there.
        """
        if holder not in self._of_holder:
            every = sampled_lines(self._recording, self._t.rank, self._t.tracks[holder].track_id).inside(running)
            waits = np.array(
                [_WAITS.search(self._source.text_at(place)) is not None for place in every.lines], np.bool_
            )
            self._of_holder[holder] = (every.take(~waits[every.line]) if len(waits) else every), every
        return self._of_holder[holder]

    def _functions(self, start: int, end: int) -> list[tuple[int, int]]:
        """The innermost Python functions of the training loop in a stretch of time, and how long each was that."""
        _, piece, first, last = self._python.walk(np.array([start]), np.array([end]))
        row, dur = self._python.rows[piece], last - first
        longest = np.argsort(-dur, kind="stable")[:_MOST_PIECES]
        longest = longest[row[longest] >= 0]
        return list(zip(row[longest].tolist(), dur[longest].tolist(), strict=True))

    def _samples(self, track: int) -> SampledLines:
        main = self._activity.host.threads.main
        track = track if track in self._activity.host.threads.training or main < 0 else main
        return sampled_lines(self._recording, self._t.rank, self._t.tracks[track].track_id)

    def _add(self, place: SourceLine, source: int) -> Found:
        if place not in self._number:
            self._number[place] = len(self.lines)
            self.lines.append(place)
        return self._number[place], source


def _first_inside(t: Timeline, lines: RowLines) -> Ints:
    """Per row the first row with a line that starts inside it on the same track; -1 for none."""
    number = np.arange(len(t), dtype=np.int64)
    following = np.minimum.accumulate(np.where(lines.line >= 0, number, len(t))[::-1])[::-1]
    known = following < len(t)
    result = np.full(len(t), -1, dtype=np.int64)
    place = following[known]
    good = (t.track[place] == t.track[known]) & (t.ts[place] < t.end[known])
    result[np.flatnonzero(known)[good]] = place[good]
    return result


def _python_pieces(activity: RankActivity) -> Pieces:
    """The innermost Python function that the training loop's thread was in, at every instant."""
    t, main = activity.timeline, activity.host.threads.main
    python = t.is_category("python", "module")
    if main < 0 or not python.any():
        return Pieces(np.array(activity.host.extent, dtype=np.int64), np.array([-1], dtype=np.int64))
    place = t.rows_of_track(main)
    rows = (np.flatnonzero(python[place]) + place.start).astype(np.int32)
    return innermost(t, rows, above(t.parent, nearest(t.parent, python)), activity.host.extent)


def _covering(pieces: Pieces, starts: Ints, ends: Ints) -> Ints:
    """The row that holds for most of each window; -1 where none does."""
    result = np.full(len(starts), -1, dtype=np.int64)
    owner, piece, first, last = pieces.walk(starts, ends)
    named = pieces.rows[piece] >= 0
    owner, row, length = owner[named], pieces.rows[piece[named]], (last - first)[named]
    order = np.argsort(length, kind="stable")
    result[owner[order]] = row[order]
    return result
