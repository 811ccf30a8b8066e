"""Columns of a trace kept in a temporary folder, so that memory grows with the few that joins need, not with the file.

Rows are numbered in the order in which they are appended. A column takes values for consecutive rows and gives them
back for any rows; absent values and batches in which a column does not occur cost next to nothing.
"""

from __future__ import annotations

import mmap
from collections import OrderedDict
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
RowNumbers = npt.NDArray[np.integer]

ABSENT = np.iinfo(np.int64).min
"""Stands for "no value" in a file; no trace writes it as a number of its own."""

_PAD_ROWS = 1 << 16
_CACHED_TEXT_BATCHES = 2


class IntColumn:
    """One int64 column in a file; null where nothing was given."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._rows = 0

    def append(self, first_row: int, values: Ints, present: Mask | None = None) -> None:
        """Adds the values of rows ``first_row``, ``first_row + 1``, ...; rows that were left out before are absent.

        Args:
            first_row: The first row.
            values: One value for each row.
            present: Which of them are there; None: all.
        """
        if present is not None and not present.any():
            return
        if self._file is None:
            self._file = self._path.open("wb")
        self._pad_to(first_row)
        (values if present is None else np.where(present, values, ABSENT)).tofile(self._file)
        self._rows = first_row + values.size

    def _pad_to(self, row: int) -> None:
        assert self._file is not None
        while self._rows < row:
            count = min(_PAD_ROWS, row - self._rows)
            self._file.write(np.full(count, ABSENT, np.int64).tobytes())
            self._rows += count

    @property
    def empty(self) -> bool:
        """Whether no row has a value."""
        return self._file is None

    def read(self, rows: int) -> tuple[Ints, Mask]:
        """All values of the first ``rows`` rows and whether each is there (0 where it is not)."""
        if self._file is None:
            return np.zeros(rows, np.int64), np.zeros(rows, np.bool_)
        self._finish(rows)
        values = np.fromfile(self._path, np.int64, rows)
        present = values != ABSENT
        values[~present] = 0
        return values, present

    def gather(self, rows: RowNumbers) -> tuple[Ints, Mask]:
        """The values of some rows, in their order, and whether each is there (0 where it is not)."""
        if self._file is None or rows.size == 0:
            return np.zeros(rows.size, np.int64), np.zeros(rows.size, np.bool_)
        self._finish(int(rows.max()) + 1)
        with self._path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            values = np.frombuffer(view, np.int64)[rows]
        present = values != ABSENT
        values[~present] = 0
        return values, present

    def close(self) -> None:
        """Closes the file, if it is open."""
        if self._file is not None:
            self._file.close()

    def _finish(self, rows: int) -> None:
        assert self._file is not None
        if self._file.closed and self._rows < rows:
            self._file = self._path.open("ab")
        if not self._file.closed:
            self._pad_to(rows)
            self._file.close()


class TextColumn:
    """One column of texts, written batch by batch: the distinct texts of a batch, and for each row which of them."""

    def __init__(self, path: Path) -> None:
        self._codes = IntColumn(path.with_suffix(".codes"))
        self._path = path.with_suffix(".texts")
        self._file = self._path.open("wb")
        self._starts: list[int] = [0]
        self._places: list[tuple[int, int, int]] = []
        self._cache: OrderedDict[int, pa.StringArray] = OrderedDict()

    def append(self, first_row: int, codes: npt.NDArray[np.integer], texts: pa.StringArray) -> None:
        """Adds rows ``first_row``, ...: the text of a row is ``texts[code]``, null where the code is negative."""
        present = codes >= 0
        if not present.any():
            return
        self._codes.append(first_row, codes.astype(np.int64) + self._starts[-1], present)
        _, offsets, data = texts.buffers()
        edges = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
        start = self._file.tell()
        self._file.write((edges - edges[0]).tobytes())
        if data is not None:
            self._file.write(memoryview(data)[int(edges[0]) : int(edges[-1])])
        self._places.append((start, len(texts), int(edges[-1] - edges[0])))
        self._starts.append(self._starts[-1] + len(texts))

    def gather(self, rows: RowNumbers) -> pa.Array:
        """The texts of some rows, in their order, null where there is none."""
        codes, present = self._codes.gather(rows)
        if not present.any():
            return pa.nulls(rows.size, pa.string())
        if not self._file.closed:
            self._file.close()
        batch_of = np.searchsorted(self._starts, codes, side="right") - 1
        batch_of[~present] = -1
        parts: list[pa.Array] = []
        place = np.zeros(rows.size, np.int64)
        done = 0
        for batch in np.unique(batch_of):
            if batch < 0:
                continue
            here = np.flatnonzero(batch_of == batch)
            parts.append(self._texts(int(batch)).take(pa.array(codes[here] - self._starts[batch])))
            place[here] = np.arange(done, done + here.size)
            done += here.size
        return pa.concat_arrays(parts).take(pa.array(place, mask=~present))

    def close(self) -> None:
        """Closes the files, if they are open."""
        self._codes.close()
        self._file.close()

    def _texts(self, batch: int) -> pa.StringArray:
        if batch in self._cache:
            self._cache.move_to_end(batch)
            return self._cache[batch]
        start, count, size = self._places[batch]
        with self._path.open("rb") as file:
            file.seek(start)
            offsets = pa.py_buffer(file.read(4 * (count + 1)))
            data = pa.py_buffer(file.read(size))
        texts = pa.StringArray.from_buffers(count, offsets, data)
        self._cache[batch] = texts
        if len(self._cache) > _CACHED_TEXT_BATCHES:
            self._cache.popitem(last=False)
        return texts


class Spill:
    """The columns of one trace in one temporary folder, by name; a column exists from its first use on.

    Args:
        folder: An existing empty folder; the caller removes it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ints: dict[str, IntColumn] = {}
        self._texts: dict[str, TextColumn] = {}

    def ints(self, name: str) -> IntColumn:
        """The integer column of that name."""
        if name not in self._ints:
            self._ints[name] = IntColumn(self._folder / f"{len(self._ints)}.ints")
        return self._ints[name]

    def texts(self, name: str) -> TextColumn:
        """The text column of that name."""
        if name not in self._texts:
            self._texts[name] = TextColumn(self._folder / f"{len(self._texts)}")
        return self._texts[name]

    def close(self) -> None:
        """Closes every file that was not read to its end."""
        for ints in self._ints.values():
            ints.close()
        for texts in self._texts.values():
            texts.close()

    @property
    def int_names(self) -> tuple[str, ...]:
        """The integer columns in which some row has a value."""
        return tuple(name for name, column in self._ints.items() if not column.empty)
