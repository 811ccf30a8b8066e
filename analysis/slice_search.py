"""Which slices have a text in their name, and where one slice of the recording lies in the tile index."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .tile_index import TileIndex
from .timeline import Ints


@dataclass(frozen=True, eq=False)
class Matches:
    """Slices whose name holds a text.

    Attributes:
        count: How many there are in all.
        entries: Some of them, the longest first.
    """

    count: int
    entries: Ints


def search_slices(index: TileIndex, text: str, *, limit: int = 200) -> Matches:
    """The slices whose (short) name holds a text, whatever its case; none for an empty text."""
    wanted = text.strip().lower()
    if not wanted:
        return Matches(0, np.zeros(0, dtype=np.int64))
    named = np.array([wanted in name.lower() for name in index.names], dtype=bool)
    entries = np.flatnonzero(named[index.name]) if named.any() else np.zeros(0, dtype=np.int64)
    dur = index.end[entries] - index.start[entries]
    if len(entries) > limit:
        chosen = np.argpartition(-dur, limit)[:limit]
        chosen = chosen[np.argsort(-dur[chosen], kind="stable")]
    else:
        chosen = np.argsort(-dur, kind="stable")
    return Matches(len(entries), entries[chosen])


def entry_of_slice(index: TileIndex, slice_id: int) -> int | None:
    """The entry of a slice of the recording; None where there is none."""
    found = np.flatnonzero(index.slice_id == slice_id)
    return int(found[0]) if len(found) else None


def entries_of_slices(index: TileIndex, slice_ids: list[int]) -> dict[int, int]:
    """The entries of several slices, by id; those that the index lacks are left out."""
    if not slice_ids:
        return {}
    found = np.flatnonzero(np.isin(index.slice_id, np.array(slice_ids, dtype=np.int64)))
    return {int(index.slice_id[entry]): int(entry) for entry in found.tolist()}
