"""Writing a recording: one folder for each rank, in parts that are whole as soon as they can be seen.

A Parquet file without its footer cannot be read at all, so rows that arrive over time go into many small files, each
written under another name, fsynced and then named. Whatever happens to the process, every part that has its name stays
readable. ``RankWriter.close`` merges the parts into one file in the table's order.
"""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa

from .claim import claim_folder, new_attempt, write_recording_file
from .compaction import compact
from .errors import CaptureError, UsageError
from .ids import attempt_base, id_base
from .part_buffer import PartBuffer
from .rank_status import process_identity, write_rank_file
from .rows import Rows, conform
from .schema import SCHEMA_VERSION, TABLES, Table

PART_SECONDS = 10.0
"""A part is closed when its first row is this old: the most that a kill can lose."""


class RecordingWriter:
    """A recording that is being written. Each rank's process creates its own on the same path."""

    def __init__(self, path: Path, info: dict[str, Any]) -> None:
        self.path = path
        self.info = info
        self._ranks: list[RankWriter] = []

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        *,
        label: str | None = None,
        world_size: int | None = None,
        settings: Mapping[str, Any] | None = None,
        identity: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        force: bool = False,
    ) -> Self:
        """Starts a recording, or joins the one that another rank of the same run has started.

        Args:
            path: The folder; made if it is not there.
            label: What the user calls the run.
            world_size: Ranks in the job.
            settings: Each setting with its value and where it came from.
            identity: What was run, where, with which versions.
            run_id: The same text in every rank of a run, and after a restart; None: this process is the whole run.
            force: Replace the ranks of another run. Files that are not a recording's are never touched.

        Raises:
            CaptureError: The folder holds something else, or cannot be written.
        """
        folder = Path(path)
        info = {
            "format": "stallscope recording",
            "schema_version": SCHEMA_VERSION,
            "run_id": run_id or uuid.uuid4().hex,
            "label": label,
            "world_size": world_size,
            "created_ns": time.time_ns(),
            "settings": dict(settings or {}),
            "identity": dict(identity or {}),
        }
        try:
            claim_folder(folder, info, force=force)
        except OSError as error:
            raise _cannot_write(folder, error) from error
        return cls(folder, info)

    def rank(self, rank: int, *, attempt: int | None = None, heartbeat_s: float | None = None) -> RankWriter:
        """Starts writing a rank; one that was written before becomes the next attempt, and both are kept.

        Args:
            rank: The rank in the job.
            attempt: The attempt's number; None: one more than the last.
            heartbeat_s: Beat and close old parts from a thread, this often; None: only while rows are appended.

        Raises:
            UsageError: The rank is negative or too large for an id.
            CaptureError: That attempt exists, or the folder cannot be written.
        """
        try:
            id_base(rank)
        except ValueError as error:
            raise UsageError(f"{error}.") from error
        now = time.time_ns()
        fields: dict[str, Any] = {
            "rank": rank,
            "attempt": attempt,
            "run_id": self.info["run_id"],
            "schema_version": SCHEMA_VERSION,
            "status": "running",
            "started_ns": now,
            "heartbeat_ns": now,
            "writer": process_identity(),
        }
        try:
            if rank == 0:
                write_recording_file(self.path, self.info)
            writer = RankWriter(new_attempt(self.path, fields), fields, heartbeat_s=heartbeat_s)
        except OSError as error:
            raise _cannot_write(self.path, error) from error
        self._ranks.append(writer)
        return writer

    def close(self) -> None:
        """Closes every rank that was started here and is still open."""
        for writer in self._ranks:
            writer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for writer in self._ranks:
            writer.__exit__(kind, error, trace)


class RankWriter:
    """The rows of one attempt of one rank. Safe to use from several threads.

    Attributes:
        folder: Where its files go.
        rank: The rank in the job.
        attempt: Which start of the rank this is, from 0.
    """

    def __init__(
        self, folder: Path, fields: dict[str, Any], *, heartbeat_s: float | None = None, first_id: int | None = None
    ) -> None:
        self.folder = folder
        self.rank: int = fields["rank"]
        self.attempt: int = fields["attempt"]
        self._fields = fields
        self._lock = threading.RLock()
        self._buffers: dict[str, PartBuffer] = {}
        self._next_id = attempt_base(self.rank, self.attempt) if first_id is None else first_id
        self._closed = threading.Event()
        self._process_id = os.getpid()
        if heartbeat_s is not None:
            threading.Thread(target=self._beat, args=(heartbeat_s,), name="stallscope-heartbeat", daemon=True).start()

    def append(self, table: str, rows: Rows) -> None:
        """Adds rows to a table; closes its part if that is full or old.

        Args:
            table: A name of ``schema.TABLES``.
            rows: Arrow rows, or a list or array for each column. Nullable columns may be absent; ``rank`` and
                ``attempt`` are filled in.

        Raises:
            CaptureError: The rows do not fit the table, the rank is closed, or the disk is full. In that last case the
                rows are kept, and the next call tries to write them again.
        """
        conformed = self._conform(table, rows)
        with self._lock:
            self._buffer(table).add(conformed)
            self._close_parts(PART_SECONDS)

    def add_sorted(self, table: str, rows: pa.Table | pa.RecordBatch | Iterable[pa.Table | pa.RecordBatch]) -> int:
        """Writes rows that are in the table's order already as one part, however many; returns how many.

        An iterable is consumed batch by batch, so a table of any size passes through the memory of one row group.

        Raises:
            CaptureError: The rows do not fit, are not in order (then no file is left), or the disk is full.
        """
        batches = [rows] if isinstance(rows, pa.Table | pa.RecordBatch) else rows
        with self._lock:
            buffer = self._buffer(table)
            try:
                return buffer.write_sorted(self._conform(table, batch) for batch in batches)
            except OSError as error:
                raise _cannot_write(self.folder, error) from error

    def reserve_ids(self, count: int) -> int:
        """The first of ``count`` ids that no other call on this writer gets."""
        with self._lock:
            first = self._next_id
            self._next_id += count
            return first

    def flush(self) -> None:
        """Closes every part that has rows: they survive a kill from now on.

        Raises:
            CaptureError: The disk is full or the folder cannot be written; the rows are kept.
        """
        with self._lock:
            self._must_be_open()
            self._close_parts(0.0)

    def update(self, **fields: Any) -> None:
        """Merges fields into rank.json and beats: the file is replaced atomically.

        Raises:
            CaptureError: The disk is full or the folder cannot be written.
        """
        with self._lock:
            self._must_be_open()
            self._write_fields(fields, durable=False)
            self._close_parts(PART_SECONDS)

    def close(self, status: str = "completed", **fields: Any) -> None:
        """Closes the last parts, merges each table's, and writes the final status.

        Closing again does nothing, nor does closing in a process that was forked from the writer's, as by a DataLoader.
        A merge that fails, as on a full disk, leaves the parts as they are: nothing is lost, and rank.json says so.

        Args:
            status: completed or failed.
            fields: More for rank.json, such as the exception.

        Raises:
            CaptureError: The last rows or rank.json could not be written. The rank then stays open, so that closing can
                be tried again.
        """
        with self._lock:
            if self._closed.is_set() or os.getpid() != self._process_id:
                return
            self._close_parts(0.0)
            problems = [problem for name in self._buffers if (problem := self._compact(name))]
            final = {"status": status, "ended_ns": time.time_ns()} | fields
            self._write_fields(final | ({"compaction": problems} if problems else {}), durable=True)
            self._closed.set()

    def _conform(self, table: str, rows: Rows) -> pa.Table:
        return conform(_table(table), rows, {"rank": self.rank, "attempt": self.attempt})

    def _buffer(self, table: str) -> PartBuffer:
        self._must_be_open()
        if table not in self._buffers:
            self._buffers[table] = PartBuffer(_table(table), self.folder)
        return self._buffers[table]

    def _compact(self, table: str) -> str | None:
        try:
            compact(self.folder, TABLES[table])
        except (OSError, pa.ArrowException) as error:
            return f"{table}: {error}"
        return None

    def _close_parts(self, age_s: float) -> None:
        try:
            self._record_drops()
            for buffer in self._buffers.values():
                buffer.close_part(age_s)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error

    def _record_drops(self) -> None:
        """Turns rows that were dropped for want of disk space into rows of ``losses``."""
        for name, buffer in list(self._buffers.items()):
            if count := buffer.take_dropped():
                loss = {
                    "collector": ["writer"],
                    "kind": ["rows_dropped"],
                    "severity": ["data_loss"],
                    "count": [count],
                    "detail": [f"{count} rows of {name} were dropped: the disk took none for too long"],
                }
                self._buffer("losses").add(self._conform("losses", loss))

    def _write_fields(self, fields: Mapping[str, Any], *, durable: bool) -> None:
        self._fields |= fields
        self._fields["heartbeat_ns"] = time.time_ns()
        try:
            write_rank_file(self.folder, self._fields, durable=durable)
        except OSError as error:
            raise _cannot_write(self.folder, error) from error

    def _beat(self, interval_s: float) -> None:
        while not self._closed.wait(interval_s):
            try:
                self.update()
            except CaptureError:
                # The next append or flush meets the same error and reports it to its caller.
                continue

    def _must_be_open(self) -> None:
        if self._closed.is_set():
            raise CaptureError(f"rank {self.rank} in {self.folder} is closed: it takes no more rows.")
        if os.getpid() != self._process_id:
            raise CaptureError(f"rank {self.rank} in {self.folder} is written by the process that forked this one.")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.close("failed", exception={"type": type(error).__name__, "message": str(error)})


def _table(name: str) -> Table:
    if name not in TABLES:
        raise CaptureError(f"a recording has no table {name!r}; it has {', '.join(TABLES)}.")
    return TABLES[name]


def _cannot_write(path: Path, error: OSError) -> CaptureError:
    reason = error.strerror or str(error)
    return CaptureError(f"{path} cannot be written: {reason}.", hint="Free space, or record into another folder.")
