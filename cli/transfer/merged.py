"""One recording out of several that hold different ranks.

Ids are unique over ranks by construction (``rank << 40 | n``), so the ranks' folders are copied as they are.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...profiler.recording.errors import UsageError
from ...profiler.recording.layout import RANK_FILE, RANKS, rank_folder
from ...profiler.recording.writer import RecordingWriter

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording


def merge_recordings(
    recordings: Sequence[Recording], names: Sequence[Path], output: Path, *, force: bool = False
) -> tuple[int, ...]:
    """Writes a recording with the ranks of all; returns them.

    Args:
        recordings: What to join.
        names: What the user calls them, for messages and for ``settings.merged_from``.
        output: The folder to write.
        force: Replace a recording that is there.

    Raises:
        UsageError: Two recordings hold the same rank, or the output is one of them.
        CaptureError: The output cannot be written, or holds something else.
    """
    owner = _owners(recordings, names)
    if any(output.resolve() == recording.path.resolve() for recording in recordings):
        raise UsageError(f"{output} is one of the recordings to join; name a new folder.")
    infos = [recording.info for recording in recordings]
    world_sizes = [info["world_size"] for info in infos if info.get("world_size")]
    run_ids = {info.get("run_id") for info in infos}
    writer = RecordingWriter.create(
        output,
        label=next((info["label"] for info in infos if info.get("label")), None),
        world_size=max(world_sizes, default=len(owner)),
        settings=_settings(infos) | {"merged_from": [str(name) for name in names]},
        identity=next((recording.identity for recording in recordings if recording.identity), {}),
        run_id=run_ids.pop() if len(run_ids) == 1 else None,
        force=force,
    )
    for rank, index in sorted(owner.items()):
        _copy_rank(recordings[index].path, output, rank, writer.info["run_id"])
    return tuple(sorted(owner))


def _owners(recordings: Sequence[Recording], names: Sequence[Path]) -> dict[int, int]:
    """Which recording holds each rank."""
    owner: dict[int, int] = {}
    for index, recording in enumerate(recordings):
        for rank in recording.ranks:
            if rank in owner:
                raise UsageError(
                    f"rank {rank} is in {names[owner[rank]]} and in {names[index]}; each rank may be in one of them.",
                    hint="Leave one out, or take a part of it with `stallscope trim --rank`.",
                )
            owner[rank] = index
    return owner


def _settings(infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The settings that all of them have in common."""
    first: dict[str, Any] = infos[0].get("settings") or {}
    return {
        key: value for key, value in first.items() if all((i.get("settings") or {}).get(key) == value for i in infos)
    }


def _copy_rank(source: Path, output: Path, rank: int, run_id: str) -> None:
    """Copies a rank's folder under another name, makes it one of the new run, and renames it when it is whole."""
    temporary = output / RANKS / f".rank={rank:05d}.{os.getpid()}.tmp"
    try:
        shutil.copytree(rank_folder(source, rank), temporary)
        for file in temporary.glob(f"*/{RANK_FILE}"):
            fields = json.loads(file.read_bytes())
            if fields.get("run_id") != run_id:
                fields |= {"run_id": run_id, "merged_from_run_id": fields.get("run_id")}
                file.write_text(json.dumps(fields))
        temporary.rename(rank_folder(output, rank))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
