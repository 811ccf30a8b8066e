"""The line that ran, where a trace with Python stacks gives only the functions: from the text of the source.

Such a trace says that ``train`` called ``item``. Where the recording holds the user's files, the calls of a function
are laid beside the call sites in its text (``call_sites``), and a call gets the line of its site. Time that a function
spent in none of its calls has no such line; the sampler may have seen it (``sampled_lines``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .call_sites import ANY, MODULE, FunctionText, functions_of, is_named, placed_calls
from .nesting import above, nearest
from .source_position import SourceLine, forward_rows, python_line
from .timeline import Ints, Timeline, memoized, timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

AROUND = 24
"""So many calls before and after one are laid beside the source with it: loops repeat, and the same answer serves."""

_BUILT_IN = re.compile(r"^<built-in (?:method|function) ([^ >]+)")
_OP = re.compile(r"([^:]+)$")
_WRAPPERS = frozenset(
    {"wrapper", "_wrapper", "inner", "wrapped", "decorated", "decorate_context", "decorate_no_grad", "_fn", "__call__"}
)
WRAPPER = "(wrapper)"
"""Stands for the name of a decorator's function, which the source does not mention."""

_MOST_WRAPPERS = 4
_HAS_PLACE = re.compile(r"^[^<][^\n]*\(\d+\): ")
_COMPILED = re.compile(r"(?:^|/)torch/_dynamo/eval_frame\.py$")
"""A call of a compiled function is recorded as one of functions in there."""


@dataclass(frozen=True, eq=False)
class UserCalls:
    """Where each row of a timeline stands in the user's own functions.

    Attributes:
        function: Per row the innermost slice of a user's function at or above it, -1 for none.
        call: Per row the call that this function was in: a slice right below it; -1 where it was in none.
        place: Per name of the timeline what it says of a function's place; None where it says nothing.
    """

    function: Ints
    call: Ints
    place: tuple[SourceLine | None, ...]


class ExecutingLines:
    """Finds lines by the source that the recording holds; asked row by row, since few rows are of interest."""

    def __init__(self, t: Timeline, files: dict[str, str]) -> None:
        self._t = t
        self._files = files
        self._texts: dict[str, dict[tuple[str, int], FunctionText]] = {}
        self._path_of: dict[str, str | None] = {}
        self._known: dict[tuple[str, tuple[str, ...], int], int] = {}
        self._split: dict[str, list[str]] = {}
        self._short: dict[int, str] = {}
        self._wrapped_name: dict[int, str] = {}

    @cached_property
    def calls(self) -> UserCalls:
        """Where each slice stands in the user's functions."""
        return _user_calls(self._t)

    @cached_property
    def _owned(self) -> tuple[Ints, Ints]:
        """The calls right below user's functions, those of each function together, and whose each is."""
        rows = np.flatnonzero(self.calls.call == np.arange(len(self._t)))
        rows = rows[np.argsort(self.calls.function[rows], kind="stable")]
        return rows, self.calls.function[rows]

    @property
    def has_text(self) -> bool:
        """Whether the recording holds any source."""
        return bool(self._files)

    def line_of(self, row: int) -> SourceLine | None:
        """The line of the user's function that ran when a slice was called; None where the source does not tell."""
        call, function = int(self.calls.call[row]), int(self.calls.function[row])
        text = self._text(function) if call >= 0 else None
        if text is None:
            return None
        mine, at = self._neighbours(function, call)
        names = tuple(self._name(other, text) for other in mine)
        place = self.calls.place[int(self._t.name[function])]
        assert place is not None
        path = self.path(place.file)
        key = (f"{path}:{text.first}:{place.function}", names, at)
        if key not in self._known:
            self._known[key] = placed_calls(text.sites, names)[at]
        site = self._known[key]
        # A call that only stands where another name does is a guess: it helps to place others, and names no line.
        if site < 0 or not (names[at] in (ANY, MODULE) or is_named(text.sites[site], names[at])):
            return None
        return SourceLine(path, text.sites[site].line, place.function, "user")

    def function_of(self, row: int) -> SourceLine | None:
        """The user's function that a slice stands in, by its full path; None where it stands in none."""
        function = int(self.calls.function[row])
        place = self.calls.place[int(self._t.name[function])] if function >= 0 else None
        return None if place is None else SourceLine(self.path(place.file), place.line, place.function, "user")

    def only_loop(self, row: int) -> SourceLine | None:
        """The one loop of the user's function that a slice stands in; None where it has none or several.

        Code without a call takes long only in a loop.
        """
        around, text = self.function_of(row), self._text(int(self.calls.function[row]))
        if around is None or text is None or len(text.loops) != 1:
            return None
        return SourceLine(around.file, text.loops[0], around.function, "user")

    def loop_around(self, place: SourceLine) -> SourceLine | None:
        """The one loop of the function that a line stands in; None where it has none or several."""
        inside = [
            text for text in self._functions(self.path(place.file)).values() if text.first <= place.line <= text.last
        ]
        innermost = max(inside, key=lambda text: text.first, default=None)
        if innermost is None or len(innermost.loops) != 1:
            return None
        return SourceLine(place.file, innermost.loops[0], place.function, place.origin)

    def text_at(self, place: SourceLine) -> str:
        """The text of a line; "" where the recording does not hold it."""
        path = self.path(place.file)
        if path not in self._split:
            self._split[path] = self._files.get(path, "").splitlines()
        lines = self._split[path]
        return lines[place.line - 1] if 0 < place.line <= len(lines) else ""

    def path(self, file: str) -> str:
        """The full path of a file that a trace names by its end; the name itself where that is not unique."""
        if file not in self._path_of:
            ends = [path for path in self._files if path == file or path.endswith("/" + file.removeprefix("./"))]
            self._path_of[file] = ends[0] if len(ends) == 1 else None
        return self._path_of[file] or file

    def _text(self, function: int) -> FunctionText | None:
        place = self.calls.place[int(self._t.name[function])] if function >= 0 else None
        if place is None:
            return None
        return self._functions(self.path(place.file)).get((place.function, place.line))

    def _functions(self, path: str) -> dict[tuple[str, int], FunctionText]:
        """The functions of a file; none where the recording does not hold it."""
        if path not in self._texts:
            self._texts[path] = functions_of(self._files.get(path, ""))
        return self._texts[path]

    def _neighbours(self, function: int, call: int) -> tuple[list[int], int]:
        """The calls of one run of a function around one of them, and its place among them."""
        rows, owners = self._owned
        first, last = np.searchsorted(owners, [function, function + 1])
        at = int(np.searchsorted(rows[first:last], call)) + int(first)
        low, high = max(int(first), at - AROUND), min(int(last), at + AROUND + 1)
        return rows[low:high].tolist(), at - low

    def _name(self, row: int, text: FunctionText) -> str:
        name = self._short_name(row)
        if name != WRAPPER:
            return name
        if row not in self._wrapped_name:
            wrapped = self._wrapped(row)
            self._wrapped_name[row] = wrapped if any(is_named(site, wrapped) for site in text.sites) else ANY
        return self._wrapped_name[row]

    def _short_name(self, row: int) -> str:
        name = int(self._t.name[row])
        if name not in self._short:
            self._short[name] = _called(self._t.names[name])
        return self._short[name]

    def _wrapped(self, row: int) -> str:
        """The name of what a wrapper wraps: of the functions that it calls the one that takes most of its time."""
        for _ in range(_MOST_WRAPPERS):
            first, last = np.searchsorted(self._parents, [row, row + 1])
            inner = self._by_parent[first:last]
            inner = inner[self._has_place[self._t.name[inner]]]
            if not len(inner):
                return ANY
            row = int(inner[np.argmax(self._t.end[inner] - self._t.ts[inner])])
            if self._short_name(row) != WRAPPER:
                return self._short_name(row)
        return ANY

    @cached_property
    def _has_place(self) -> npt.NDArray[np.bool_]:
        """Per name whether it is that of a Python function with a file."""
        return np.array([_HAS_PLACE.search(name) is not None for name in self._t.names], dtype=np.bool_)

    @cached_property
    def _by_parent(self) -> Ints:
        """All rows, those with the same parent together."""
        return np.argsort(self._t.parent, kind="stable").astype(np.int64)

    @cached_property
    def _parents(self) -> Ints:
        """The parent of each of those."""
        return self._t.parent[self._by_parent].astype(np.int64)


def executing_lines(recording: Recording, rank: int) -> ExecutingLines:
    """The lines of a rank; set up once per recording."""

    def build() -> ExecutingLines:
        table = recording.table("sources", columns=["path", "text"])
        files = {
            path: text for path, text in zip(*(table[c].to_pylist() for c in ("path", "text")), strict=True) if text
        }
        return ExecutingLines(timeline(recording, rank), files)

    return memoized(recording, ("executing_lines", rank), build)


def _user_calls(t: Timeline) -> UserCalls:
    """What every row's innermost user function was calling then; the backward pass stands where its forward op does."""
    traced = t.is_category("python", "module") & (t.segment >= 0)
    place = _places(t, traced)
    is_user = np.array([one is not None and one.origin == "user" for one in place] + [False], dtype=np.bool_)
    user = traced & is_user[t.name] if len(t) else traced
    around = above(t.parent, nearest(t.parent, traced))
    is_op = t.is_category("op")
    nested = is_op & np.append(is_op, False)[t.parent]
    direct = (traced | is_op) & ~nested & np.append(user, False)[around]
    function = nearest(t.parent, user)
    call = nearest(t.parent, direct)
    # A user's own function that was called from this place has a line of its own.
    call[(call >= 0) & (np.append(around, -1)[call] != function)] = -1
    forward = forward_rows(t)
    borrowed = (forward >= 0) & (function[forward] >= 0)
    function[borrowed], call[borrowed] = function[forward[borrowed]], call[forward[borrowed]]
    return UserCalls(function, call, place)


def _places(t: Timeline, traced: npt.NDArray[np.bool_]) -> tuple[SourceLine | None, ...]:
    found: list[SourceLine | None] = [None] * len(t.names)
    for name in np.unique(t.name[traced]).tolist():
        found[name] = python_line(t.names[name])
    return tuple(found)


def _called(name: str) -> str:
    """What a slice of a call is called in the source."""
    if name.startswith("nn.Module: "):
        return MODULE
    place = python_line(name)
    if place is not None:
        if _COMPILED.search(place.file):
            return ANY
        return WRAPPER if place.function in _WRAPPERS else place.function
    built_in = _BUILT_IN.match(name)
    found = built_in or _OP.search(name)
    return found[1] if found else ANY
