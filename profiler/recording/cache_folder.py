"""The folder under XDG_CACHE_HOME where what was derived from recordings is kept, and its size limit.

Every entry can be derived again, so nothing here is precious: an entry that is damaged or gone is rebuilt, and the
entries used longest ago are removed when the folder grows over its limit.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import UsageError

LIMIT_BYTES = 10_000_000_000
"""How large the folder may grow, unless the environment variable STALLSCOPE_CACHE_BYTES says otherwise."""

IN_USE_S = 3600.0
"""An entry used this recently is never removed: another process may be reading it."""

_DRAFT_S = 24 * 3600.0


def cache_folder() -> Path:
    """Where the cache lies: XDG_CACHE_HOME/stallscope, else ~/.cache/stallscope."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "stallscope"


@contextmanager
def folder_drawn_up(folder: Path) -> Iterator[Path]:
    """Gives a draft beside the folder, which takes the folder's name when the block ends, complete or not at all.

    A folder of that name that is there by then stays: another process was faster, and its files are as good.

    Raises:
        OSError: The cache cannot be written.
    """
    draft = folder.with_name(f".{folder.name}.{os.getpid()}.{uuid.uuid4().hex[:8]}")
    draft.mkdir(parents=True)
    try:
        yield draft
        try:
            draft.rename(folder)
        except OSError:
            if not folder.is_dir():
                raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def mark_used(entry: Path) -> None:
    """Makes the entry the last to be removed."""
    try:
        os.utime(entry)
    except OSError:
        # A read-only cache works; its entries merely age.
        return


def evict(folder: Path, *, limit_bytes: int | None = None, in_use_s: float = IN_USE_S) -> int:
    """Removes the entries used longest ago until the folder is within its limit; returns the bytes removed.

    An entry is a file of ``derived/*/`` or a folder of ``imported/`` or ``tiles/``. Drafts that a killed process left
    go after a day.

    Args:
        folder: The cache.
        limit_bytes: The limit; None: what the environment says, else LIMIT_BYTES.
        in_use_s: Entries used within this time stay, whatever the limit.
    """
    limit = _limit_bytes() if limit_bytes is None else limit_bytes
    now = time.time()
    entries = sorted(_entries(folder, now))
    total = sum(size for _, size, _ in entries)
    removed = 0
    for used, size, path in entries:
        if total - removed <= limit or used > now - in_use_s:
            break
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
        removed += size
    return removed


def _entries(folder: Path, now: float) -> list[tuple[float, int, Path]]:
    """Time of last use, size and path of every entry."""
    found = []
    for path in [*folder.glob("derived/*/*"), *folder.glob("imported/*"), *folder.glob("tiles/*")]:
        try:
            used = path.stat().st_mtime
            if path.name.startswith(".") and used < now - _DRAFT_S:
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
            elif not path.name.startswith("."):
                found.append((used, _size(path), path))
        except OSError:
            # Another process has removed it.
            continue
    return found


def _size(path: Path) -> int:
    if not path.is_dir():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def _limit_bytes() -> int:
    text = os.environ.get("STALLSCOPE_CACHE_BYTES", "")
    if not text:
        return LIMIT_BYTES
    try:
        return int(text)
    except ValueError as error:
        raise UsageError(f"STALLSCOPE_CACHE_BYTES is {text!r}, expected a number of bytes.") from error
