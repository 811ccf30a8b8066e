"""Folders whose recordings are served: which recordings lie in them, and which have come since."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..profiler.recording.errors import StallscopeError
from ..profiler.recording.layout import RECORDING_FILE, is_recording
from ..profiler.recording.reader import Recording, open_recording
from .snapshot import Stamp, written_so_far


def inside(folder: Path) -> list[Path]:
    """The recordings in a folder and in its folders, by name; none where it is gone."""
    try:
        below = [*folder.iterdir(), *folder.glob("*/*")]
    except FileNotFoundError:
        return []
    return sorted(path for path in below if path.is_dir() and is_recording(path))


def label_of(recording: Recording, name: str, *, several: bool) -> str:
    """The recording's label, with the name of its folder where there are several: labels may be the same."""
    label = str(recording.info.get("label") or "")
    return f"{label} ({name})" if label and several and not label.startswith(name) else label or name


class RecordingFolders:
    """Folders that are looked through again and again.

    Args:
        folders: The folders.
        known: The recordings that are served already.
    """

    def __init__(self, folders: Sequence[Path], known: Sequence[Recording]) -> None:
        self._folders = tuple(folders)
        self._runs = {one.path.resolve(): one.info.get("run_id") for one in known}
        self._unreadable: dict[Path, tuple[int, Stamp]] = {}

    def newcomers(self) -> list[tuple[Recording, str]]:
        """The recordings that came since this was asked last, opened, with their labels.

        A run that was recorded anew into a known place is one. What cannot be opened is left out until files change.
        """
        found = []
        for path in (path for folder in self._folders for path in inside(folder)):
            place = path.resolve()
            try:
                recording = Recording(path)
                run = recording.info.get("run_id")
                if place in self._runs and self._runs[place] in (None, run):
                    self._runs[place] = run
                    continue
                if self._unreadable.get(place) == _state(path):
                    continue
                found.append((_complete(recording), label_of(recording, path.name, several=True)))
                self._runs[place] = run
            except (StallscopeError, OSError):
                self._unreadable[place] = _state(path)
        return found


def _state(path: Path) -> tuple[int, Stamp]:
    """Another value as soon as the recording's own file or the names of its files change."""
    about = path / RECORDING_FILE
    return about.stat().st_mtime_ns if about.exists() else 0, written_so_far(path)


def _complete(recording: Recording) -> Recording:
    """The recording with what is still raw in it converted, unless it is being written."""
    statuses = {recording.rank_info(rank)["status"] for rank in recording.ranks}
    return recording if not statuses or "running" in statuses else open_recording(recording.path)
