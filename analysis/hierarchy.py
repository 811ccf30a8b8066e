"""Time by call path, by call stack or by module: a tree whose node says how long it and everything beneath it took.

Three ways to arrange a rank's host slices: ``calls`` follows the nesting of slices on their threads, Python functions
included where the recording has them; ``stack`` follows the call stacks that ops carry; ``module`` the modules of the
model. What runs in a backward pass counts for the forward op that it belongs to, in the last two. Three measures:
``host`` is the self time of the slices, ``device`` the time of the device work that they launched, ``stall`` the time
that a device waited for them (by the stalls' root cause; without the recorder's own pauses).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np

from .device_activity import rank_activity
from .group_statistics import group_sum
from .nesting import nearest, sum_beneath
from .program_callers import caller_rows, program_frames, recorder_threads
from .selection import device_selection, host_selection
from .self_time import self_time
from .slice_facts import all_stalls, of_the_program
from .source_position import SourceLine, forward_rows, stack_lines
from .timeline import CATEGORY_CODE, Ints, Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

By = Literal["calls", "stack", "module"]
Measure = Literal["host", "device", "stall"]
WAYS: tuple[By, ...] = get_args(By)
MEASURES: tuple[Measure, ...] = get_args(Measure)

NO_STACK = "(no stack recorded)"
NO_MODULE = "(outside of any module)"
NO_SLICE = "(no slice of the host)"

_NUMBERED = re.compile(r"^ProfilerStep#\d+$")


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """A tree as columns of equal length; a parent stands before its children.

    Attributes:
        names: What each node is called.
        categories: The category of its slices; "module" for a module, "python" for a frame of a stack.
        parent: The node above; -1 at the top.
        self_ns: Time of the node itself, ns.
        total_ns: Time of the node and everything beneath it, ns; the nodes at the top add up to the whole.
        count: How many slices (of the host, or of device work, or stalls) count for the node itself.
        longest: The id of the longest of them: a slice's, or a stall's by the measure ``stall``; -1 for none.
    """

    names: list[str]
    categories: list[str]
    parent: Ints
    self_ns: Ints
    total_ns: Ints
    count: Ints
    longest: Ints

    def __len__(self) -> int:
        return len(self.names)

    @property
    def whole_ns(self) -> int:
        """The time of all nodes at the top, ns."""
        return int(self.total_ns[self.parent < 0].sum())

    def largest(self, most: int) -> Hierarchy:
        """The same with at most so many nodes: those with the most time; a node's parent is always among them."""
        order = np.lexsort((np.arange(len(self)), -self.total_ns))
        kept = np.sort(order[: min(most, int(np.count_nonzero(self.total_ns)))])
        place = np.full(len(self) + 1, -1, dtype=np.int64)
        place[kept] = np.arange(len(kept))
        return Hierarchy(
            [self.names[n] for n in kept.tolist()],
            [self.categories[n] for n in kept.tolist()],
            place[self.parent[kept]],
            *(column[kept] for column in (self.self_ns, self.total_ns, self.count, self.longest)),
        )


def hierarchy(
    recording: Recording, rank: int, *, by: By = "calls", measure: Measure = "host", step: int | None = None
) -> Hierarchy:
    """The tree of one rank.

    Args:
        recording: The recording.
        rank: The rank.
        by: How slices are arranged.
        measure: What is added up.
        step: Only what belongs to this step: of the host, of the device for device work, of the stall for stalls.

    Raises:
        UsageError: The rank lacks the step.
    """
    t = timeline(recording, rank)
    tree = memoized(recording, ("call_tree", rank, by), lambda: _trees(recording, t)[by]())
    rows, values, ids = _measured(recording, t, measure, step)
    node = np.where(rows >= 0, np.append(tree.node, tree.outside)[rows], tree.outside)
    size = len(tree.names)
    own, count = group_sum(node, values, size), np.bincount(node, minlength=size).astype(np.int64)
    longest = np.full(size, -1, dtype=np.int64)
    order = np.argsort(values, kind="stable")
    longest[node[order]] = ids[order]
    total = sum_beneath(tree.parent, tree.depth, own)
    found = Hierarchy(tree.names, tree.categories, tree.parent, own, total, count, longest)
    return found.largest(size)


@dataclass(frozen=True, eq=False)
class _Tree:
    """Nodes, parents first, and the node of every row of the timeline; ``outside`` is that of no row."""

    names: list[str]
    categories: list[str]
    parent: Ints
    depth: Ints
    node: Ints
    outside: int


class _Growing:
    """A tree that paths are added to."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.categories: list[str] = []
        self.parent: list[int] = []
        self.depth: list[int] = []
        self._known: dict[tuple[int, str], int] = {}

    def add(self, parent: int, name: str, category: str) -> int:
        """The child of a node with this name; made if there is none."""
        key = (parent, name)
        if key not in self._known:
            self._known[key] = len(self.names)
            self.names.append(name)
            self.categories.append(category)
            self.parent.append(parent)
            self.depth.append(0 if parent < 0 else self.depth[parent] + 1)
        return self._known[key]

    def under(self, above: Ints, t: Timeline, rows: Ints) -> Ints:
        """The node of each of some rows, as a child of the node ``above`` it, by name."""
        key = (above.astype(np.int64) + 1) << 32 | t.name[rows]
        distinct, first, code = np.unique(key, return_index=True, return_inverse=True)
        categories = {number: name for name, number in CATEGORY_CODE.items()}
        nodes = [
            self.add(int(one >> 32) - 1, _plain(t.names[int(one & 0xFFFFFFFF)]), categories[int(t.category[rows[at]])])
            for one, at in zip(distinct.tolist(), first.tolist(), strict=True)
        ]
        return np.array(nodes, dtype=np.int64)[code]

    def finished(self, node: Ints, outside: str) -> _Tree:
        """The tree; rows of no node lie in the one called ``outside``."""
        nowhere = self.add(-1, outside, "other")
        depth, parent = np.array(self.depth, dtype=np.int64), np.array(self.parent, dtype=np.int64)
        return _Tree(self.names, self.categories, parent, depth, np.where(node < 0, nowhere, node), nowhere)


def _plain(name: str) -> str:
    """A name without the number of the step, so that steps come together."""
    return "ProfilerStep" if _NUMBERED.match(name) else name


def _threads(t: Timeline) -> tuple[int, ...]:
    """The tracks of the program's threads: one like "PyTorch Profiler" repeats their time, and others record."""
    own = recorder_threads(t)
    threads = tuple(one for one in t.threads if one not in own)
    return tuple(one for one in threads if t.tracks[one].thread_id is not None) or threads


def _trees(recording: Recording, t: Timeline) -> dict[By, Callable[[], _Tree]]:
    return {
        "calls": lambda: _by_calls(t),
        "stack": lambda: _by_stack(recording, t),
        "module": lambda: _by_module(recording, t),
    }


def _by_calls(t: Timeline) -> _Tree:
    tree, node = _Growing(), np.full(len(t), -1, dtype=np.int64)
    tops = np.array([tree.add(-1, one.name or one.kind, "other") if not one.on_device else -1 for one in t.tracks])
    host, callers = np.flatnonzero(np.isin(t.track, _threads(t))), caller_rows(t)
    for depth in range(int(t.depth[host].max()) + 1 if len(host) else 0):
        rows = host[t.depth[host] == depth]
        parent = t.parent[rows]
        above = np.where(parent >= 0, node[parent], tops[t.track[rows]])
        # What called the program counts for the thread.
        node[rows], inside = above, ~callers[rows]
        node[rows[inside]] = tree.under(above[inside], t, rows[inside])
    return tree.finished(node, NO_SLICE)


def _by_stack(recording: Recording, t: Timeline) -> _Tree:
    """Frames of the stack that a slice carries, then the name of the slice that carries it."""
    tree, stacks = _Growing(), stack_lines(recording)
    place = stacks.place(t.stack)
    bearer = _with_forward(t, place >= 0)
    leaf = np.full(len(stacks.stack_id) + 1, -1, dtype=np.int64)
    for one in np.unique(place[place >= 0]).tolist():
        above = -1
        for line in program_frames(stacks.lines_of(one)):
            above = tree.add(above, _frame_name(line), "python")
        leaf[one] = above
    node, rows = np.full(len(t), -1, dtype=np.int64), np.flatnonzero(bearer >= 0)
    if len(rows):
        node[rows] = tree.under(leaf[place[bearer[rows]]], t, bearer[rows])
    return tree.finished(node, NO_STACK)


def _frame_name(line: SourceLine) -> str:
    """A frame of a stack as torch.profiler names a Python function."""
    return f"{line.file}({line.line}): {line.function or '?'}" if line.file else line.function or "?"


def _by_module(recording: Recording, t: Timeline) -> _Tree:
    tree = _Growing()
    table = recording.table("modules", columns=["module_id", "parent_id", "path", "class_name"]).to_pylist()
    known, nodes = {row["module_id"]: row for row in table}, {}

    def node_of(module: int, seen: frozenset[int] = frozenset()) -> int:
        if module not in nodes:
            row = known[module]
            above = row["parent_id"]
            inside = above in known and above not in seen
            parent = node_of(above, seen | {module}) if inside else -1
            nodes[module] = tree.add(parent, str(row["path"] or row["class_name"]), "module")
        return nodes[module]

    ids = np.array(sorted(known), dtype=np.int64)
    numbers = np.array([node_of(one) for one in ids.tolist()], dtype=np.int64)
    bearer = _with_forward(t, np.isin(t.module, ids))
    node, rows = np.full(len(t), -1, dtype=np.int64), np.flatnonzero(bearer >= 0)
    if len(rows):
        node[rows] = numbers[np.searchsorted(ids, t.module[bearer[rows]])]
    return tree.finished(node, NO_MODULE)


def _with_forward(t: Timeline, bears: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Ints:
    """Per row the nearest slice at or above it that bears something; of a backward row else that of its forward op."""
    bearer = nearest(t.parent, bears)
    forward = forward_rows(t)
    through = np.append(bearer, -1)[forward]
    return np.where((bearer < 0) & (forward >= 0), through, bearer)


def _measured(recording: Recording, t: Timeline, measure: Measure, step: int | None) -> tuple[Ints, Ints, Ints]:
    """The rows of the host that something counts for (-1: none), its time, and the id of what it is."""
    if measure == "stall":
        frame = of_the_program(all_stalls(recording, t.rank))
        if step is not None:
            frame = frame[(frame["step"] == step).fillna(False).astype(bool)]
        known = frame["root_slice_id"].fillna(frame["host_slice_id"]).fillna(-1).to_numpy(dtype=np.int64)
        ids, values = frame["stall_id"].to_numpy(dtype=np.int64), frame["dur"].to_numpy(dtype=np.int64)
        return t.rows_of(known).astype(np.int64), values, ids
    everything = step is None
    if measure == "device":
        parts = [
            one.rows[device_selection(recording, t.rank, one, step=step, everything=everything).holds(t.ts[one.rows])]
            for one in rank_activity(recording, t.rank).devices
            if one.device is not None
        ]
        rows = np.concatenate([np.zeros(0, dtype=np.int64), *parts])
        return t.launch[rows].astype(np.int64), (t.end - t.ts)[rows], t.slice_id[rows]
    # As with stalls, a profiler's own work is not the program's.
    chosen = np.isin(t.track, _threads(t)) & ~t.is_category("overhead")
    chosen &= host_selection(recording, t.rank, step=step, everything=everything).holds(t.ts)
    rows = np.flatnonzero(chosen)
    return rows, self_time(t.ts, t.end, t.parent)[rows], t.slice_id[rows]
