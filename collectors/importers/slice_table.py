"""The table ``slices``, written block by block in its final order."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...profiler.recording.categories import CATEGORIES
from ...profiler.recording.schema import SLICE_KINDS, TABLES
from ...profiler.recording.short_names import short_name
from .freed_memory import release_freed_memory
from .names import DEVICE
from .slices import UNFINISHED, Slices

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

BLOCK_ROWS = 32_768
"""Rows of a batch: a row group of the file is a multiple of it."""

_COMPILE_ID = re.compile(r"^(?:Torch-Compiled Region: |.*\bcompile_id=)(?P<id>\d+/\d+(?:_\d+)?)")
_WITHOUT_COLUMN = ("device", "stream", "context", "graph_node_id", "original_dur_ns")
"""Numbers that go back into args, unless the slice's track says the same."""


@dataclass(frozen=True, slots=True)
class Ids:
    """What turns the numbers of one trace into ids of the recording.

    Attributes:
        rank: The rank.
        segment_id: The segment.
        base_ns: Added to every stamp.
        slice_base: The id of row 0.
        track_ids: Track -> track_id, ascending.
        stack_base, module_base: The id of stack 0 and of module 0.
    """

    rank: int
    segment_id: int
    base_ns: int
    slice_base: int
    track_ids: Ints
    stack_base: int
    module_base: int


class SliceTable:
    """Builds the rows of ``slices``.

    Args:
        slices: The slices.
        ids: Their ids.
        stack: The number of each row's stack by Python slices; -1 for none.
        module: The number of each row's module; -1 for none.
    """

    def __init__(self, slices: Slices, ids: Ids, stack: Rows, module: Rows) -> None:
        self._slices, self._ids, self._stack, self._module = slices, ids, stack, module
        pairs = slices.pairs
        self._names = _Texts(pairs.names, pairs.name)
        self._raw_categories = _Texts(pairs.raw_categories, pairs.raw_category)
        shorter = [short_name(name) for name in pairs.names]
        self._short_names = _Texts(*_optional(shorter, pairs.name))
        found = [_COMPILE_ID.match(name) for name in pairs.names]
        self._compile_ids = _Texts(*_optional([match["id"] if match else None for match in found], pairs.name))
        self._categories = _Texts(list(CATEGORIES), pairs.category.astype(np.int32))
        self._kinds = _Texts(list(SLICE_KINDS), np.arange(len(SLICE_KINDS), dtype=np.int32))
        self._on_track = _track_values(slices)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows in the table's order."""
        for first in range(0, len(self._slices), BLOCK_ROWS):
            yield self._block(first, min(first + BLOCK_ROWS, len(self._slices)))
            release_freed_memory()

    def _block(self, first: int, last: int) -> pa.RecordBatch:
        slices, ids = self._slices, self._ids
        rows = np.arange(first, last)
        pair, kind, parent = slices.pair[first:last], slices.kind[first:last], slices.parent[first:last]
        count = last - first
        columns = {
            "slice_id": pa.array(rows + ids.slice_base),
            "rank": pa.array(np.full(count, ids.rank, np.int64)),
            "track_id": pa.array(ids.track_ids[slices.track_of(rows)]),
            "segment_id": pa.array(np.full(count, ids.segment_id, np.int64)),
            "kind": self._kinds.column(kind),
            "ts": pa.array(slices.ts[first:last] + ids.base_ns),
            "dur": pa.array(slices.dur[first:last].astype(np.int64), mask=kind == UNFINISHED),
            "lane": pa.array(slices.lane[first:last].astype(np.int32)),
            "depth": pa.array(slices.depth[first:last].astype(np.int32)),
            "name": self._names.column(pair),
            "short_name": self._short_names.column(pair),
            "raw_category": self._raw_categories.column(pair),
            "category": self._categories.column(pair),
            "parent_id": _ids(parent, ids.slice_base),
            "compile_id": self._compile_ids.column(pair),
            "module_id": _ids(self._module[first:last], ids.module_base),
            "stack_id": self._stack_ids(first, last),
            "args": self._args(rows),
        }
        for column, name in _NUMBERS.items():
            values, present = slices.some_ints(name, rows)
            if column == "graph_id":
                present &= values != 0
            columns[column] = pa.array(values, mask=~present)
        schema = TABLES["slices"].schema
        columns["flops"] = pa.nulls(count, pa.int64())
        return pa.record_batch([columns[name] for name in schema.names], schema=schema)

    def _stack_ids(self, first: int, last: int) -> pa.Array:
        stack = self._stack[first:last]
        if "call_stack" in self._slices.spill.int_names:
            own, present = self._slices.some_ints("call_stack", np.arange(first, last))
            stack = np.where(present, own, stack)
        return _ids(stack, self._ids.stack_base)

    def _args(self, rows: npt.NDArray[np.intp]) -> pa.Array:
        args = self._slices.texts("args", rows)
        for name in _WITHOUT_COLUMN:
            if name not in self._slices.spill.int_names:
                continue
            values, present = self._slices.some_ints(name, rows)
            if name in self._on_track:
                present &= values != self._on_track[name][self._slices.track_of(rows)]
            if present.any():
                args = _with_member(args, name, values, present)
        return args


_NUMBERS = {
    "correlation_id": "correlation",
    "external_id": "external_id",
    "sequence_number": "sequence_number",
    "graph_id": "graph_id",
    "bytes": "bytes",
}


def _ids(numbers: npt.NDArray[np.integer], base: int) -> pa.Array:
    return pa.array(numbers.astype(np.int64) + base, mask=numbers < 0)


def _optional(texts: list[str | None], code: Rows) -> tuple[list[str], Rows]:
    """Texts and codes of which some are missing, with -1 for those."""
    known = [text for text in texts if text is not None]
    number = np.full(len(texts), -1, np.int32)
    number[[index for index, text in enumerate(texts) if text is not None]] = np.arange(len(known))
    return known, number[code] if len(texts) else code


class _Texts:
    """A dictionary column: texts, and for each pair which of them (-1: null)."""

    def __init__(self, texts: list[str], code: Rows) -> None:
        self._texts = pa.array(texts, pa.string())
        self._code = code

    def column(self, pair: npt.NDArray[np.integer]) -> pa.DictionaryArray:
        """The column of some rows, with a dictionary of the texts that occur among them."""
        code = self._code[pair] if len(self._code) else pair
        used = np.flatnonzero(np.bincount(code[code >= 0] if (code < 0).any() else code, minlength=1))
        used = used[used < len(self._texts)]
        place = np.zeros(len(self._texts) + 1, np.int32)
        place[used] = np.arange(used.size)
        indices = pa.array(place[code], mask=code < 0)
        return pa.DictionaryArray.from_arrays(indices, self._texts.take(pa.array(used)))


def _track_values(slices: Slices) -> dict[str, Ints]:
    """What each track says of its slices; a number that no slice carries where it says nothing."""
    unknown = np.iinfo(np.int64).min
    values = {name: np.full(len(slices.tracks), unknown, np.int64) for name in ("device", "stream", "context")}
    for number, track in enumerate(slices.tracks.all_in_order):
        if track.side == DEVICE:
            for name, column in values.items():
                column[number] = unknown if getattr(track, name) is None else getattr(track, name)
    return values


def _with_member(args: pa.Array, name: str, values: Ints, present: Mask) -> pa.Array:
    """The args texts with one more integer member where it is present."""
    key = name.replace("_", " ") if name.startswith("graph") else name
    member = pc.binary_join_element_wise(f'{{"{key}":', pc.cast(pa.array(values), pa.string()), "")
    alone = pc.binary_join_element_wise(member, "}", "")
    inner = pc.utf8_slice_codeunits(pc.fill_null(args, "{}"), 1)
    is_empty = pc.fill_null(pc.less_equal(pc.binary_length(args), 2), True)
    together = pc.if_else(is_empty, alone, pc.binary_join_element_wise(member, inner, ","))
    return pc.if_else(pa.array(present), together, args)
