"""Call stacks as torch.profiler writes them: in the ids of Python slices, else in an argument of the op.

A slice of a Python function names its caller by id, and readers build its stack from there: the caller may have begun
before the trace or be of another thread. Where a track shows no Python functions, each op carries its stack as text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .row_batches import row_batches

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording

PYTHON_CATEGORIES = frozenset({"python", "module", "gc"})
"""The categories whose slices are calls of Python functions."""

_TEXTS_KEPT = 4096


class CallStacks:
    """The arguments of slices that say their call stacks.

    Args:
        recording: Where from.
        ranks: The ranks.
    """

    def __init__(self, recording: Recording, ranks: Sequence[int]) -> None:
        stacks = recording.table("stacks", ranks=ranks)
        self._paths: dict[int, tuple[int, ...]] = {
            stack_id: tuple(path)
            for stack_id, path in zip(stacks["stack_id"].to_pylist(), stacks["frame_ids"].to_pylist(), strict=True)
        }
        self._frames = {
            row["frame_id"]: f"{row['file']}({row['line']}): {row['function']}" if row["file"] else row["function"]
            for row in recording.table("frames", ranks=ranks).to_pylist()
        }
        self._shown: set[int] = set()
        self._call_of_path: dict[tuple[int, ...], int] = {}
        self._find_python(recording, ranks)
        self._text = lru_cache(_TEXTS_KEPT)(self._text_of_stack)

    def argument(self, track_id: int, category: str, slice_id: int, stack_id: int | None) -> str:
        """The members of a slice's arguments, as JSON; empty where there is nothing to say."""
        if track_id not in self._shown:
            return "" if stack_id is None else self._text(stack_id)
        if category not in PYTHON_CATEGORIES:
            return ""
        caller = None if stack_id is None else self._call_of_path.get(self._paths.get(stack_id, ())[:-1])
        return f'"Python id":{slice_id}' + ("" if caller is None else f',"Python parent id":{caller}')

    def _text_of_stack(self, stack_id: int) -> str:
        # ``;`` separates the frames of the text, so it cannot stand in one.
        names = [
            self._frames.get(frame_id, "").replace(";", ",") for frame_id in reversed(self._paths.get(stack_id, ()))
        ]
        return f'"Call stack":{json.dumps(";".join(names))}' if names else ""

    def _find_python(self, recording: Recording, ranks: Sequence[int]) -> None:
        """Notes the tracks that show Python functions, and for each stack a call that has it."""
        wanted = pa.array(sorted(PYTHON_CATEGORIES))
        columns = ("track_id", "category", "slice_id", "stack_id")
        for batch in row_batches(recording, "slices", ranks, columns=columns):
            calls = batch.filter(pc.is_in(batch.column("category").cast(pa.string()), value_set=wanted))
            self._shown.update(np.unique(calls.column("track_id").to_numpy()).tolist())
            known = calls.filter(pc.is_valid(calls.column("stack_id")))
            stacks, first = np.unique(known.column("stack_id").to_numpy(), return_index=True)
            for stack_id, slice_id in zip(
                stacks.tolist(), known.column("slice_id").to_numpy()[first].tolist(), strict=True
            ):
                self._call_of_path.setdefault(self._paths.get(stack_id, (stack_id,)), slice_id)
