"""Imports traces of torch.profiler (Kineto), of any year and accelerator, and plain Chrome traces."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable
from pathlib import Path

from ...profiler.recording.claim import write_recording_file
from ...profiler.recording.errors import FormatError
from ...profiler.recording.segment import Segment
from ...profiler.recording.writer import RankWriter, RecordingWriter
from .files import certainty, rank_in_name, rank_of
from .freed_memory import release_freed_memory
from .identity import job_of
from .reading import Reading
from .recording_rows import TraceRows
from .scanner import scan
from .scanner.source import TraceSource
from .spill import Spill

_HEAD_OF_EVENTS = re.compile(rb'"traceEvents"\s*:|"ph"\s*:\s*"|"schemaVersion"\s*:|"deviceProperties"\s*:')

Progress = Callable[[str, float | None], None]


class TorchProfilerImporter:
    """Reads the JSON that torch.profiler exports, and any Chrome trace.

    Attributes:
        name: The importer's name.
        version: Raised whenever the same file would be read differently.
    """

    name = "torch_profiler"
    version = 1

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

            with tempfile.TemporaryDirectory(prefix="stallscope-import-") as folder:
                rows = _read(path, Path(folder), report)
                job = job_of(rows.metadata)
                rank = rank_of(path, job.rank, taken)
                guessed = job.rank is None and rank_in_name(path.name) is None
                if job.world_size is not None:
                    world_sizes.add(job.world_size)
                taken[rank] = path
                rank_writer = writer.rank(rank)
                rows.write(rank_writer, rank_writer.reserve_ids(1), guessed_rank=guessed)
                rank_writer.close(**rows.rank_fields(self.name, self.version))
                rows.close()
        if world_sizes:
            writer.info["world_size"] = max(world_sizes)
        writer.info["importer"] = {"name": self.name, "version": self.version}
        write_recording_file(writer.path, writer.info)
        if progress:
            progress("done", 1.0)

    def import_segment(self, path: Path, writer: RankWriter, segment: Segment) -> None:
        """Writes one segment that a running program exported, beside what its collectors wrote.

        Args:
            path: The file.
            writer: Takes the segment's rows; its ids begin at the segment's own.
            segment: What is known of it.
        """
        with tempfile.TemporaryDirectory(prefix="stallscope-import-") as folder:
            rows = _read(path, Path(folder), None)
            rows.write(writer, segment.segment_id, live=segment)
            writer.update(**rows.rank_fields(self.name, self.version))
            rows.close()


def _read(path: Path, folder: Path, report: Callable[[float], None] | None) -> TraceRows:
    source = TraceSource(path, progress=(lambda done, size: report(done / max(size, 1))) if report else None)
    scanner = scan(source)
    reading = Reading(scanner, Spill(folder))
    for batch in scanner:
        reading.take(batch)
        del batch  # before the next one is built beside it
    reading.finish(scanner)
    del scanner
    release_freed_memory()
    if not reading.phases:
        raise FormatError(
            f"{path} holds no trace event that can be read.",
            hint="Give a file that torch.profiler exported with export_chrome_trace.",
        )
    return TraceRows(path, source, reading)
