"""Files that commands write: never over something else unless told to, and whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..profiler.recording.errors import UsageError


def must_be_free(path: Path, *, force: bool) -> None:
    """Checks that a file may be written.

    Raises:
        UsageError: Something is there and ``force`` is not given, or it is a folder, or its folder does not exist.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder; name a file.")
    if path.exists() and not force:
        raise UsageError(f"{path} exists and will not be overwritten.", hint="Name another file, or give --force.")
    if not path.absolute().parent.is_dir():
        raise UsageError(f"{path.absolute().parent} does not exist, so {path.name} cannot be written there.")


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name at the end; an error leaves nothing behind."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
