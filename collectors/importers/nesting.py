"""Which slice contains which: parent, depth and lane of the slices of one track.

Rules, in the order in which they decide:

* Rows come sorted by (start, longest first, order in the file). A slice is half-open, ``[ts, end)``.
* A slice contains every later row that starts before its end and does not end after it. So of two slices with the same
  stamps the first contains the second, a slice of no length at the start of a longer one lies inside it, at the end of
  a longer one it does not, and slices of no length never contain anything.
* Slices that overlap without nesting cannot share a lane. A track that nests uses lane 0 alone. Where two overlap, a
  movable slice (a range that the user names may overlap anything) gives way to a slice that is not; otherwise each
  slice takes the lowest lane whose innermost open slice contains it or in which nothing is open. No slice is dropped.
* Movable slices that had to give way use lanes above those of all the others, as does each further layer (device work,
  waits, annotations), so that a kernel never lies inside an annotation of its stream.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

_ROUNDS = 8
"""How often annotations may give way before all that is left is laid out slice by slice."""


@dataclass(frozen=True, slots=True)
class Nesting:
    """Where the slices of one track lie.

    Attributes:
        parent: The row of the innermost slice of the same lane that contains each; -1 where there is none.
        depth: How many slices of the same lane contain it.
        lane: Its row within the track.
    """

    parent: Rows
    depth: Rows
    lane: Rows


def nest(ts: Ints, end: Ints, *, layer: npt.NDArray[np.int8] | None = None, movable: Mask | None = None) -> Nesting:
    """Lays out the slices of one track.

    Args:
        ts: Starts, sorted by (ts, -end).
        end: Ends, never before the start.
        layer: Slices of different layers never share a lane; lower ones get the lower lanes. None: all in one.
        movable: The slices that give way first where two overlap without nesting. None: none.

    Returns:
        Parent, depth and lane of each row.
    """
    if layer is None or ts.size == 0 or not layer.any():
        return _nest_layer(ts, end, movable)
    whole = _empty(ts.size)
    base = 0
    for value in np.unique(layer):
        rows = np.flatnonzero(layer == value)
        part = _nest_layer(ts[rows], end[rows], None if movable is None else movable[rows])
        base = _place(whole, part, rows, base)
    return whole


def _empty(size: int) -> Nesting:
    return Nesting(np.full(size, -1, np.int32), np.zeros(size, np.int32), np.zeros(size, np.int32))


def _place(whole: Nesting, part: Nesting, rows: npt.NDArray[np.intp], base: int) -> int:
    """Writes the layout of some rows into the whole, in lanes from ``base``; returns the first lane above them."""
    if rows.size == 0:
        return base
    has_parent = part.parent >= 0
    whole.parent[rows] = np.where(has_parent, rows[part.parent], -1)
    whole.depth[rows] = part.depth
    whole.lane[rows] = part.lane + base
    return int(part.lane.max()) + base + 1


def _nest_layer(ts: Ints, end: Ints, movable: Mask | None) -> Nesting:
    parent, depth = _as_if_laminar(ts, end)
    crossing = _crossing(end, parent)
    if crossing.size and movable is not None and movable.any():
        moved = _that_give_way(ts, end, movable)
        if moved.any():
            whole = _empty(ts.size)
            stay, go = np.flatnonzero(~moved), np.flatnonzero(moved)
            base = _place(whole, _nest_layer(ts[stay], end[stay], None), stay, 0)
            _place(whole, _nest_layer(ts[go], end[go], None), go, base)
            return whole
    lane = np.zeros(ts.size, np.int32)
    if crossing.size:
        _first_fit(ts, end, crossing, Nesting(parent, depth, lane))
    return Nesting(parent, depth, lane)


def _as_if_laminar(ts: Ints, end: Ints) -> tuple[Rows, Rows]:
    """Parent and depth, right where no two slices overlap without nesting.

    The depth of a row is the number of earlier rows that are still open at its start; its parent is the last earlier
    row one level up. If then no row ends after its parent, the rows nest: by induction the rows open at each start form
    a chain, whose innermost is that parent. If two overlap without nesting, some row does end after its parent.
    """
    size = ts.size
    rows = np.arange(size, dtype=np.int64)
    closed = np.searchsorted(np.sort(end), ts, side="right")
    depth = rows - closed
    no_length = end == ts
    if no_length.any():
        # Those at or behind the row itself, with the same start, have been counted as closed before it.
        counted = np.concatenate(([0], np.cumsum(no_length)))
        depth += counted[np.searchsorted(ts, ts, side="right")] - counted[:-1]
    parent = np.full(size, -1, np.int32)
    by_depth = np.argsort(depth.astype(np.int16) if size and depth.max() < 32768 else depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(depth.max() + 2 if size else 1))
    for level in range(1, len(bounds) - 1):
        inner = by_depth[bounds[level] : bounds[level + 1]]
        outer = by_depth[bounds[level - 1] : bounds[level]]
        parent[inner] = outer[np.searchsorted(outer, inner) - 1]
    return parent, depth.astype(np.int32)


def _crossing(end: Ints, parent: Rows) -> npt.NDArray[np.intp]:
    """The rows that end after what ``_as_if_laminar`` takes for their parent."""
    return np.flatnonzero((parent >= 0) & (end > end[parent]))


def _that_give_way(ts: Ints, end: Ints, movable: Mask) -> Mask:
    """The movable rows that overlap one that is not, without nesting."""
    moved = np.zeros(ts.size, np.bool_)
    for _ in range(_ROUNDS):
        stay = np.flatnonzero(~moved)
        parent, _depth = _as_if_laminar(ts[stay], end[stay])
        inner = _crossing(end[stay], parent)
        outer = parent[inner]
        inner_moves, outer_moves = movable[stay[inner]], movable[stay[outer]]
        found = np.concatenate((inner[inner_moves & ~outer_moves], outer[outer_moves & ~inner_moves]))
        if found.size == 0:
            break
        moved[stay[found]] = True
    return moved


def _first_fit(ts: Ints, end: Ints, crossing: npt.NDArray[np.intp], layout: Nesting) -> None:
    """Lays out again, slice by slice, each stretch of connected slices that holds a crossing one."""
    open_until = np.maximum.accumulate(end)
    starts = np.concatenate(([0], np.flatnonzero(ts[1:] >= open_until[:-1]) + 1, [ts.size]))
    for stretch in np.unique(np.searchsorted(starts, crossing, side="right") - 1):
        first, last = int(starts[stretch]), int(starts[stretch + 1])
        _first_fit_stretch(ts[first:last].tolist(), end[first:last].tolist(), first, layout)


def _first_fit_stretch(ts: list[int], end: list[int], first: int, layout: Nesting) -> None:
    lanes: list[list[int]] = []
    for row, (start, stop) in enumerate(zip(ts, end, strict=True)):
        for lane, stack in enumerate(lanes):  # noqa: B007 - both are used after the loop
            while stack and end[stack[-1]] <= start:
                stack.pop()
            if not stack or end[stack[-1]] >= stop:
                break
        else:
            lane, stack = len(lanes), []
            lanes.append(stack)
        layout.parent[first + row] = first + stack[-1] if stack else -1
        layout.depth[first + row] = len(stack)
        layout.lane[first + row] = lane
        stack.append(row)
