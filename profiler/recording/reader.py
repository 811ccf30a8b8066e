"""Reading: a recording, or another tool's trace as if it were one."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from .cache import DerivedCache
from .errors import FormatError, UsageError
from .layout import RECORDING_FILE, attempt_folder, attempts_by_rank, is_recording, row_folders, table_files
from .parquet_files import footer
from .rank_status import read_rank_file
from .schema import SCHEMA_VERSION, TABLES, Table
from .table_reader import Damage, Window, read_rows

if TYPE_CHECKING:
    import pandas as pd

    from .foreign import Progress


def open_recording(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], *, progress: Progress | None = None
) -> Recording:
    """Opens a recording, or the trace of another tool; reads no rows yet.

    A trace is imported into the cache the first time, and found there the next time.

    Args:
        path: A recording's folder; a trace file; a folder or a list of trace files, as ranks of one recording.
        progress: Told how far an import is.

    Raises:
        UsageError: There is nothing at the path.
        FormatError: It is neither a recording nor a trace that an importer knows, or a newer version wrote it.
    """
    paths = [Path(path)] if isinstance(path, str | os.PathLike) else [Path(entry) for entry in path]
    if not paths:
        raise UsageError("no path was given to open.")
    for entry in paths:
        if not entry.exists():
            raise UsageError(f"{entry} does not exist.")
    if len(paths) == 1 and paths[0].is_dir() and is_recording(paths[0]):
        recording = Recording(paths[0])
        recording.convert_segments(progress)
        return recording
    from .foreign import imported

    return Recording(imported(paths, progress))


class Recording:
    """A recording opened for reading, as its files were when it was opened.

    Attributes:
        path: The folder.
        info: recording.json; empty where rank 0 did not come to write it.
    """

    def __init__(self, path: Path, *, attempts: Mapping[int, int] | None = None) -> None:
        self.path = path
        self.info = _read_info(path)
        self._attempts = attempts_by_rank(path)
        self._chosen = {rank: all_[-1] for rank, all_ in self._attempts.items()} | dict(attempts or {})
        self._damage = Damage()
        self._converted: dict[int, list[Path]] = {}

    @property
    def ranks(self) -> tuple[int, ...]:
        """Every rank that wrote something, ascending."""
        return tuple(self._chosen)

    def attempts(self, rank: int) -> tuple[int, ...]:
        """Every attempt of a rank, ascending; rows are read from the last unless ``at_attempt`` chose another."""
        self._must_have(rank)
        return self._attempts[rank]

    def at_attempt(self, rank: int, attempt: int) -> Recording:
        """The same recording with another attempt of one rank.

        Raises:
            UsageError: The rank has no such attempt.
        """
        if attempt not in self.attempts(rank):
            raise UsageError(f"rank {rank} has no attempt {attempt}; it has {_listed(self.attempts(rank))}.")
        chosen = Recording(self.path, attempts=self._chosen | {rank: attempt})
        chosen.convert_segments()
        return chosen

    def rank_info(self, rank: int) -> dict[str, Any]:
        """rank.json of a rank, with ``status`` as it is now: running, completed, failed, killed or unknown."""
        self._must_have(rank)
        return read_rank_file(self._folder(rank))

    @property
    def identity(self) -> dict[str, Any]:
        """What was run, where, with which versions: from recording.json, else from the first rank that says."""
        own = self.info.get("identity")
        if own:
            return dict(own)
        candidates = (self.rank_info(rank).get("identity") for rank in self.ranks)
        return next((dict(found) for found in candidates if isinstance(found, dict) and found), {})

    def table(
        self,
        name: str,
        ranks: Iterable[int] | int | None = None,
        window: Window | None = None,
        columns: Sequence[str] | None = None,
    ) -> pa.Table:
        """Rows of a table: rank after rank, each in the table's order, repeated text as dictionaries.

        Args:
            name: A name of ``schema.TABLES``.
            ranks: Whose rows; None: every rank's.
            window: [start, end) in ns: rows that overlap it, by ts and dur where the table has them.
            columns: Which columns, in that order; None: all.

        Raises:
            UsageError: There is no such table, column or rank.
            FormatError: A file has a column of another type, or lacks one that cannot be null.
        """
        table = _table(name)
        wanted = _columns(table, columns)
        if window is not None and window[0] > window[1]:
            raise UsageError(f"the window {window} ends before it starts.")
        found: list[pa.Table] = []
        for rank in self._ranks(ranks):
            found += read_rows(self._row_folders(rank), table, wanted, window, self._damage)
            if name == "losses":
                found += self._damage_rows(rank, wanted, window)
        if not found:
            return table.schema.empty_table().select(wanted)
        return pa.concat_tables(found).unify_dictionaries()

    def frame(
        self,
        name: str,
        ranks: Iterable[int] | int | None = None,
        window: Window | None = None,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """The same as a DataFrame: repeated text as categories, integers with nulls as Int64, never as floats."""
        from .frames import to_frame

        return to_frame(self.table(name, ranks, window, columns))

    def sql(
        self,
        query: str,
        *,
        timeout_s: float = 30,
        memory_limit: str = "1GB",
        row_limit: int | None = None,
        also: Mapping[str, pa.Table] | None = None,
    ) -> pa.Table:
        """The result of one SELECT over the tables of the recording (DuckDB's SQL).

        Args:
            query: One SELECT; every table of the recording is a view, with the columns of docs/schema.md.
            timeout_s: Interrupted after this long.
            memory_limit: As DuckDB writes it; nothing is spilled to disk.
            row_limit: At most this many rows; where there were more, ``sql.TRUNCATED_KEY`` is in the schema's metadata.
            also: Further tables by name, such as derived ones.

        Raises:
            QueryError: It is not a single SELECT, reaches outside the recording, fails, or exceeds a limit.
        """
        from .sql import run_query

        return run_query(self, query, timeout_s=timeout_s, memory_limit=memory_limit, row_limit=row_limit, also=also)

    def files(self, name: str, ranks: Iterable[int] | int | None = None) -> list[Path]:
        """The Parquet files that hold the table's rows, each row once."""
        table = _table(name)
        folders = [folder for rank in self._ranks(ranks) for folder in self._row_folders(rank)]
        return [file.path for folder in folders for file in table_files(folder, table.name)]

    @cached_property
    def fingerprint(self) -> str:
        """A digest of what the recording holds: the same for a copy, another one as soon as a row is added.

        Reads the footers, each of which holds a digest of its file.
        """
        digest = hashlib.sha256(f"schema {SCHEMA_VERSION}".encode())
        for rank in self.ranks:
            for name in TABLES:
                for path in self.files(name, rank):
                    digest.update(f"{rank} {name} {path.name} {path.stat().st_size} ".encode())
                    digest.update(b"damaged" if _footer_problem(path) else footer(path))
        return digest.hexdigest()

    @cached_property
    def cache(self) -> DerivedCache:
        """Where tables derived from this recording are kept; never inside it."""
        return DerivedCache(self.fingerprint)

    def convert_segments(self, progress: Progress | None = None) -> None:
        """Converts what ended ranks left unconverted, into the cache; ``open_recording`` does so."""
        from .pending import converted_segments

        for rank in self.ranks:
            if self.rank_info(rank)["status"] != "running":
                self._converted[rank], problems = converted_segments(self._folder(rank), progress)
                self._damage.files |= problems

    def _row_folders(self, rank: int) -> list[Path]:
        return [*row_folders(self._folder(rank)), *self._converted.get(rank, ())]

    def _folder(self, rank: int) -> Path:
        return attempt_folder(self.path, rank, self._chosen[rank])

    def _ranks(self, ranks: Iterable[int] | int | None) -> list[int]:
        chosen = self.ranks if ranks is None else (ranks,) if isinstance(ranks, int) else tuple(ranks)
        for rank in chosen:
            self._must_have(rank)
        return list(chosen)

    def _must_have(self, rank: int) -> None:
        if rank not in self._chosen:
            raise UsageError(f"{self.path} has no rank {rank}; it has {_listed(self.ranks)}.")

    def _damage_rows(self, rank: int, columns: Sequence[str], window: Window | None) -> list[pa.Table]:
        """A row of ``losses`` for every file of the rank that is known to be damaged; they lie at no time."""
        if window is not None:
            return []
        for name in TABLES:
            for path in self.files(name, rank):
                problem = None if path in self._damage.files else _footer_problem(path)
                if problem:
                    self._damage.files[path] = problem
        from .rows import conform

        folders = [self._folder(rank), *self._converted.get(rank, ())]
        damaged = [(path, why) for path, why in self._damage.files.items() if any(map(path.is_relative_to, folders))]
        count = len(damaged)
        rows = {
            "rank": [rank] * count,
            "collector": ["reader"] * count,
            "kind": ["damaged_file"] * count,
            "severity": ["data_loss"] * count,
            "detail": [f"{path.parent.name}/{path.name}: {why}" for path, why in damaged],
        }
        return [conform(TABLES["losses"], rows).select(list(columns))] if count else []


def _footer_problem(path: Path) -> str | None:
    """Why the file cannot be read at all; None where its footer is whole."""
    try:
        pq.read_metadata(path)
    except (pa.ArrowException, OSError) as error:
        return str(error).partition("\n")[0]
    return None


def _read_info(path: Path) -> dict[str, Any]:
    file = path / RECORDING_FILE
    if not file.exists():
        return {}
    try:
        info = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise FormatError(f"{file} cannot be read: {error}.", hint="Copy recording.json again.") from error
    version = info.get("schema_version") if isinstance(info, dict) else None
    if not isinstance(version, int):
        raise FormatError(f"{file} has no schema_version: it is not a recording of stallscope.")
    if version > SCHEMA_VERSION:
        raise FormatError(
            f"{path} was written with schema {version}; this version reads up to schema {SCHEMA_VERSION}.",
            hint="Install a newer stallscope to open it.",
        )
    return dict(info)


def _table(name: str) -> Table:
    if name not in TABLES:
        raise UsageError(f"a recording has no table {name!r}; it has {', '.join(TABLES)}.")
    return TABLES[name]


def _columns(table: Table, columns: Sequence[str] | None) -> list[str]:
    known = table.schema.names
    for name in columns or ():
        if name not in known:
            raise UsageError(f"table {table.name} has no column {name!r}; it has {', '.join(known)}.")
    return list(known if columns is None else columns)


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:16]))
    return shown + (f", ... ({len(numbers)} in all)" if len(numbers) > 16 else "") if numbers else "none"
