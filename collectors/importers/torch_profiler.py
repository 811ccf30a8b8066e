"""Imports traces of torch.profiler (Kineto), of any year and accelerator, and plain Chrome traces."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ...profiler.recording.claim import write_recording_file
from ...profiler.recording.errors import FormatError
from ...profiler.recording.segment import Segment
from ...profiler.recording.writer import RankWriter, RecordingWriter
from .files import certainty, rank_in_name, rank_of
from .freed_memory import release_freed_memory
from .identity import job_of
from .reading import Chooser, Reading
from .recording_rows import TraceRows
from .scanner import scan
from .scanner.source import TraceSource
from .spill import Spill

_HEAD_OF_EVENTS = re.compile(rb'"traceEvents"\s*:|"ph"\s*:\s*"|"schemaVersion"\s*:|"deviceProperties"\s*:')

_NO_TRACE = frozenset({"empty", "no_trace_events"})
"""Damage that tells a whole file of something else from a trace that was cut."""

Progress = Callable[[str, float | None], None]


class TorchProfilerImporter:
    """Reads the JSON that torch.profiler exports, and any Chrome trace.

    Attributes:
        name: The importer's name.
        version: Raised whenever the same file would be read differently.
    """

    name = "torch_profiler"
    version = 4

    def sniff(self, head: bytes, file_name: str) -> str | None:
        """Whether it reads such a file: None if it does, else why not.

        Args:
            head: The first bytes of the file, decompressed.
            file_name: Not looked at: names lie.
        """
        text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
        if not text:
            return "the file is empty"
        if text[:1] not in b"{[":
            return "it is not JSON: it begins with neither { nor ["
        if not _HEAD_OF_EVENTS.search(text):
            return "no trace events, and nothing that torch.profiler writes before them, near its beginning"
        return None

    def import_files(self, paths: list[Path], writer: RecordingWriter, progress: Progress | None) -> None:
        """Writes trace files as the ranks of one recording, one segment for each file.

        Args:
            paths: The files.
            writer: The recording.
            progress: Told which file is read and how far, 0..1.

        Raises:
            FormatError: Two files are of the same rank, or a file cannot be read or holds no event at all.
        """
        taken: dict[int, Path] = {}
        world_sizes: set[int] = set()
        for number, path in enumerate(sorted(paths, key=certainty)):

            def report(share: float, path: Path = path, number: int = number) -> None:
                if progress:
                    progress(path.name, (number + 0.9 * share) / len(paths))

            world_sizes.update(self._import_file(path, writer, taken, report))
        if world_sizes:
            writer.info["world_size"] = max(world_sizes)
        writer.info["importer"] = {"name": self.name, "version": self.version}
        write_recording_file(writer.path, writer.info)
        if progress:
            progress("done", 1.0)

    def _import_file(
        self, path: Path, writer: RecordingWriter, taken: dict[int, Path], report: Callable[[float], None]
    ) -> set[int]:
        """Writes a file as one rank, or as several where its processes are named after ranks; returns world sizes."""
        with _reading(path, report) as rows:
            ranks = rows.ranks_of_processes()
            job = job_of(rows.metadata)
            if not ranks:
                rank = rank_of(path, job.rank, taken)
                taken[rank] = path
                guessed = job.rank is None and rank_in_name(path.name) is None
                self._write(rows, writer.rank(rank), guessed=guessed)
                return {job.world_size} if job.world_size is not None else set()
        lowest = min(ranks.values())
        for rank in sorted(set(ranks.values())):
            taken[rank_of(path, rank, taken)] = path

            def is_of_rank(process: str, rank: int = rank) -> bool:
                return ranks.get(process, lowest) == rank

            with _reading(path, report, chooses=is_of_rank) as rows:
                self._write(rows, writer.rank(rank), ranks_in_file=len(set(ranks.values())))
        return {job.world_size or len(set(ranks.values()))}

    def _write(self, rows: TraceRows, writer: RankWriter, *, guessed: bool = False, ranks_in_file: int = 1) -> None:
        rows.write(writer, writer.reserve_ids(1), guessed_rank=guessed, ranks_in_file=ranks_in_file)
        writer.close(**rows.rank_fields(self.name, self.version))

    def import_segment(self, path: Path, writer: RankWriter, segment: Segment) -> None:
        """Writes one segment that a running program exported, beside what its collectors wrote.

        Args:
            path: The file.
            writer: Takes the segment's rows; its ids begin at the segment's own.
            segment: What is known of it.
        """
        with _reading(path) as rows:
            rows.write(writer, segment.segment_id, live=segment)
            writer.update(**rows.rank_fields(self.name, self.version))


@contextmanager
def _reading(
    path: Path, report: Callable[[float], None] | None = None, *, chooses: Chooser | None = None
) -> Iterator[TraceRows]:
    """A file, read to its end; what it left in temporary files goes at the end of the block.

    Raises:
        FormatError: The file cannot be read, or is whole and holds no list of events.
    """
    source = TraceSource(path, progress=(lambda done, size: report(done / max(size, 1))) if report else None)
    with tempfile.TemporaryDirectory(prefix="stallscope-import-") as folder:
        scanner = scan(source)
        spill = Spill(Path(folder))
        try:
            reading = Reading(scanner, spill, chooses)
            for batch in scanner:
                reading.take(batch)
                del batch  # before the next one is built beside it
            reading.finish(scanner)
            del scanner
            release_freed_memory()
            if not reading.phases and reading.damage and not source.damage and _NO_TRACE.issuperset(reading.damage):
                raise FormatError(
                    f"{path} holds no list of trace events.",
                    hint="Give a file that torch.profiler exported with export_chrome_trace.",
                )
            yield TraceRows(path, source, reading)
        finally:
            spill.close()
