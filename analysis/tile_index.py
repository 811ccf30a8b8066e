"""The index that the timeline is drawn from: the slices of every row, sorted, in files that open without being read.

A *row* is what one line of the timeline shows: the slices of a track that have the same lane and depth. Slices of a
row do not overlap, which is what ``tiles`` relies on. The index is built once per recording and kept in the cache;
opening it maps the files into memory, so it takes as long for fifty million slices as for fifty. The functions that
called the recorded program are left out (see ``program_callers``), so that the program is on the first line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ..profiler.recording.cache_folder import cache_folder, folder_drawn_up
from ..profiler.recording.categories import CATEGORIES
from .mapped_files import mapped
from .program_callers import caller_slices, runs_program

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

VERSION = 2
"""Raised with every change of the files, so that an index of an older version is not read."""

LONGEST_NAME = 300
"""Longer names are cut in the index; the recording keeps them whole."""

_BATCH = 262_144
"""How many rows of a file are read at once."""

_COLUMNS = ("track_id", "ts", "dur", "lane", "depth", "name", "short_name", "category", "slice_id")
_FILES = {
    "start": np.int64,
    "end": np.int64,
    "busy": np.int64,
    "slice_id": np.int64,
    "name": np.int32,
    "category": np.uint8,
}


@dataclass(frozen=True, slots=True)
class IndexedTrack:
    """A track of the index: rows ``[first_row, first_row + rows)`` are its lines, from the top."""

    track_id: int
    rank: int
    first_row: int
    rows: int
    slices: int


@dataclass(frozen=True, eq=False)
class TileIndex:
    """The opened index. Columns have one entry a slice, row after row, each row sorted by start.

    Attributes:
        tracks: Every track that has slices, in the order of ranks and track ids.
        row_start: Where each row begins in the columns, with the number of slices appended.
        start: Starts, ns.
        end: Ends, ns; a slice without an end reaches to the last stamp of its rank.
        busy: Running sum of the lengths of the row's slices before this one, ns.
        slice_id: Ids in the recording.
        name: Index into ``names``.
        category: Index into ``categories.CATEGORIES``.
        names: Short names where there are some, else names, cut to LONGEST_NAME.
    """

    tracks: tuple[IndexedTrack, ...]
    row_start: npt.NDArray[np.int64]
    start: npt.NDArray[np.int64]
    end: npt.NDArray[np.int64]
    busy: npt.NDArray[np.int64]
    slice_id: npt.NDArray[np.int64]
    name: npt.NDArray[np.int32]
    category: npt.NDArray[np.uint8]
    names: list[str]

    def __len__(self) -> int:
        return len(self.start)

    def row_of(self, entry: int) -> int:
        """The row that an entry of the columns lies in."""
        return int(np.searchsorted(self.row_start, entry, side="right")) - 1

    def track_of(self, entry: int) -> tuple[int, int]:
        """The number of an entry's track in ``tracks``, and the line within it."""
        row = self.row_of(entry)
        firsts = [track.first_row for track in self.tracks]
        number = int(np.searchsorted(firsts, row, side="right")) - 1
        return number, row - firsts[number]


def tile_index(recording: Recording, *, progress: Callable[[float], None] | None = None) -> TileIndex:
    """The index of a recording: opened from the cache, or built and kept there.

    Building holds the slices of one track at a time, about 60 bytes each.

    Args:
        recording: The recording.
        progress: Told the share of slices that are done, 0..1, while the index is built.

    Raises:
        OSError: The cache cannot be written.
    """
    folder = cache_folder() / "tiles" / f"{recording.fingerprint[:32]}-{VERSION}"
    if not (folder / "index.json").exists():
        _build(recording, folder, progress or (lambda share: None))
    return _open(folder)


def _open(folder: Path) -> TileIndex:
    described = json.loads((folder / "index.json").read_text())
    columns: dict[str, Any] = {
        name: mapped(folder / name, kind) if described["slices"] else np.zeros(0, dtype=kind)
        for name, kind in _FILES.items()
    }
    return TileIndex(
        tracks=tuple(IndexedTrack(**track) for track in described["tracks"]),
        row_start=np.array(described["row_start"], dtype=np.int64),
        names=json.loads((folder / "names.json").read_text()),
        **columns,
    )


def _build(recording: Recording, folder: Path, progress: Callable[[float], None]) -> None:
    with folder_drawn_up(folder) as draft:
        writer = _Writer(draft)
        total = max(1, sum(pq.read_metadata(path).num_rows for path in recording.files("slices")))
        for rank in recording.ranks:
            last = _last_stamp(recording, rank)
            for rows in _by_track(recording, rank):
                writer.add(rank, rows, last)
                progress(min(1.0, writer.slices / total))
        writer.finish()


class _Writer:
    """Appends tracks to the index's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.slices = 0
        self.tracks: list[IndexedTrack] = []
        self.row_start = [0]
        self.names: dict[str, int] = {}
        self._files = {name: (folder / name).open("wb") for name in _FILES}

    def add(self, rank: int, rows: pa.Table, last: int) -> None:
        """Adds the slices of one track."""
        start = rows.column("ts").to_numpy()
        length = pc.fill_null(rows.column("dur"), -1).to_numpy()
        end = np.where(length < 0, np.maximum(last, start), start + length)
        lane, depth = rows.column("lane").to_numpy(), rows.column("depth").to_numpy()
        runs = _runs_program(rows)
        if runs.any():
            callers, inside = caller_slices(start, end, lane, depth, runs)
            shown = ~callers
            rows, start, end = rows.filter(pa.array(shown)), start[shown], end[shown]
            lane, depth = lane[shown], (depth - inside)[shown]
        if not len(start):
            return
        line = _lines(lane, depth)
        order = np.lexsort((start, line))
        counts = np.bincount(line)
        length = (end - start)[order]
        total = np.cumsum(length)
        row_first = np.concatenate([[0], np.cumsum(counts)])[:-1]
        before = np.concatenate([[0], total])[:-1]
        busy = before - np.repeat(before[row_first], counts)
        columns = {
            "start": start[order],
            "end": end[order],
            "busy": busy,
            "slice_id": rows.column("slice_id").to_numpy()[order],
            "name": self._names(rows)[order],
            "category": _categories(rows.column("category"))[order],
        }
        for name, values in columns.items():
            values.astype(_FILES[name]).tofile(self._files[name])
        track_id = rows.column("track_id")[0].as_py()
        self.tracks.append(IndexedTrack(track_id, rank, len(self.row_start) - 1, len(counts), len(start)))
        self.row_start += [self.slices + int(n) for n in np.cumsum(counts)]
        self.slices += len(start)

    def _names(self, rows: pa.Table) -> npt.NDArray[np.int32]:
        """Numbers of the names in the index's own list, which all tracks share."""
        short, name = _dictionary(rows.column("short_name")), _dictionary(rows.column("name"))
        own = np.array([self._number(text) for text in name.dictionary.to_pylist()] or [0], dtype=np.int32)
        result: npt.NDArray[np.int32] = own[name.indices.to_numpy(zero_copy_only=False)]
        if short.null_count < len(short):
            shorter = np.array([self._number(text) for text in short.dictionary.to_pylist()], dtype=np.int32)
            there = pc.is_valid(short.indices).to_numpy(zero_copy_only=False)
            result[there] = shorter[pc.drop_null(short.indices).to_numpy()]
        return result

    def _number(self, text: str | None) -> int:
        return self.names.setdefault((text or "")[:LONGEST_NAME], len(self.names))

    def finish(self) -> None:
        """Writes what the columns are; the index counts as built once this file is there."""
        for file in self._files.values():
            file.close()
        (self.folder / "names.json").write_text(json.dumps(list(self.names)))
        described = {"slices": self.slices, "tracks": [asdict(t) for t in self.tracks], "row_start": self.row_start}
        (self.folder / "index.json").write_text(json.dumps(described))


def _runs_program(rows: pa.Table) -> npt.NDArray[np.bool_]:
    """Which slices are the function that runs the recorded program."""
    names = _dictionary(rows.column("name"))
    known = np.append(runs_program(names.dictionary.to_pylist()), False)
    found: npt.NDArray[np.bool_] = known[pc.fill_null(names.indices, len(known) - 1).to_numpy(zero_copy_only=False)]
    return found


def _lines(lane: npt.NDArray[Any], depth: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The line of each slice: the lanes of a track one below the other, each as high as it is deep; no empty lines."""
    key = lane.astype(np.int64) << 32 | depth.astype(np.int64)
    lines: npt.NDArray[np.int64] = np.unique(key, return_inverse=True)[1].astype(np.int64)
    return lines


def _last_stamp(recording: Recording, rank: int) -> int:
    """The last end of any slice of a rank, ns; 0 where it has none."""
    last = 0
    for path in recording.files("slices", rank):
        for batch in pq.ParquetFile(path).iter_batches(columns=["ts", "dur"], batch_size=_BATCH):
            if batch.num_rows:
                ends = pc.add(batch.column("ts"), pc.fill_null(batch.column("dur"), 0))
                last = max(last, pc.max(ends).as_py())
    return last


def _by_track(recording: Recording, rank: int) -> Iterator[pa.Table]:
    """The slices of a rank, one track at a time.

    A closed recording has one sorted file, which is read in batches. Otherwise the table is read whole.
    """
    files = recording.files("slices", rank)
    if len(files) == 1:
        batches = pq.ParquetFile(files[0]).iter_batches(columns=list(_COLUMNS), batch_size=_BATCH)
        tables: Iterator[pa.Table] = (pa.Table.from_batches([batch]) for batch in batches)
    else:
        tables = iter([recording.table("slices", ranks=rank, columns=list(_COLUMNS))])
    held: list[pa.Table] = []
    for table in tables:
        ids = table.column("track_id").to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(ids)) + 1).tolist(), len(ids)]
        for first, last in pairwise(cuts):
            piece = table.slice(first, last - first)
            if not piece.num_rows:
                continue
            if held and held[0].column("track_id")[0] != piece.column("track_id")[0]:
                yield pa.concat_tables(held).unify_dictionaries()
                held = []
            held.append(piece)
    if held:
        yield pa.concat_tables(held).unify_dictionaries()


def _dictionary(values: pa.ChunkedArray) -> pa.DictionaryArray:
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    combined = values.unify_dictionaries().combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _categories(values: pa.ChunkedArray) -> npt.NDArray[np.uint8]:
    array = _dictionary(values)
    place = {name: number for number, name in enumerate(CATEGORIES)}
    known = np.array([place.get(text, place["other"]) for text in array.dictionary.to_pylist()], dtype=np.uint8)
    codes: npt.NDArray[np.uint8] = known[array.indices.to_numpy(zero_copy_only=False)]
    return codes
