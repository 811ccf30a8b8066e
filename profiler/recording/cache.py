"""Derived tables, kept outside the recording so that recordings may be read-only."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa

from .cache_folder import cache_folder, evict, mark_used
from .parquet_files import temporary_name
from .schema import SCHEMA_VERSION

_MAGIC = b"stallscope cache 1\n"
_DIGEST_BYTES = 16
_EVICT_EVERY_BYTES = 64 << 20

_written_since_eviction = 0


class DerivedCache:
    """What was derived from one recording, keyed by its content, the schema, and the version of what derived it.

    Processes may share it: an entry is written under another name and renamed. An entry that is damaged is computed
    again. Where the cache cannot be written, everything still works, only without it.
    """

    def __init__(self, fingerprint: str) -> None:
        self._folder = cache_folder() / "derived" / fingerprint[:32]

    def table(
        self,
        name: str,
        version: int | str,
        compute: Callable[[], pa.Table],
        *,
        parameters: Mapping[str, Any] | None = None,
    ) -> pa.Table:
        """A derived table: from the cache if it is there, else computed and kept.

        Args:
            name: What it is, such as ``stalls``.
            version: Of the code that computes it: another version is another entry.
            compute: Called where there is no entry.
            parameters: What else the result depends on (rank, window, ...); repr tells values apart.
        """
        kept = self.data(name, version, lambda: _to_bytes(compute()), parameters=parameters)
        return pa.ipc.open_file(pa.py_buffer(kept)).read_all()

    def data(
        self,
        name: str,
        version: int | str,
        compute: Callable[[], bytes],
        *,
        parameters: Mapping[str, Any] | None = None,
    ) -> bytes:
        """The same for bytes of any format, such as the tiles of a timeline."""
        path = self._folder / _entry_name(name, version, parameters or {})
        kept = _read(path)
        if kept is not None:
            mark_used(path)
            return kept
        computed = compute()
        _write(path, computed)
        return computed


def _entry_name(name: str, version: int | str, parameters: Mapping[str, Any]) -> str:
    key = repr((SCHEMA_VERSION, name, str(version), sorted(parameters.items())))
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:40]
    return f"{readable}-{hashlib.sha256(key.encode()).hexdigest()[:20]}"


def _to_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema, options=pa.ipc.IpcWriteOptions(unify_dictionaries=True)) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def _read(path: Path) -> bytes | None:
    """The entry's bytes; None where there is none, or it is not what was written."""
    try:
        content = path.read_bytes()
    except OSError:
        return None
    start = len(_MAGIC) + _DIGEST_BYTES
    if not content.startswith(_MAGIC) or _digest(content[start:]) != content[len(_MAGIC) : start]:
        return None
    return content[start:]


def _write(path: Path, content: bytes) -> None:
    global _written_since_eviction
    draft = temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft.write_bytes(_MAGIC + _digest(content) + content)
        draft.replace(path)
    except OSError:
        # No space, or a read-only home: the result is computed again next time.
        with suppress(OSError):
            draft.unlink()
        return
    _written_since_eviction += len(content)
    if _written_since_eviction > _EVICT_EVERY_BYTES:
        _written_since_eviction = 0
        evict(cache_folder())


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_DIGEST_BYTES).digest()
