"""The different call stacks of a trace, and the ``Call stack`` texts of the layouts of 2021 and 2022."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]

CALL_STACK = b'"Call stack":'
_CALL_STACK_MEMBER = r'"Call stack":(?P<stack>"(?:[^"\\]|\\.)*"),?'
_SOURCE_POSITION = re.compile(r"^(?P<file>.+)\((?P<line>\d+)\): (?P<function>.*)$", re.DOTALL)

_PATHS_AT_ONCE = 1 << 16

Frame = tuple[str | None, int | None, str]


def frame_of(text: str) -> Frame:
    """File, line and function of a frame as the profiler writes it, ``train.py(12): step``; no file for a built-in."""
    found = _SOURCE_POSITION.match(text)
    if found is None or len(found["line"]) > 9:
        return None, None, text
    return found["file"], int(found["line"]), found["function"]


class Stacks:
    """The different stacks and frames of a trace: a stack is a caller's stack and one more frame.

    Attributes:
        frames: Each different frame with its number, in order of first use.
    """

    def __init__(self) -> None:
        self.frames: dict[Frame, int] = {}
        self._texts: dict[str, int] = {}
        self._numbers: dict[tuple[int, int], int] = {}
        self._callers: list[Ints] = []
        self._frames: list[Ints] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def frame(self, text: str) -> int:
        """The number of a frame given as the profiler writes it."""
        return self.frames.setdefault(frame_of(text), len(self.frames))

    def add(self, callers: Ints, frames: Ints) -> int:
        """Adds stacks that are known to be new: for each that of its caller (-1: none) and its own frame.

        Returns:
            The number of the first; the others follow.
        """
        first = self._count
        self._callers.append(callers)
        self._frames.append(frames)
        self._count += callers.size
        return first

    def of_text(self, text: str) -> int:
        """The number of a stack given as ``Call stack`` text, innermost first and separated by ``;``; -1 if empty."""
        if text not in self._texts:
            number = -1
            for part in reversed(text.split(";")):
                if not part:
                    continue
                key = (number, self.frame(part))
                if key not in self._numbers:
                    self._numbers[key] = self.add(np.array(key[:1], np.int64), np.array(key[1:], np.int64))
                number = self._numbers[key]
            self._texts[text] = number
        return self._texts[text]

    def paths(self) -> Iterator[tuple[Ints, Ints]]:
        """All stacks in order, some at a time: (how many frames each has, their frames one after the other).

        Frames are outermost first.
        """
        callers = np.concatenate(self._callers) if self._callers else np.empty(0, np.int64)
        frames = np.concatenate(self._frames) if self._frames else np.empty(0, np.int64)
        for first in range(0, self._count, _PATHS_AT_ONCE):
            here = np.arange(first, min(first + _PATHS_AT_ONCE, self._count))
            columns: list[tuple[Ints, Ints]] = []
            picks, node = np.arange(here.size), here
            while node.size:
                columns.append((picks, frames[node]))
                node = callers[node]
                picks, node = picks[node >= 0], node[node >= 0]
            length = np.bincount(np.concatenate([column[0] for column in columns]), minlength=here.size)
            end = np.cumsum(length)
            flat = np.empty(int(end[-1]), np.int64)
            for distance, (rows, values) in enumerate(columns):
                flat[end[rows] - 1 - distance] = values
            yield length, flat

    def take_call_stacks(self, args: pa.StringArray) -> tuple[pa.StringArray, Ints]:
        """Takes the ``Call stack`` member out of args texts.

        Returns:
            The texts without it, and the number of each text's stack, -1 where it has none or an empty one.
        """
        found = pc.struct_field(pc.extract_regex(args, _CALL_STACK_MEMBER), "stack").dictionary_encode()
        numbers = [self.of_text(json.loads(text)) for text in found.dictionary.to_pylist()]
        codes = pc.fill_null(found.indices, len(numbers)).to_numpy(zero_copy_only=False)
        rest = pc.replace_substring_regex(args, _CALL_STACK_MEMBER, "", max_replacements=1)
        rest = pc.replace_substring_regex(rest, r",\}$", "}", max_replacements=1)
        return rest, np.array([*numbers, -1], np.int64)[codes]
