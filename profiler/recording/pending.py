"""Segments that a run left as torch wrote them, converted by whoever opens the recording.

The tables go into the cache, since the recording may be read-only, and a segment that is being converted by its own run
is left to it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from .cache_folder import cache_folder, evict, mark_used
from .categories import rules_fingerprint
from .errors import StallscopeError
from .schema import SCHEMA_VERSION
from .segment import RAW, Segment
from .segments import convert_segment, pending_segments, raw_file, segment_importer

Progress = Callable[[str, float | None], None]


def converted_segments(attempt: Path, progress: Progress | None = None) -> tuple[list[Path], dict[Path, str]]:
    """The folders of tables of the attempt's segments that have none of their own, and what could not be converted.

    Returns:
        Folders in the cache; and for each raw file that cannot be read, why.
    """
    folders: list[Path] = []
    problems: dict[Path, str] = {}
    if not (attempt / RAW).is_dir():
        return folders, problems
    pending = pending_segments(attempt)
    for number, segment in enumerate(pending):
        if progress is not None:
            progress(f"converting {segment.name} of rank {segment.rank}", number / len(pending))
        source = raw_file(attempt, segment)
        try:
            folders.append(_converted(attempt, segment))
        except (StallscopeError, OSError) as error:
            problems[source or attempt / RAW] = str(error)
    if pending:
        evict(cache_folder())
    return folders, problems


def _converted(attempt: Path, segment: Segment) -> Path:
    """The folder of the segment's tables in the cache, converted now if it is not there."""
    importer = segment_importer()
    source = raw_file(attempt, segment)
    state = source.stat() if source else None
    key = [
        str(attempt.resolve()),
        asdict(segment),
        [state.st_size, state.st_mtime_ns] if state else None,
        [importer.name, importer.version, SCHEMA_VERSION, rules_fingerprint()],
    ]
    home = cache_folder() / "imported" / f"segment-{hashlib.sha256(json.dumps(key).encode()).hexdigest()[:32]}"
    if (home / segment.name).is_dir():
        mark_used(home)
        return home / segment.name
    return convert_segment(attempt, segment, into=home)
