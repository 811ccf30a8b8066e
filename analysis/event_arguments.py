"""Fields of an event's ``args`` that a table groups by, taken out without parsing the JSON of every row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .nesting import Ints
from .timeline import Timeline, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_LISTS = r"\[[0-9, \[\]]*\]"
"""A list of numbers, or of lists of numbers: what shapes and grids are. No text, so no quotes to look out for."""


def number_lists(recording: Recording, t: Timeline, *keys: str) -> tuple[list[str], Ints]:
    """The number lists that the rows have under the given keys of ``args``.

    Args:
        recording: The recording.
        t: The timeline of one of its ranks.
        keys: The keys, "Input Dims" for example.

    Returns:
        The distinct texts, with spaces as ``[2, 3]`` and the lists of several keys joined by a space; and per row of
        the timeline an index into them, -1 where it has none of the keys.
    """
    return memoized(recording, ("number_lists", t.rank, keys), lambda: _read(recording, t, keys))


def _read(recording: Recording, t: Timeline, keys: tuple[str, ...]) -> tuple[list[str], Ints]:
    table = recording.table("slices", ranks=(t.rank,), columns=["slice_id", "args"])
    args = table["args"].cast(pa.string())
    pieces = []
    for key in keys:
        found = pc.extract_regex(args, pattern=f'"{key}": ?(?P<list>{_LISTS})')
        pieces.append(pc.fill_null(pc.struct_field(found, "list"), ""))
    joined = pieces[0]
    for piece in pieces[1:]:
        joined = pc.binary_join_element_wise(joined, piece, " ")
    joined = pc.replace_substring_regex(joined, pattern=r", *", replacement=", ")
    encoded = joined.combine_chunks().dictionary_encode()
    encoded = encoded.combine_chunks() if isinstance(encoded, pa.ChunkedArray) else encoded
    values = [text.strip() for text in encoded.dictionary.to_pylist()]
    row = t.rows_of(table["slice_id"].to_numpy())
    codes = np.full(len(t), -1, dtype=np.int64)
    codes[row[row >= 0]] = encoded.indices.to_numpy()[row >= 0]
    empty = [place for place, text in enumerate(values) if not text]
    codes[np.isin(codes, empty)] = -1
    return values, codes
