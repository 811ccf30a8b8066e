"""Which line of source ran when a slice was made, for tables that put few slices into words.

``source_position`` gives every slice its line at once, which in a trace with Python stacks is that of the function's
``def``. Here the source text and the samples are asked as well, slice by slice, as for a stall (see ``stall_lines``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from .nesting import Ints
from .source_position import SourceLine
from .stall_lines import MOST_ANCHORS, line_finder

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


def slice_lines(
    recording: Recording, rank: int, rows: Ints, weight: Ints | None = None
) -> tuple[tuple[SourceLine, ...], Ints]:
    """The line of each slice: the one that ran where the recording tells, else that of the function around it.

    Args:
        recording: The recording.
        rank: The rank.
        rows: Rows of the rank's timeline; -1 has no line.
        weight: Per row how much it matters: only the ``MOST_ANCHORS`` slices that matter most are looked up in the
            source. By default their duration.

    Returns:
        Lines; and per row an index into them, -1 where none is known.
    """
    finder = line_finder(recording, rank)
    line = finder.line_of_rows(rows)
    if finder.may_know_better:
        different, place = np.unique(rows, return_inverse=True)
        amount = finder.durations(rows) if weight is None else weight
        sums = np.bincount(place.reshape(-1), weights=amount, minlength=len(different))
        better = np.full(len(different), -1, dtype=np.int64)
        for number in np.argsort(-sums, kind="stable")[:MOST_ANCHORS].tolist():
            if different[number] >= 0:
                better[number] = finder.of_slice(int(different[number]))[0]
        found = better[place.reshape(-1)]
        line = np.where(found >= 0, found, line)
    return _whole_paths(finder.lines, line)


def _whole_paths(lines: Sequence[SourceLine], line: Ints) -> tuple[tuple[SourceLine, ...], Ints]:
    """The lines with each file under one name: a trace cuts the folder off that the sampler gives."""
    used = [lines[number] for number in np.unique(line[line >= 0]).tolist()]
    whole = sorted({place.file for place in used if place.file.startswith("/")})
    named: dict[str, str] = {}
    for file in {place.file for place in used} - set(whole):
        ends = [path for path in whole if path.endswith("/" + file.removeprefix("./"))]
        if len(ends) == 1:
            named[file] = ends[0]
    if not named:
        return tuple(lines), line
    renamed = [replace(place, file=named.get(place.file, place.file)) for place in lines]
    first: dict[SourceLine, int] = {}
    same = np.array([first.setdefault(place, number) for number, place in enumerate(renamed)] + [-1], dtype=np.int64)
    return tuple(renamed), same[line]
