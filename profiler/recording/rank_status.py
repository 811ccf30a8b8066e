"""rank.json: what a rank says about itself, and whether it is still alive.

A rank rewrites the file as a heartbeat. A reader believes ``completed`` and ``failed``; it checks ``running`` against
the process that wrote it.
"""

from __future__ import annotations

import json
import os
import socket
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

from .layout import RANK_FILE
from .parquet_files import write_atomically

STATUSES = ("running", "completed", "failed", "killed", "unknown")
"""running: its process lives. completed, failed: it said so itself. killed: it was running, and its process is gone.
unknown: nobody can tell, as with a process on another host that has stopped to report."""

STALE_AFTER_NS = 60_000_000_000
"""A heartbeat older than this no longer shows that a rank runs. Writers beat every few seconds."""


def process_identity() -> dict[str, Any]:
    """What tells this process from every other, now and later: host, boot, process-id namespace, id and start."""
    return {
        "host": socket.gethostname(),
        "boot_id": _boot_id(),
        "process_id_namespace": _process_id_namespace(),
        "process_id": os.getpid(),
        "process_start": process_start(os.getpid()),
    }


def process_start(process_id: int) -> int | None:
    """When the process started, in clock ticks since boot; None if it is gone, a zombie, or /proc is not there."""
    try:
        text = Path(f"/proc/{process_id}/stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def write_rank_file(attempt: Path, fields: dict[str, Any], *, durable: bool = True) -> None:
    """Replaces rank.json atomically.

    Raises:
        OSError: The disk is full, or the folder cannot be written.
    """
    text = json.dumps(fields, indent=1, default=str)
    write_atomically(attempt / RANK_FILE, text.encode(), durable=durable)


def read_rank_file(attempt: Path) -> dict[str, Any]:
    """rank.json with ``status`` resolved to what is true now, one of ``STATUSES``.

    A missing or damaged file gives status unknown and a ``problem`` that says why.
    """
    path = attempt / RANK_FILE
    try:
        fields = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        return {"status": "unknown", "problem": f"{path} cannot be read: {error}"}
    if not isinstance(fields, dict):
        return {"status": "unknown", "problem": f"{path} is not a JSON object"}
    return fields | {"status": _resolved(fields)}


def _resolved(fields: dict[str, Any]) -> str:
    status = fields.get("status")
    if status != "running":
        return status if status in STATUSES else "unknown"
    beat = fields.get("heartbeat_ns")
    is_fresh = isinstance(beat, int) and time.time_ns() - beat < STALE_AFTER_NS
    writer = fields.get("writer")
    if not isinstance(writer, dict) or writer.get("host") != socket.gethostname():
        return "running" if is_fresh else "unknown"
    if writer.get("boot_id") != _boot_id():
        return "killed"
    if writer.get("process_id_namespace") != _process_id_namespace() or not isinstance(
        writer.get("process_start"), int
    ):
        # The process cannot be looked up by its number: only the heartbeat speaks for it.
        return "running" if is_fresh else "killed"
    return "running" if process_start(int(writer.get("process_id", -1))) == writer["process_start"] else "killed"


@lru_cache(maxsize=1)
def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def _process_id_namespace() -> str | None:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return None
