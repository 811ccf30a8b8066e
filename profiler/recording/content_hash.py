"""The SHA-256 of a large file, computed once as long as the file does not change."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

from .cache_folder import cache_folder
from .parquet_files import write_atomically

_SETTLED_NS = 2_000_000_000
"""A file changed more recently than this could change again within the same time stamp; its hash is not kept."""


def sha256_of(file: Path) -> str:
    """The SHA-256 of the file's bytes, in hex; remembered by path, size, inode and time of change.

    Raises:
        OSError: The file cannot be read.
    """
    path = file.resolve()
    status = path.stat()
    state = [str(path), status.st_size, status.st_ino, status.st_mtime_ns, status.st_ctime_ns]
    note = cache_folder() / "hashes" / hashlib.sha256(str(path).encode()).hexdigest()[:32]
    try:
        known = json.loads(note.read_bytes())
        if known["state"] == state:
            return str(known["sha256"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
    if time.time_ns() - status.st_mtime_ns > _SETTLED_NS:
        _remember(note, {"state": state, "sha256": digest})
    return digest


def _remember(note: Path, content: dict[str, object]) -> None:
    try:
        note.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(note, json.dumps(content).encode(), durable=False)
    except OSError:
        # A read-only cache: the file is hashed again next time.
        return
