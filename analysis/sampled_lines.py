"""What the sampler saw: which line of the user's code ran in a stretch of time, and in a function altogether."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .source_position import SourceLine, StackLines, stack_lines
from .timeline import Ints, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


@dataclass(frozen=True, eq=False)
class SampledLines:
    """The samples of one thread whose stacks have a frame of the user's, in the order of time.

    Attributes:
        ts: When each was taken, ns.
        line: Per sample the innermost frame of the user's code, as an index into ``lines``.
        lines: The lines.
        whole: Per name of a function and its file how often each of its lines was the innermost one.
    """

    ts: Ints
    line: Ints
    lines: tuple[SourceLine, ...]
    whole: dict[tuple[str, str], Counter[int]]

    def between(self, start: int, end: int, function: SourceLine | None = None) -> SourceLine | None:
        """The line seen most often in a stretch of time; only lines of one function where one is given."""
        low, high = np.searchsorted(self.ts, [start, end])
        votes = Counter(self.line[low:high].tolist())
        if function is not None:
            votes = Counter({n: count for n, count in votes.items() if _same_function(self.lines[n], function)})
        return self.lines[votes.most_common(1)[0][0]] if votes else None

    def inside(self, spans: Ints) -> SampledLines:
        """The samples in a union of intervals, their ends included."""
        place = np.searchsorted(spans[:, 0], self.ts, side="right") - 1
        return self.take((place >= 0) & (self.ts <= np.append(spans[:, 1], 0)[place]))

    def take(self, keep: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> SampledLines:
        """Some of the samples; ``whole`` stays as it is."""
        return SampledLines(self.ts[keep], self.line[keep], self.lines, self.whole)

    def most_common(self) -> SourceLine | None:
        """The line seen most often in all of the recording; None where none was."""
        votes = Counter(self.line.tolist())
        return self.lines[votes.most_common(1)[0][0]] if votes else None

    def within(self, function: SourceLine) -> SourceLine | None:
        """The line of a function that was seen most often in all of the recording; None where none was."""
        votes: Counter[int] = Counter()
        for (name, file), counts in self.whole.items():
            if name == function.function and _same_file(file, function.file):
                votes += counts
        return self.lines[votes.most_common(1)[0][0]] if votes else None


def sampled_lines(recording: Recording, rank: int, track_id: int) -> SampledLines:
    """The samples of one thread; read once per recording."""
    return memoized(recording, ("sampled_lines", rank, track_id), lambda: _build(recording, rank, track_id))


def _build(recording: Recording, rank: int, track_id: int) -> SampledLines:
    table = recording.table("samples", ranks=(rank,), columns=["track_id", "ts", "stack_id"])
    track, ts = (table[name].to_numpy().astype(np.int64) for name in ("track_id", "ts"))
    stack = table["stack_id"].fill_null(-1).to_numpy().astype(np.int64)
    order = np.flatnonzero(track == track_id)
    order = order[np.argsort(ts[order], kind="stable")]
    stacks = stack_lines(recording)
    best = np.append(stacks.best, -1)[stacks.place(stack[order])] if len(order) else np.zeros(0, dtype=np.int64)
    keep = best >= 0
    keep[keep] &= _is_user(stacks)[best[keep]]
    line = best[keep]
    whole: dict[tuple[str, str], Counter[int]] = {}
    for number, count in Counter(line.tolist()).items():
        place = stacks.lines[number]
        whole.setdefault((place.function, place.file), Counter())[number] += count
    return SampledLines(ts[order][keep], line, stacks.lines, whole)


def _is_user(stacks: StackLines) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.array([place.origin == "user" for place in stacks.lines], dtype=np.bool_)


def _same_function(one: SourceLine, other: SourceLine) -> bool:
    return one.function == other.function and _same_file(one.file, other.file)


def _same_file(one: str, other: str) -> bool:
    """Whether two names are of one file; a trace may leave out the beginning of the path."""
    return one == other or one.endswith("/" + other) or other.endswith("/" + one)
