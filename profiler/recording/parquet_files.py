"""A file of a recording: how its columns are encoded, and how it comes to be there whole or not at all."""

from __future__ import annotations

import hashlib
import io
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from .arrow_arrays import array_of_numbers, numbers_of
from .errors import FormatError
from .schema import SCHEMA_VERSION, Table

ROW_GROUP_ROWS = 131_072
"""Between the 64k and 256k rows at which a window of one track is read fastest."""

RUN_GROUP_ROWS = 16_384
"""The same in files that are still to be merged: a merge holds a row group's dictionaries of every file at once."""

CONTENT_KEY = b"stallscope.content"
"""Footer entry: a digest of every byte before the footer. Two files with the same footer hold the same rows."""

_COMPRESSION_LEVEL = 3

_DICTIONARY_COLUMNS = frozenset({"dur", "args"})
"""Plain columns that a dictionary shrinks: kernels of one shape take the same time, and carry the same arguments."""

_PLAIN_COLUMNS = frozenset({("slices", "stack_id")})
"""Integers that jump back and forth among few values: zstd sees the repeats, differences hide them."""

_DICTIONARY_BYTES = 16 << 20
"""A row group with more text than this in one column gives its dictionary up. Long kernel names need megabytes."""


class _DigestingFile(io.RawIOBase):
    """Passes bytes on to a file and digests them, so that the digest can go into the footer that follows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._digest = hashlib.blake2b(digest_size=16)
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._digest.update(data)
        self._file.write(data)
        size = memoryview(data).nbytes
        self._written += size
        return size

    def tell(self) -> int:
        return self._written

    def hexdigest(self) -> str:
        return self._digest.hexdigest()


def write_parquet(
    path: Path, table: Table, batches: Iterable[pa.Table | pa.RecordBatch], *, group_rows: int = ROW_GROUP_ROWS
) -> int:
    """Writes one Parquet file, fsyncs it, and returns its number of rows.

    The file is plain Parquet 2.6: integers delta-encoded, repeated text as a dictionary, zstd pages with checksums, and
    a page index. Memory: one row group and one batch.

    Args:
        path: The file, which must not be one that a reader already knows.
        table: Its schema.
        batches: Rows that already have the table's schema.
        group_rows: Rows of a row group.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    rows = 0
    with path.open("wb") as file:
        sink = _DigestingFile(file)
        with pq.ParquetWriter(sink, _file_schema(table), **_options(table)) as writer:
            for group in _row_groups(batches, group_rows):
                writer.write_table(group, row_group_size=group_rows)
                rows += group.num_rows
            writer.add_key_value_metadata({CONTENT_KEY.decode(): sink.hexdigest()})
        file.flush()
        os.fsync(file.fileno())
    return rows


def _row_groups(batches: Iterable[pa.Table | pa.RecordBatch], group_rows: int) -> Iterator[pa.Table]:
    """The same rows in tables of ``group_rows`` rows, the last one shorter."""
    waiting: list[pa.Table] = []
    count = 0
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch)
        count += batch.num_rows
        if count < group_rows:
            continue
        rows = pa.concat_tables(waiting)
        whole = count - count % group_rows
        for start in range(0, whole, group_rows):
            yield _with_small_dictionaries(rows.slice(start, group_rows))
        # An empty slice would keep the rows that were written alive, as would the name.
        waiting, count = [rows.slice(whole)] if count > whole else [], count - whole
        del rows
    if count:
        yield _with_small_dictionaries(pa.concat_tables(waiting))


def _with_small_dictionaries(rows: pa.Table) -> pa.Table:
    """The same rows with one dictionary a column that holds only the values in use.

    A dictionary is written whole, so that one which other row groups also filled would be stored again and again.
    """
    rows = rows.unify_dictionaries().combine_chunks()
    for position, field in enumerate(rows.schema):
        if pa.types.is_dictionary(field.type):
            column = rows.column(position).combine_chunks()
            rows = rows.set_column(position, field, _small_dictionary(column))
    return rows


def _small_dictionary(column: pa.DictionaryArray) -> pa.DictionaryArray:
    codes = numbers_of(column.indices, -1)
    is_used = np.zeros(len(column.dictionary) + 1, dtype=bool)
    is_used[codes] = True
    is_used[-1] = False
    if is_used[:-1].all():
        return column
    renumbered = np.cumsum(is_used, dtype=np.int32) - 1
    indices = array_of_numbers(renumbered[codes], codes >= 0)
    return pa.DictionaryArray.from_arrays(indices, column.dictionary.filter(array_of_numbers(is_used[:-1])))


def _file_schema(table: Table) -> pa.Schema:
    entries = {"stallscope.table": table.name, "stallscope.schema_version": str(SCHEMA_VERSION)}
    return table.schema.with_metadata(entries)


def _options(table: Table) -> dict[str, Any]:
    """The writer's options: each encoding chosen by measurement, see docs/adr/0004-parquet-layout.md."""
    integers = [field.name for field in table.schema if pa.types.is_integer(field.type)]
    repeated = [field.name for field in table.schema if pa.types.is_dictionary(field.type)]
    others = _DICTIONARY_COLUMNS | {column for owner, column in _PLAIN_COLUMNS if owner == table.name}
    deltas = [name for name in integers if name not in others]
    return {
        "version": "2.6",
        "compression": "zstd",
        "compression_level": _COMPRESSION_LEVEL,
        "use_dictionary": repeated + [name for name in table.schema.names if name in _DICTIONARY_COLUMNS],
        "dictionary_pagesize_limit": _DICTIONARY_BYTES,
        "column_encoding": dict.fromkeys(deltas, "DELTA_BINARY_PACKED"),
        # Bounds of numbers let readers skip; those of text would only lengthen the footer.
        "write_statistics": integers,
        "write_page_index": True,
        "write_page_checksum": True,
    }


def name_part(temporary: Path, folder: Path, number: int) -> int:
    """Gives a finished file its name, ``part-NNNNN.parquet`` with the next free number; returns the number.

    Two processes never get the same name: a hard link fails where the name is taken. Where a file system has no hard
    links, the name is looked up first.
    """
    while True:
        final = folder / f"part-{number:05d}.parquet"
        try:
            os.link(temporary, final)
        except FileExistsError:
            number += 1
            continue
        except OSError:
            if final.exists():
                number += 1
                continue
            temporary.replace(final)
        sync_folder(folder)
        return number


def temporary_name(path: Path) -> Path:
    """A name beside the path that no other thread, process or host uses, hidden from readers."""
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def sync_folder(folder: Path) -> None:
    """Makes a rename in the folder survive a power cut, where the platform lets a folder be fsynced."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Replaces a small file: readers see the old bytes or the new ones, never a mixture.

    Args:
        path: The file.
        data: Its new bytes.
        durable: Whether to wait until the bytes would survive a power cut.
    """
    temporary = temporary_name(path)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink()
        raise


def footer(path: Path) -> bytes:
    """The file's footer: its schema, the bounds of its row groups and the digest of its content.

    Raises:
        FormatError: It is not a whole Parquet file.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 8))
            tail = file.read(8)
            length = int.from_bytes(tail[:4], "little")
            if len(tail) < 8 or tail[4:] != b"PAR1" or length > size - 12:
                raise FormatError(f"{path} is not a whole Parquet file: it does not end in a footer.")
            file.seek(size - 8 - length)
            return file.read(length)
    except OSError as error:
        raise FormatError(f"{path} cannot be read: {error.strerror or error}.") from error
