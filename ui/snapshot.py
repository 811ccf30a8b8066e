"""A recording that is still written, as it is at one moment: its files linked into a folder of their own.

What a page shows is worked out over time, and all of it has to be about the same rows. A writer adds files, and at the
end merges them and removes what it merged; the files themselves never change. So links to those that are there hold
still, cost no space and no reading.
"""

from __future__ import annotations

import os
import shutil
import uuid
import weakref
from contextlib import suppress
from pathlib import Path

from ..profiler.recording.cache_folder import cache_folder, mark_used
from ..profiler.recording.layout import (
    RANK_FILE,
    RECORDING_FILE,
    SEGMENTS,
    all_table_files,
    attempt_folder,
    attempts_by_rank,
    row_folders,
    table_files,
)
from ..profiler.recording.reader import Recording
from ..profiler.recording.schema import TABLES

_TRIES = 5
"""How often files are listed anew because the writer removed some that it had merged."""

Stamp = tuple[tuple[str, ...], ...]


def written_so_far(path: Path) -> Stamp:
    """The names of a recording's files: another value as soon as rows were added. No file is opened."""
    found = []
    for rank, attempts in attempts_by_rank(path).items():
        folder = attempt_folder(path, rank, attempts[-1])
        names = [f"{rank}/{attempts[-1]}"]
        names += [f"{name}/{file.path.name}" for name in TABLES for file in all_table_files(folder, name)]
        segments = folder / SEGMENTS
        names += sorted(one.name for one in segments.iterdir()) if segments.is_dir() else []
        found.append(tuple(name for name in names if not name.startswith(".")))
    return tuple(found)


def snapshot(path: Path) -> Recording:
    """The recording in this folder as it is now; the links go with the object that is returned.

    Each rank's last attempt is in it. Its status stays the live one.

    Raises:
        OSError: The cache cannot be written.
    """
    folder = cache_folder() / "imported" / f".running-{os.getpid()}-{uuid.uuid4().hex[:12]}"
    for tries_left in reversed(range(_TRIES)):
        try:
            _link_all(path.resolve(), folder)
            break
        except FileNotFoundError:
            shutil.rmtree(folder, ignore_errors=True)
            if not tries_left:
                raise
    recording = Recording(folder)
    weakref.finalize(recording, shutil.rmtree, folder, ignore_errors=True)
    return recording


def keep(recording: Recording) -> None:
    """Marks a snapshot as used, so that it is not taken for one that a killed server has left behind."""
    mark_used(recording.path)


def _link_all(path: Path, into: Path) -> None:
    into.mkdir(parents=True)
    with suppress(FileNotFoundError):
        shutil.copyfile(path / RECORDING_FILE, into / RECORDING_FILE)
    for rank, attempts in attempts_by_rank(path).items():
        source, target = (attempt_folder(one, rank, attempts[-1]) for one in (path, into))
        target.mkdir(parents=True)
        (target / RANK_FILE).symlink_to(source / RANK_FILE)
        for folder in row_folders(source):
            for name in TABLES:
                files = table_files(folder, name)
                if files:
                    place = target / folder.relative_to(source) / name
                    place.mkdir(parents=True)
                    for file in files:
                        _link(file.path, place / file.path.name)


def _link(source: Path, target: Path) -> None:
    """A hard link, which outlives the writer's own name for the file; where there can be none, a symbolic one."""
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:
        target.symlink_to(source)
