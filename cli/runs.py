"""The runs that the user named for a comparison: recordings, traces, summaries of runs, folders and patterns of them.

A folder is one run where it is a recording or holds the trace files of one job, as for every other command; it is
several runs where it holds recordings, summaries or folders of traces. A pattern with ``*`` names a run per match.
"""

from __future__ import annotations

import glob
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..profiler.recording.errors import UsageError

if TYPE_CHECKING:
    from ..analysis.run_facts import RunMeasures

SUMMARY_SUFFIX = ".json"
_SUMMARY_MARK = b'"stallscope run"'
_HEAD_BYTES = 256


def run_paths(named: Sequence[str]) -> list[Path]:
    """One path a run, in the order named; what a pattern or folder holds in the order of names.

    Raises:
        UsageError: There is nothing at a path, a pattern matches nothing, or a run is named twice.
    """
    found = [path for name in named for path in _matches(name)]
    runs = [run for path in found for run in _runs_in(path)]
    resolved = [run.resolve() for run in runs]
    for place, path in enumerate(resolved):
        if path in resolved[:place]:
            raise UsageError(f"{runs[place]} is named twice on one side: a run counts once.")
    return runs


def measured_runs(
    paths: Iterable[Path], *, ranks: tuple[int, ...] | None = None, tables: bool = True
) -> list[RunMeasures]:
    """The measures of the runs at the paths; what takes long shows its progress on stderr.

    Raises:
        UsageError: A rank is missing.
        FormatError: A file is neither a recording, a trace nor the summary of a run.
    """
    return [_measured(path, ranks, tables) for path in paths]


def is_run_summary(path: Path) -> bool:
    """Whether a file is the summary of a run, by its first bytes."""
    if not path.is_file() or path.suffix != SUMMARY_SUFFIX:
        return False
    with path.open("rb") as file:
        return _SUMMARY_MARK in file.read(_HEAD_BYTES)


def _measured(path: Path, ranks: tuple[int, ...] | None, tables: bool) -> RunMeasures:
    from ..analysis.run_measures import from_json, run_measures
    from .opening import opened, progress_line

    if is_run_summary(path):
        if ranks is not None:
            raise UsageError(f"{path} is a summary: its ranks are summed already.", hint="Leave --rank away.")
        return from_json(path.read_bytes(), source=str(path))
    recording = opened([path])
    with progress_line() as progress:
        return run_measures(
            recording, name=path.name or path.resolve().name, ranks=ranks, tables=tables, progress=progress
        )


def _matches(name: str) -> list[Path]:
    path = Path(name)
    if path.exists():
        return [path]
    if glob.has_magic(name):
        found = sorted(glob.glob(name))  # noqa: PTH207 - Path.glob takes no absolute pattern
        if found:
            return [Path(match) for match in found]
        raise UsageError(f"nothing matches '{name}'.")
    raise UsageError(f"{path} does not exist.")


def _runs_in(path: Path) -> list[Path]:
    """The runs that a path stands for: itself, or what the folder holds."""
    from ..profiler.recording.layout import is_recording

    if not path.is_dir() or is_recording(path):
        return [path]
    inside = sorted(child for child in path.iterdir() if not child.name.startswith("."))
    summaries = [child for child in inside if is_run_summary(child)]
    if any(child.is_file() and _may_be_a_trace(child) for child in inside if child not in summaries):
        return [path]
    return [child for child in inside if child.is_dir() or child in summaries] or [path]


def _may_be_a_trace(path: Path) -> bool:
    return path.name.endswith((SUMMARY_SUFFIX, f"{SUMMARY_SUFFIX}.gz"))
