"""Whose folder is it: starting a recording without ever writing over something else."""

from __future__ import annotations

import json
import shutil
import uuid
from pathlib import Path
from typing import Any

from .errors import CaptureError
from .layout import RANK_FILE, RANKS, RECORDING_FILE, attempt_folder, attempts_by_rank, rank_folder
from .parquet_files import sync_folder, write_atomically
from .rank_status import write_rank_file


def claim_folder(folder: Path, info: dict[str, Any], *, force: bool) -> None:
    """Makes the folder a recording of the run ``info["run_id"]``, or finds that it is one already.

    With ``force`` the ranks of other runs are removed; everything that is not a recording's stays.

    Raises:
        CaptureError: It holds another run's recording, or files that are not a recording's, and ``force`` is not set.
        OSError: It cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    foreign = _foreign(folder, info["run_id"])
    if foreign and not force:
        raise CaptureError(
            f"{folder} {foreign}; nothing was written.", hint="Choose another folder, or use force to record there."
        )
    if foreign:
        _remove_other_runs(folder, info["run_id"])
        (folder / RECORDING_FILE).unlink(missing_ok=True)
    (folder / RANKS).mkdir(exist_ok=True)
    if not (folder / RECORDING_FILE).exists():
        write_recording_file(folder, info)


def write_recording_file(folder: Path, info: dict[str, Any]) -> None:
    """Writes recording.json atomically. The first rank writes it, and rank 0 writes it again with what it knows."""
    write_atomically(folder / RECORDING_FILE, json.dumps(info, indent=1, default=str).encode())


def new_attempt(folder: Path, fields: dict[str, Any]) -> Path:
    """Makes the folder of a rank's next attempt with its rank.json; fills in ``fields["attempt"]``.

    The folder gets its name when rank.json is in it, so nobody sees an attempt that belongs to no run.

    Args:
        folder: The recording.
        fields: rank.json; an ``attempt`` of None takes the next number.

    Raises:
        CaptureError: The attempt that ``fields`` asks for exists.
        OSError: The folder cannot be written.
    """
    rank, wanted = fields["rank"], fields["attempt"]
    parent = rank_folder(folder, rank)
    parent.mkdir(parents=True, exist_ok=True)
    draft = parent / f".attempt.{uuid.uuid4().hex}.tmp"
    draft.mkdir()
    try:
        number = wanted if wanted is not None else _next_attempt(folder, rank)
        while True:
            fields["attempt"] = number
            write_rank_file(draft, fields)
            try:
                draft.rename(attempt_folder(folder, rank, number))
            except OSError:
                if not attempt_folder(folder, rank, number).exists():
                    raise
                if wanted is not None:
                    raise CaptureError(f"attempt {wanted} of rank {rank} is already in {folder}.") from None
                number += 1
                continue
            sync_folder(parent)
            return attempt_folder(folder, rank, number)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


def _next_attempt(folder: Path, rank: int) -> int:
    return max(attempts_by_rank(folder).get(rank, ()), default=-1) + 1


def _foreign(folder: Path, run_id: str) -> str:
    """What in the folder belongs to somebody else, as the end of a sentence; empty where nothing does."""
    if (folder / RECORDING_FILE).exists():
        info = _json(folder / RECORDING_FILE)
        if info.get("run_id") != run_id:
            label = f" {info['label']!r}" if info.get("label") else ""
            return f"holds the recording{label} of another run"
    others = [owner for _, owner in _attempt_owners(folder) if owner != run_id]
    if others:
        return "holds ranks of another run"
    known = {RECORDING_FILE, RANKS}
    strangers = sorted(entry.name for entry in folder.iterdir() if entry.name not in known and _is_visible(entry))
    if strangers and not (folder / RECORDING_FILE).exists():
        return f"holds files that are not a recording's, such as {strangers[0]}"
    return ""


def _is_visible(entry: Path) -> bool:
    """Whether it is more than the draft of a recording.json that another rank is about to rename."""
    return not entry.name.startswith(f".{RECORDING_FILE}.")


def _attempt_owners(folder: Path) -> list[tuple[Path, str | None]]:
    owners = []
    for rank, attempts in attempts_by_rank(folder).items():
        for attempt in attempts:
            path = attempt_folder(folder, rank, attempt)
            owners.append((path, _json(path / RANK_FILE).get("run_id")))
    return owners


def _remove_other_runs(folder: Path, run_id: str) -> None:
    if (folder / RANKS).is_symlink():
        raise CaptureError(f"{folder / RANKS} is a link; what it points to is not removed.", hint="Remove the link.")
    for path, owner in _attempt_owners(folder):
        if owner != run_id:
            shutil.rmtree(path)
            if not any(path.parent.iterdir()):
                path.parent.rmdir()


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
