"""Tiles: what a timeline draws of some tracks within one power-of-two stretch of time.

A tile of level L covers ``BINS`` bins of ``2**L`` ns. Slices at least one bin long are kept whole; the others that
start in a bin become one block with their count, the share of the bin that they fill, and the name of the longest of a
few.

No pyramid is kept. In a row, slices do not overlap, so a slice at least one bin long is the last one to start in its
bin: looking at the last start of each of the 1,024 bins finds every long slice, and differences of a running sum give
the rest. A tile costs a thousand binary searches a row, whether the row has a thousand slices or ten million.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .tile_index import TileIndex

BINS = 1024
HIGHEST_LEVEL = 52
MAGIC = 0x54534C31
_SAMPLES = 5
"""Of how many slices of a bin the longest gives its name to the block."""

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
        entry: The slice, or the longest of a few of the block's, as a place in the index's columns.
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


def _row(index: TileIndex, row: int, line: int, level: int, base: int) -> tuple[npt.NDArray[np.int64], ...]:
    """The columns of one row, in the order of ``Tile``'s fields; floats where those are floats."""
    first, last = int(index.row_start[row]), int(index.row_start[row + 1])
    starts = index.start[first:last]
    edges = base + (np.arange(BINS + 1, dtype=np.int64) << level)
    place = np.searchsorted(starts, edges) + first
    long, blocks = _long_slices(index, place, first, level, base), _blocks(index, place, level)
    entry = np.concatenate([long, blocks[0]])
    start = np.concatenate([index.start[long], blocks[1]]) - base
    dur = np.concatenate([index.end[long] - index.start[long], blocks[2]])
    count = np.concatenate([np.ones(len(long), dtype=np.int64), blocks[3]])
    cover = np.concatenate([np.ones(len(long)), blocks[4]])
    return (
        start.astype(np.float64), dur.astype(np.float64), cover, entry, index.name[entry], count,
        np.full(len(entry), line, dtype=np.int64), index.category[entry],
    )  # fmt: skip


def _long_slices(
    index: TileIndex, place: npt.NDArray[np.int64], first: int, level: int, base: int
) -> npt.NDArray[np.int64]:
    """Slices at least one bin long, and the one that runs into the tile from before it."""
    last_of_bin = place[1:][place[1:] > place[:-1]] - 1
    long = last_of_bin[index.end[last_of_bin] - index.start[last_of_bin] >= 1 << level]
    before = place[0] - 1
    if before >= first and index.end[before] > base:
        long = np.concatenate([[before], long])
    return long


def _blocks(index: TileIndex, place: npt.NDArray[np.int64], level: int) -> tuple[npt.NDArray[np.int64], ...]:
    """Entry, start, length, count and cover of what is short in each bin that has any of it."""
    low, high = place[:-1], place[1:].copy()
    some = np.flatnonzero(high > low)
    low, high = low[some], high[some]
    # The last start of a bin may belong to a long slice, which is drawn by itself.
    is_long = index.end[high - 1] - index.start[high - 1] >= 1 << level
    high = high - is_long
    left = high > low
    low, high = low[left], high[left]
    count = high - low
    offsets = np.linspace(0, 1, _SAMPLES)
    samples = low[:, None] + np.floor(offsets[None, :] * (count - 1)[:, None]).astype(np.int64)
    lengths = index.end[samples] - index.start[samples]
    longest = samples[np.arange(len(samples)), np.argmax(lengths, axis=1)] if len(samples) else low
    start, end = index.start[low], index.end[high - 1]
    busy = index.busy[high - 1] + (end - index.start[high - 1]) - index.busy[low]
    return longest, start, end - start, count, np.minimum(busy / float(1 << level), 1.0)


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
