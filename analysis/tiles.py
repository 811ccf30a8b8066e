"""Tiles: what a timeline draws of some tracks within one power-of-two stretch of time.

A tile of level L covers ``BINS`` bins of ``2**L`` ns. Slices at least one bin long are kept whole; the others that
start in a bin become one block with their count, the share of the bin that they fill, and the name of the longest of
three of them.

No pyramid is kept. In a row, slices do not overlap, so a slice at least one bin long is the last one to start in its
bin: looking at the last start of each of the 1,024 bins finds every long slice, and differences of a running sum give
the rest. A tile costs a thousand binary searches a row, whether the row has a thousand slices or ten million.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .tile_index import TileIndex

Ints = npt.NDArray[np.int64]

BINS = 1024
HIGHEST_LEVEL = 52
MAGIC = 0x54534C31

_COLUMNS = (
    ("start", "<f4"), ("dur", "<f4"), ("cover", "<f4"), ("entry", "<u4"), ("name", "<u4"), ("count", "<u4"),
    ("line", "<u2"), ("category", "u1"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Tile:
    """What to draw of one track: one entry for each slice or block, row after row.

    Attributes:
        track: Number of the track in ``TileIndex.tracks``.
        start: From the start of the tile, ns; negative where the slice began before it.
        dur: Length, ns; of a block, from the first start to the last end.
        cover: Share of the bin that is filled, 0..1; 1 for a slice.
        entry: The slice, or the longest of three of the block's, as a place in the index's columns.
        name: Index into ``TileIndex.names``.
        count: How many slices: 1 for a slice.
        line: The line within the track.
        category: Index into ``CATEGORIES``.
    """

    track: int
    start: npt.NDArray[np.float64]
    dur: npt.NDArray[np.float64]
    cover: npt.NDArray[np.float64]
    entry: npt.NDArray[np.int64]
    name: npt.NDArray[np.int32]
    count: npt.NDArray[np.int64]
    line: npt.NDArray[np.int64]
    category: npt.NDArray[np.uint8]


def tile(index: TileIndex, track: int, level: int, number: int, origin: int) -> Tile:
    """The tile of one track.

    Args:
        index: The index.
        track: Number of the track in ``index.tracks``.
        level: log2 of the length of a bin in ns, 0 to HIGHEST_LEVEL.
        number: Which stretch: it begins at ``origin + number * BINS * 2**level``.
        origin: The time that stretches are counted from, ns.

    Raises:
        ValueError: There is no such track, or the level or number is out of range.
    """
    if not 0 <= track < len(index.tracks):
        raise ValueError(f"there is no track {track}, only 0 to {len(index.tracks) - 1}")
    if not 0 <= level <= HIGHEST_LEVEL or not 0 <= number < 1 << 53:
        raise ValueError(f"level {level} or tile {number} is out of range")
    one = index.tracks[track]
    base = origin + number * (BINS << level)
    parts = [_row(index, one.first_row + line, line, level, base) for line in range(one.rows)]
    columns = [np.concatenate(values) for values in zip(*parts, strict=True)]
    return Tile(track, *columns)


def _row(index: TileIndex, row: int, line: int, level: int, base: int) -> tuple[npt.NDArray[Any], ...]:
    """The columns of one row, in the order of ``Tile``'s fields; floats where those are floats."""
    first, last = int(index.row_start[row]), int(index.row_start[row + 1])
    starts = index.start[first:last]
    edges = base + (np.arange(BINS + 1, dtype=np.int64) << level)
    low, high = np.searchsorted(starts, edges[[0, -1]])
    place = np.searchsorted(starts[low:high], edges) + first + low
    bins = np.flatnonzero(place[1:] > place[:-1])
    begin, final = place[:-1][bins], place[1:][bins] - 1
    final_start, final_end = index.start[final], index.end[final]
    # Only the last start of a bin can belong to a long slice, which is drawn by itself.
    is_long = final_end - final_start >= 1 << level
    long, long_start, long_end = final[is_long], final_start[is_long], final_end[is_long]
    before = int(place[0]) - 1
    if before >= first and index.end[before] > base:
        long = np.concatenate([[before], long])
        long_start = np.concatenate([index.start[before : before + 1], long_start])
        long_end = np.concatenate([index.end[before : before + 1], long_end])
    blocks = _blocks(index, begin, final - is_long, (final_start, final_end, is_long), level)
    entry = np.concatenate([long, blocks[0]])
    return (
        (np.concatenate([long_start, blocks[1]]) - base).astype(np.float64),
        np.concatenate([long_end - long_start, blocks[2]]).astype(np.float64),
        np.concatenate([np.ones(len(long)), blocks[4]]),
        entry,
        index.name[entry],
        np.concatenate([np.ones(len(long), dtype=np.int64), blocks[3]]),
        np.full(len(entry), line, dtype=np.int64),
        index.category[entry],
    )


def _blocks(
    index: TileIndex, begin: Ints, final: Ints, last: tuple[Ints, Ints, npt.NDArray[np.bool_]], level: int
) -> tuple[npt.NDArray[Any], ...]:
    """Entry, start, length, count and cover of what is short in each bin that has any of it.

    Each column is looked at in as few places as can be: of fifty million slices, every look is a page of memory.

    Args:
        index: The index.
        begin: The first entry of each bin.
        final: Its last entry that is short.
        last: Start and end of its very last entry, and whether that is long, so that ``final`` is the one before.
        level: log2 of the length of a bin in ns.
    """
    some = np.flatnonzero(final >= begin)
    begin, final = begin[some], final[some]
    final_start, final_end, other = (column[some] for column in last)
    final_start[other], final_end[other] = index.start[final[other]], index.end[final[other]]
    count = final - begin + 1
    middle = begin + (count - 1) // 2
    start = index.start[begin]
    lengths = np.stack([index.end[begin] - start, index.end[middle] - index.start[middle], final_end - final_start])
    longest = np.stack([begin, middle, final])[np.argmax(lengths, axis=0), np.arange(len(begin))]
    busy = index.busy[final] + (final_end - final_start) - index.busy[begin]
    return longest, start, final_end - start, count, np.minimum(busy / float(1 << level), 1.0)


def encode(tiles: Sequence[Tile], level: int) -> bytes:
    """The bytes that the browser reads (little endian; ui/timeline/src/tiles.js says the same).

    u32 magic, level, tracks, entries; per track u32 number and count; then the columns of all entries one after the
    other: f32 start, dur, cover; u32 entry, name, count; u16 line; u8 category.
    """
    sizes = [len(one.entry) for one in tiles]
    head = np.array([MAGIC, level, len(tiles), sum(sizes)], dtype="<u4").tobytes()
    pairs = np.array([(one.track, size) for one, size in zip(tiles, sizes, strict=True)], dtype="<u4").tobytes()
    columns = [
        np.concatenate([getattr(one, name) for one in tiles]).astype(kind).tobytes() if tiles else b""
        for name, kind in _COLUMNS
    ]
    return head + pairs + b"".join(columns)
