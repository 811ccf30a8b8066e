"""Call stacks and modules from python_function slices.

Python slices form a tree by their ids; a stack is a path in it, so two slices with the same path share one stack. Other
slices of the host have the stack of the innermost Python slice around them, and likewise its module.
"""

from __future__ import annotations

import re

import numpy as np
import numpy.typing as npt

from .slices import Slices
from .stacks import Stacks

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]

_MODULE = re.compile(r"^nn\.Module: (?P<class>.+?)(?:_(?P<number>\d+))?$")


def python_stacks(slices: Slices, stacks: Stacks) -> Rows:
    """For each slice the number of its stack by the Python slices around it; -1 where there are none."""
    is_python = slices.pairs.in_categories("python", "module", "gc")[slices.pair]
    rows = np.flatnonzero(is_python)
    if rows.size == 0:
        return _no_values(slices)
    stack = np.full(len(slices), -1, np.int32)
    parent = _python_parents(slices, rows)
    names = slices.pairs.name[slices.pair[rows]]
    used, frame_code = np.unique(names, return_inverse=True)
    frames = np.array([stacks.frame(slices.pairs.names[name]) for name in used], np.int64)[frame_code]
    stack[rows] = _interned(parent, frames, stacks)
    inherit(slices, stack)
    return stack


def _python_parents(slices: Slices, rows: npt.NDArray[np.intp]) -> Ints:
    """For each Python row the position, among them, of its caller; -1 where none is in the trace."""
    identity, has_identity = slices.some_ints("python_id", rows)
    caller, has_caller = slices.some_ints("python_parent_id", rows)
    if not has_identity.all() or np.unique(identity).size != rows.size:
        return _enclosing_python(slices, rows)
    order = np.argsort(identity)
    place = np.minimum(np.searchsorted(identity[order], caller), rows.size - 1)
    known = has_caller & (identity[order[place]] == caller)
    return np.where(known, order[place], -1)


def _enclosing_python(slices: Slices, rows: npt.NDArray[np.intp]) -> Ints:
    """The nearest Python row that contains each, where ids do not tell."""
    position = np.full(len(slices), -1, np.int64)
    position[rows] = np.arange(rows.size)
    above = slices.parent[rows].astype(np.int64)
    while True:
        other = np.flatnonzero((above >= 0) & (position[above] < 0))
        if other.size == 0:
            return np.where(above >= 0, position[above], -1)
        above[other] = slices.parent[above[other]]


def _interned(parent: Ints, frame: Ints, stacks: Stacks) -> Rows:
    """The stack of each node of a forest, level by level from the roots; -1 for nodes on a cycle."""
    result = np.full(parent.size, -1, np.int32)
    by_parent = np.argsort(parent, kind="stable")
    sorted_parent = parent[by_parent]
    level = np.flatnonzero(parent < 0)
    while level.size:
        above = np.where(parent[level] >= 0, result[parent[level]], -1).astype(np.int64)
        keys, inverse = np.unique((above + 1) << 32 | frame[level], return_inverse=True)
        result[level] = stacks.add((keys >> 32) - 1, keys & 0xFFFFFFFF) + inverse
        first, last = (np.searchsorted(sorted_parent, level, side=side) for side in ("left", "right"))
        level = by_parent[_ranges(first, last)]
    return result


def _ranges(first: npt.NDArray[np.intp], last: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """The integers of all ranges [first, last), one after the other."""
    size = last - first
    keep = size > 0
    first, size = first[keep], size[keep]
    if size.size == 0:
        return np.empty(0, np.intp)
    steps = np.ones(int(size.sum()), np.intp)
    steps[0] = first[0]
    edges = np.cumsum(size)[:-1]
    steps[edges] = first[1:] - (first[:-1] + size[:-1] - 1)
    return np.cumsum(steps)


def inherit(slices: Slices, values: Rows) -> None:
    """Gives each slice that has no value (-1) that of the slice which contains it, in place."""
    depth = slices.depth
    order = np.argsort(depth, kind="stable")
    edges = np.searchsorted(depth[order], np.arange(int(depth.max()) + 2 if len(depth) else 1))
    for level in range(1, len(edges) - 1):
        rows = order[edges[level] : edges[level + 1]]
        lacking = rows[values[rows] < 0]
        values[lacking] = values[slices.parent[lacking]]


def _no_values(slices: Slices) -> Rows:
    """-1 for every slice, without the memory."""
    return np.broadcast_to(np.int32(-1), len(slices))


class Modules:
    """The modules of a trace: what the profiler calls ``nn.Module: Linear_3``."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.classes: list[str] = []
        self.parents: list[int] = []


def modules(slices: Slices) -> tuple[Modules, Rows]:
    """The modules, and for each slice the innermost one it ran in (-1: none)."""
    found = Modules()
    rows = np.flatnonzero(slices.pairs.in_categories("module")[slices.pair])
    if rows.size == 0:
        return found, _no_values(slices)
    module = np.full(len(slices), -1, np.int32)
    used, first, code = np.unique(slices.pairs.name[slices.pair[rows]], return_index=True, return_inverse=True)
    for name in used:
        text = slices.pairs.names[name]
        matched = _MODULE.match(text)
        found.names.append(text.removeprefix("nn.Module: "))
        found.classes.append(matched["class"] if matched else text)
    module[rows] = code
    inherit(slices, module)
    above = slices.parent[rows[first]]
    parents = np.where(above >= 0, module[above], -1)
    found.parents = np.where(parents == np.arange(parents.size), -1, parents).tolist()
    return found, module
