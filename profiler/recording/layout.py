"""Where things lie in a recording's folder.

    recording.json
    ranks/rank=00000/attempt=0/rank.json
    ranks/rank=00000/attempt=0/slices/part-00000.parquet          a part: complete, sorted in itself
    ranks/rank=00000/attempt=0/slices/sorted-00000-00041.parquet  parts 0 to 41 merged
    ranks/rank=00000/attempt=0/converted/segment-00000/slices/...  the same for each segment of torch's profiler

A merged file takes the place of the parts whose numbers it spans. Its rename is the one instant at which they stop
counting, so a kill between that and their removal neither loses nor doubles a row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

RECORDING_FILE = "recording.json"
RANK_FILE = "rank.json"
RANKS = "ranks"
SEGMENTS = "converted"

_RANK = re.compile(r"rank=(\d{1,9})")
_ATTEMPT = re.compile(r"attempt=(\d{1,9})")
_PART = re.compile(r"part-(\d{5,9})\.parquet")
_SORTED = re.compile(r"sorted-(\d{5,9})-(\d{5,9})\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class TableFile:
    """One Parquet file of a table.

    Attributes:
        first: Number of the first part whose rows it holds.
        last: Number of the last one.
        is_merged: Whether it takes the place of those parts.
        path: Where it lies.
    """

    first: int
    last: int
    is_merged: bool
    path: Path


def is_recording(path: Path) -> bool:
    """Whether the folder is a recording: it has a recording.json, or ranks whose rank 0 did not come to write one."""
    return (path / RECORDING_FILE).is_file() or (path / RANKS).is_dir()


def rank_folder(recording: Path, rank: int) -> Path:
    """The folder of a rank's attempts."""
    return recording / RANKS / f"rank={rank:05d}"


def attempt_folder(recording: Path, rank: int, attempt: int) -> Path:
    """The folder of one attempt of a rank."""
    return rank_folder(recording, rank) / f"attempt={attempt}"


def attempts_by_rank(recording: Path) -> dict[int, tuple[int, ...]]:
    """Every rank in the folder, ascending, with its attempts, ascending."""
    found: dict[int, tuple[int, ...]] = {}
    for folder, rank in _numbered(recording / RANKS, _RANK):
        attempts = tuple(sorted(attempt for _, attempt in _numbered(folder, _ATTEMPT)))
        if attempts:
            found[rank] = attempts
    return dict(sorted(found.items()))


def row_folders(attempt: Path) -> list[Path]:
    """The folders that hold tables of the attempt: its own, and that of each converted segment."""
    folder = attempt / SEGMENTS
    if not folder.is_dir():
        return [attempt]
    segments = (entry for entry in folder.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    return [attempt, *sorted(segments)]


def table_files(folder: Path, table: str) -> list[TableFile]:
    """The files of one folder that hold the table's rows, each row once, in the order of their parts.

    Each is sorted in itself.
    """
    files = all_table_files(folder, table)
    return [file for file in files if not any(_replaces(other, file) for other in files)]


def all_table_files(folder: Path, table: str) -> list[TableFile]:
    """Every file of the table, also those that a merged file has replaced and that were not removed yet."""
    if not (folder / table).is_dir():
        return []
    files = []
    for path in (folder / table).iterdir():
        if match := _SORTED.fullmatch(path.name):
            files.append(TableFile(int(match[1]), int(match[2]), True, path))
        elif match := _PART.fullmatch(path.name):
            files.append(TableFile(int(match[1]), int(match[1]), False, path))
    return sorted(files)


def _replaces(merged: TableFile, file: TableFile) -> bool:
    """Whether the merged file holds the rows of the other one."""
    if not merged.is_merged or not (merged.first <= file.first and file.last <= merged.last):
        return False
    return not file.is_merged or (merged.first, merged.last) != (file.first, file.last)


def _numbered(folder: Path, pattern: re.Pattern[str]) -> list[tuple[Path, int]]:
    if not folder.is_dir():
        return []
    matches = ((entry, pattern.fullmatch(entry.name)) for entry in folder.iterdir() if entry.is_dir())
    return [(entry, int(match[1])) for entry, match in matches if match]
