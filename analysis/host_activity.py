"""What each host thread did at every instant, as a function of time that is constant on pieces.

A thread's slices nest: an op contains the runtime calls that it makes. ``Pieces`` say which slice is the innermost one
at an instant, so that a stretch of time can be walked in the order in which the host spent it. Python functions,
modules and annotations tell where the host was, not what it did; they are left out of ``work_pieces`` and asked
separately, where nothing else is recorded.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import intervals as iv
from .nesting import above, nearest
from .timeline import Ints, Rows, Timeline

WORK = ("op", "runtime", "synchronization", "allocation", "collective", "compile", "fallback", "input", "gc", "io")
"""The categories that say what a host thread did."""

_BACKEND_RANGE = re.compile(r"^(?:nccl|rccl|xccl|hccl|gloo|mpi|ucc|ccl):(?!:)")
_HAS_FILE = re.compile(r"[^<][^\n]*\(\d+\): ")
_OF_TORCH = re.compile(r"^(?:.*/(?:site|dist)-packages/)?torch/[^\n]*\(\d+\): ")
_FILLERS = 4


@dataclass(frozen=True, slots=True)
class Pieces:
    """A function of time: ``rows[i]`` holds on ``[edges[i], edges[i + 1])``; -1 where nothing does. Neighbours differ.

    Attributes:
        edges: m + 1 ascending instants, ns.
        rows: m rows of the timeline.
    """

    edges: Ints
    rows: Ints

    def at(self, instants: Ints) -> Ints:
        """The row at each instant; -1 before the first edge and from the last one on."""
        place = np.searchsorted(self.edges, instants, side="right") - 1
        inside = (place >= 0) & (place < len(self.rows))
        if not len(self.rows):
            return np.full(len(instants), -1, dtype=np.int64)
        return np.where(inside, self.rows[np.clip(place, 0, len(self.rows) - 1)], -1)

    def walk(self, starts: Ints, ends: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """The pieces of each ``[starts[i], ends[i])``, in order, as four arrays: i, number of the piece, start, end."""
        low = np.searchsorted(self.edges, starts, side="right") - 1
        high = np.searchsorted(self.edges[:-1], ends, side="left")
        owner, place = iv.expand(np.maximum(low, 0), np.where(ends > starts, high, 0))
        first = np.maximum(self.edges[place], starts[owner])
        last = np.minimum(self.edges[place + 1], ends[owner])
        keep = last > first
        return owner[keep], place[keep], first[keep], last[keep]


def innermost(t: Timeline, rows: Rows, up: Ints, extent: tuple[int, int]) -> Pieces:
    """The innermost of the given rows of one track at every instant of the extent.

    Args:
        t: The timeline.
        rows: Ascending rows of one track.
        up: For every row of the timeline the nearest row above it that is also chosen, -1 if none.
        extent: The first and last instant, ns.
    """
    rows = rows[t.end[rows] > t.ts[rows]]
    lanes = np.unique(t.lane[rows])
    layers = [_innermost_of_lane(t, rows[t.lane[rows] == lane], up, extent) for lane in lanes]
    if not layers:
        return Pieces(np.array(extent, dtype=np.int64), np.array([-1], dtype=np.int64))
    while len(layers) > 1:
        layers = [
            _merged(layers[i], layers[i + 1], t.ts) if i + 1 < len(layers) else layers[i]
            for i in range(0, len(layers), 2)
        ]
    return layers[0]


def _innermost_of_lane(t: Timeline, rows: Rows, up: Ints, extent: tuple[int, int]) -> Pieces:
    """Where a slice ends, the one around it takes over; where one starts, it does.

    At equal times ends come first, the outermost of them last, and then starts, the innermost of them last.
    """
    times = np.concatenate([t.end[rows][::-1], t.ts[rows]])
    holds = np.concatenate([up[rows][::-1], rows])
    order = np.argsort(times, kind="stable")
    return _pieces(times[order], holds[order], extent)


def _pieces(times: Ints, holds: Ints, extent: tuple[int, int]) -> Pieces:
    """Pieces from the instants at which something begins to hold; the last of equal instants counts."""
    edges = np.concatenate([[extent[0]], np.clip(times, *extent), [extent[1]]])
    rows = np.concatenate([[-1], holds])
    keep = edges[1:] > edges[:-1]
    edges, rows = edges[:-1][keep], rows[keep]
    new = np.concatenate([[True], rows[1:] != rows[:-1]])[: len(rows)]
    return Pieces(np.append(edges[new], extent[1]).astype(np.int64), rows[new].astype(np.int64))


def _on_common_edges(first: Pieces, second: Pieces) -> tuple[Ints, Ints, Ints]:
    edges = np.concatenate([first.edges[:-1], second.edges[:-1]])
    edges.sort(kind="stable")
    return edges, first.at(edges), second.at(edges)


def _extent(pieces: Pieces) -> tuple[int, int]:
    return int(pieces.edges[0]), int(pieces.edges[-1])


def _merged(first: Pieces, second: Pieces, ts: Ints) -> Pieces:
    """Of two layers the slice that started later."""
    edges, a, b = _on_common_edges(first, second)
    later = (b >= 0) & ((a < 0) | (ts[b] >= ts[a]))
    return _pieces(edges, np.where(later, b, a), _extent(first))


def filled(base: Pieces, filler: Pieces) -> Pieces:
    """The base, and the filler where the base has nothing."""
    if (filler.rows < 0).all():
        return base
    edges, a, b = _on_common_edges(base, filler)
    return _pieces(edges, np.where(a >= 0, a, b), _extent(base))


@dataclass(frozen=True, slots=True)
class Threads:
    """The host threads that matter to the devices.

    Attributes:
        training: Indices of the tracks that launch device work or run ops, the one with most launches first.
        main: The one that runs the training loop; -1 where there is none.
    """

    training: tuple[int, ...]
    main: int


def training_threads(t: Timeline) -> Threads:
    """The threads that launch device work or run ops; threads that only wait, poll or watch are not among them."""
    count = len(t.tracks)
    launches = np.bincount(t.track[t.launch[t.launch >= 0]], minlength=count)
    ops = np.bincount(t.track[t.is_category("op")], minlength=count)
    candidates = [i for i in t.threads if launches[i] or ops[i]]
    candidates.sort(key=lambda i: (-launches[i], -ops[i], i))
    return Threads(tuple(candidates), _main_thread(t, candidates))


def _main_thread(t: Timeline, candidates: list[int]) -> int:
    """The thread with the steps; else the one of the training threads that was in Python longest; else any such.

    Threads that only watch (a sampler, a progress bar) are in Python all the time, so they come last.
    """
    steps = np.array([name.startswith("ProfilerStep") for name in t.names], dtype=bool)
    on_thread = np.isin(t.track, t.threads)
    outermost = t.is_category("python", "module") & on_thread & (t.parent < 0)
    for chosen in (steps[t.name] & on_thread if len(t) else steps[:0], outermost):
        spent = np.bincount(t.track[chosen], weights=(t.end - t.ts)[chosen], minlength=len(t.tracks))
        trains = np.isin(np.arange(len(t.tracks)), candidates) & (spent > 0)
        if spent.any():
            return int(np.where(trains, spent, 0).argmax() if trains.any() else spent.argmax())
    return candidates[0] if candidates else -1


class HostActivity:
    """What the host threads of a rank did, asked per launching thread.

    Args:
        t: The timeline.
        context: Per row the outermost slice that gives it a specific cause (see ``causes``), -1 for none.
        ranges: Whether the range that a communication backend opens (``nccl:all_reduce``) counts as work of its
            thread. It may last until the transfer ends, so beside a device it says nothing about the thread.
        extent: The first and last instant to speak about, ns; by default those of the slices.
        pauses: Start, end and slice of the profiler's own pauses, in which no thread is traced.
    """

    def __init__(
        self,
        t: Timeline,
        context: Ints,
        *,
        ranges: bool,
        extent: tuple[int, int] | None = None,
        pauses: Sequence[tuple[int, int, int]] = (),
    ) -> None:
        self._t = t
        self._pauses = pauses
        self._context = context
        self._tokens: dict[int, Pieces] = {}
        self._work: dict[int, Pieces] = {}
        self._framework: Pieces | None = None
        self.threads = training_threads(t)
        self.extent = extent or t.extent
        chosen = t.is_category(*WORK)
        if len(t) and not ranges:
            chosen &= ~np.array([_BACKEND_RANGE.match(name) is not None for name in t.names], dtype=bool)[t.name]
        self._chosen = chosen
        self._up = above(t.parent, nearest(t.parent, chosen))

    def work_pieces(self, thread: int) -> Pieces:
        """The innermost op, call or other work of a thread at every instant."""
        if thread not in self._work:
            place = self._t.rows_of_track(thread)
            rows = (np.flatnonzero(self._chosen[place]) + place.start).astype(np.int32)
            self._work[thread] = innermost(self._t, rows, self._up, self.extent)
        return self._work[thread]

    def token(self, thread: int) -> Pieces:
        """What decided how soon this thread could launch: its work, else that of the threads it may wait for.

        Where no thread has work, the slice that gives the thread a specific cause (a Python function that loads data,
        say); the profiler's own overhead goes before everything.
        """
        if thread not in self._tokens:
            pieces = self.work_pieces(thread)
            others = [other for other in self.threads.training if other != thread][:_FILLERS]
            for other in others:
                pieces = filled(pieces, self.work_pieces(other))
            for where in dict.fromkeys((thread, self.threads.main)):
                if where >= 0:
                    pieces = filled(pieces, self._context_pieces(where))
            self._tokens[thread] = filled(filled(self._overhead_pieces(), pieces), self._pause_pieces())
        return self._tokens[thread]

    def in_framework(self, instants: Ints) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Whether the main thread was in Python code of torch then, or in a built-in function that torch's had called.

        Where no Python functions are recorded it was not, as far as is known.
        """
        if self._framework is None:
            self._framework = self._framework_pieces()
        return np.asarray(self._framework.at(instants) >= 0, dtype=np.bool_)

    def _framework_pieces(self) -> Pieces:
        """The innermost Python function with a file, where that is one of torch's."""
        t, main = self._t, self.threads.main
        place = t.rows_of_track(main) if main >= 0 else slice(0, 0)
        named = np.array([_HAS_FILE.match(name) is not None for name in t.names] + [False], dtype=bool)
        with_file = t.is_category("python") & named[t.name]
        rows = (np.flatnonzero(with_file[place]) + place.start).astype(np.int32)
        pieces = innermost(t, rows, above(t.parent, nearest(t.parent, with_file)), self.extent)
        torch = np.array([_OF_TORCH.search(name) is not None for name in t.names] + [False], dtype=bool)
        name = np.where(pieces.rows >= 0, t.name[pieces.rows], len(t.names)) if len(t) else pieces.rows
        return _pieces(pieces.edges[:-1], np.where(torch[name], pieces.rows, -1), self.extent)

    def _context_pieces(self, thread: int) -> Pieces:
        t, place = self._t, self._t.rows_of_track(thread)
        numbers = np.arange(place.start, place.stop)
        rows = numbers[self._context[place] == numbers].astype(np.int32)
        return innermost(t, rows, np.full(len(t), -1, dtype=np.int64), self.extent)

    def _pause_pieces(self) -> Pieces:
        times = np.array([edge for start, end, _ in self._pauses for edge in (start, end)], dtype=np.int64)
        holds = np.array([row for _, _, slice_row in self._pauses for row in (slice_row, -1)], dtype=np.int64)
        return _pieces(times, holds, self.extent)

    def _overhead_pieces(self) -> Pieces:
        t = self._t
        rows = np.flatnonzero(t.is_category("overhead")).astype(np.int32)
        pieces = Pieces(np.array(self.extent, dtype=np.int64), np.array([-1], dtype=np.int64))
        for track in np.unique(t.track[rows]):
            mine = rows[t.track[rows] == track]
            pieces = filled(pieces, innermost(t, mine, np.full(len(t), -1, dtype=np.int64), self.extent))
        return pieces
