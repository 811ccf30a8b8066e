"""What led to a slice and what it led to: host op, launch, kernel, what waited for it, and so on in both directions.

Each slice has *releases*: what had to happen before it could start. For device work these are its launch, the
operation before it on its stream, and whatever the recording says that it waited for; for a host slice the op that it
is part of, the forward op of a backward one, the device work that a synchronization waited for, or the slice before it
on its thread. The latest of them *decided* when it started; the chain follows what decided.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .dependencies import explicit_waits, neighbours
from .timeline import CATEGORY_CODE, Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

MOST_A_HOP = 5
"""How many neighbours of a slice are shown, the longest first; a graph launch has hundreds."""

_HOST_WAITS = ("event_sync", "device_sync", "forward_backward", "user")
_CALLS = tuple(CATEGORY_CODE[name] for name in ("runtime", "graph", "memcpy", "memset", "collective"))
_WORDS = tuple(CATEGORY_CODE[name] for name in ("op", "module", "annotation", "input", "fallback"))
"""Of what kinds a slice is that says what its parts are for."""


@dataclass(frozen=True, slots=True)
class ChainSlice:
    """A slice of the chain.

    Attributes:
        slice_id: Its id.
        name: Its full name.
        category: Its category.
        track: What its track is called.
        on_device: Whether it is device work.
        ts: Start, ns.
        dur: Length, ns.
        hop: How many arrows from the picked slice: negative for what led to it.
        on_chain: Whether the chain goes on from it, rather than ending beside it.
    """

    slice_id: int
    name: str
    category: str
    track: str
    on_device: bool
    ts: int
    dur: int
    hop: int
    on_chain: bool


@dataclass(frozen=True, slots=True)
class ChainArrow:
    """That one slice had to happen before another.

    Attributes:
        from_slice_id: What came first.
        to_slice_id: What came of it.
        kind: A kind of ``flows``, or ``stream_order`` (the next on its stream), ``call`` (a call that an op makes),
            ``within`` (a part of it) or ``thread_order`` (the next on its thread).
        wait_ns: From when the first let the second go to the second's start; negative for a host that waited before.
        decided: Whether this was the latest release, so that the second would have started earlier without it.
    """

    from_slice_id: int
    to_slice_id: int
    kind: str
    wait_ns: int
    decided: bool


@dataclass(frozen=True, slots=True)
class DependencyChain:
    """The chain of a picked slice.

    Attributes:
        slices: The slices, by hop and start.
        arrows: The arrows between them.
        left_out: How many further neighbours there are.
    """

    slices: tuple[ChainSlice, ...]
    arrows: tuple[ChainArrow, ...]
    left_out: int


def dependency_chain(recording: Recording, rank: int, slice_id: int, *, hops: int = 3) -> DependencyChain | None:
    """The chain of a slice up and down.

    Args:
        recording: The recording.
        rank: The slice's rank.
        slice_id: Its id.
        hops: How far the chain goes each way.

    Returns:
        None where the rank has no such slice.
    """
    t = timeline(recording, rank)
    row = int(t.rows_of([slice_id])[0])
    if row < 0:
        return None
    links: Links = memoized(recording, ("dependency_links", rank), lambda: Links(recording, t))
    hop_of, chain = {row: 0}, {row}
    arrows: dict[tuple[int, int], ChainArrow] = {}
    left_out = 0
    for way, find in ((-1, links.before), (1, links.after)):
        at: int | None = row
        for hop in range(1, hops + 1):
            if at is None:
                break
            found, more = _nearest(t, find(at))
            left_out += more
            for other, kind in found:
                hop_of.setdefault(other, way * hop)
                first, second = (other, at) if way < 0 else (at, other)
                arrows.setdefault((first, second), links.arrow(first, second, kind))
            at = links.next_of(at, [other for other, _ in found], way)
            chain |= {at} if at is not None else set()
            if way > 0 and at is not None:
                for other, kind in links.decided_elsewhere(at, hop_of):
                    hop_of[other] = hop - 1
                    arrows[other, at] = links.arrow(other, at, kind)
    order = sorted(hop_of, key=lambda one: (hop_of[one], int(t.ts[one]), one))
    return DependencyChain(
        tuple(_slice(t, one, hop_of[one], one in chain) for one in order),
        tuple(arrows[key] for key in sorted(arrows)),
        left_out,
    )


class Links:
    """What comes before and after each slice of one rank."""

    def __init__(self, recording: Recording, t: Timeline) -> None:
        self.t = t
        self._previous, self._next = neighbours(t)
        waits = [*explicit_waits(recording, t), *_host_flows(recording, t)]
        self._sources = _by_key((target, source, kind) for source, target, kind in waits)
        self._targets = _by_key(waits)
        self._launched = np.argsort(t.launch, kind="stable")

    def before(self, row: int) -> list[tuple[int, str]]:
        """The releases of a slice, each with its kind."""
        t, found = self.t, list(self._sources.get(row, ()))
        if t.state[row] >= 0:
            found += [(int(t.launch[row]), "launch"), (int(self._previous[row]), "stream_order")]
        elif int(t.category[row]) in _CALLS and t.parent[row] >= 0:
            found.append((int(t.parent[row]), "call"))
        elif not found and t.parent[row] >= 0 and int(t.category[t.parent[row]]) in _WORDS:
            found.append((int(t.parent[row]), "within"))
        elif not found:
            found.append(self._earlier(row))
        return _distinct(found)

    def after(self, row: int) -> list[tuple[int, str]]:
        """What a slice let go, each with its kind."""
        t, found = self.t, list(self._targets.get(row, ()))
        if t.state[row] >= 0:
            found.append((int(self._next[row]), "stream_order"))
        else:
            kernels = self._kernels_of(row)
            found += [(kernel, "launch") for kernel in kernels]
            if not kernels:
                found += [(call, "call") for call in self._calls_of(row)]
            if not found:
                found.append((self._later(row), "thread_order"))
        return _distinct(found)

    def arrow(self, first: int, second: int, kind: str) -> ChainArrow:
        """The arrow between two neighbours."""
        t = self.t
        wait = int(t.ts[second] - self._release(first, kind))
        return ChainArrow(int(t.slice_id[first]), int(t.slice_id[second]), kind, wait, self._decider(second) == first)

    def next_of(self, row: int, others: list[int], way: int) -> int | None:
        """Where the chain goes on: up at what decided, down at what this slice decided, else at the first."""
        if way < 0:
            return self._decider(row)
        decided = [other for other in others if self._decider(other) == row]
        return min(decided or others, key=lambda other: int(self.t.ts[other]), default=None)

    def decided_elsewhere(self, row: int, known: Container[int]) -> list[tuple[int, str]]:
        """What decided when a slice started, where that is not among the slices that are known already."""
        decider = self._decider(row)
        return [one for one in self.before(row) if one[0] == decider and decider not in known]

    def _decider(self, row: int) -> int | None:
        found = self.before(row)
        return max(found, key=lambda one: self._release(*one))[0] if found else None

    def _release(self, row: int, kind: str) -> int:
        """When a slice let its successor go, ns: a call and an enclosing op do so when they begin."""
        return int(self.t.ts[row] if kind in ("launch", "call", "within") else self.t.end[row])

    def _kernels_of(self, row: int) -> list[int]:
        low, high = np.searchsorted(self.t.launch, [row, row + 1], sorter=self._launched)
        return [int(one) for one in self._launched[low:high]]

    def _calls_of(self, row: int) -> list[int]:
        """The calls inside a slice that launched something."""
        t = self.t
        track = t.rows_of_track(int(t.track[row]))
        last = row + 1 + int(np.searchsorted(t.ts[row + 1 : track.stop], t.end[row]))
        inside = np.arange(row + 1, last)
        low = np.searchsorted(t.launch, inside, sorter=self._launched)
        high = np.searchsorted(t.launch, inside, side="right", sorter=self._launched)
        return [int(one) for one in inside[(high > low) & (t.end[inside] <= t.end[row])]]

    def _earlier(self, row: int) -> tuple[int, str]:
        """The slice before one in the same place of its thread, else the one that it is part of."""
        t = self.t
        track = t.rows_of_track(int(t.track[row]))
        alike = _alike(t, row, range(row - 1, max(track.start, row - 5000) - 1, -1))
        return (alike, "thread_order") if alike >= 0 else (int(t.parent[row]), "within")

    def _later(self, row: int) -> int:
        track = self.t.rows_of_track(int(self.t.track[row]))
        return _alike(self.t, row, range(row + 1, min(track.stop, row + 5000)))


def _alike(t: Timeline, row: int, rows: range) -> int:
    """The first of some rows with the same parent and lane; -1 for none."""
    places = np.fromiter(rows, dtype=np.int64)
    found = np.flatnonzero((t.parent[places] == t.parent[row]) & (t.lane[places] == t.lane[row]))
    return int(places[found[0]]) if len(found) else -1


def _host_flows(recording: Recording, t: Timeline) -> Iterable[tuple[int, int, str]]:
    """The arrows of ``flows`` that end on the host."""
    table = recording.table("flows", ranks=(t.rank,), columns=["from_slice_id", "to_slice_id", "kind"])
    source, target = (t.rows_of(table[name].to_numpy()) for name in ("from_slice_id", "to_slice_id"))
    kinds = np.array(table["kind"].to_pylist(), dtype=object)
    known = (source >= 0) & (target >= 0) & np.isin(kinds, _HOST_WAITS)
    return zip(source[known].tolist(), target[known].tolist(), kinds[known].tolist(), strict=True)


def _by_key(arrows: Iterable[tuple[int, int, str]]) -> dict[int, list[tuple[int, str]]]:
    found: dict[int, list[tuple[int, str]]] = {}
    for key, other, kind in arrows:
        found.setdefault(key, []).append((other, kind))
    return found


def _distinct(found: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    kinds: dict[int, str] = {}
    for other, kind in found:
        if other >= 0:
            kinds.setdefault(other, kind)
    return list(kinds.items())


def _nearest(t: Timeline, found: list[tuple[int, str]]) -> tuple[list[tuple[int, str]], int]:
    """The longest few of some neighbours, and how many more there are."""
    if len(found) <= MOST_A_HOP:
        return found, 0
    kept = sorted(found, key=lambda one: int(t.ts[one[0]] - t.end[one[0]]))[:MOST_A_HOP]
    return kept, len(found) - MOST_A_HOP


def _slice(t: Timeline, row: int, hop: int, on_chain: bool) -> ChainSlice:
    track = t.tracks[int(t.track[row])]
    names = {code: name for name, code in CATEGORY_CODE.items()}
    return ChainSlice(
        slice_id=int(t.slice_id[row]),
        name=t.name_of(row),
        category=names[int(t.category[row])],
        track=track.name or track.kind,
        on_device=track.on_device,
        ts=int(t.ts[row]),
        dur=int(t.end[row] - t.ts[row]),
        hop=hop,
        on_chain=on_chain,
    )
