"""The runs that the user named: recordings, traces, summaries of runs, baseline files, folders and patterns of them.

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
    from ..analysis.same_steps import SteadySteps
    from ..profiler.recording.reader import Recording

SUMMARY_SUFFIX = ".json"
MOST_OPEN = 4
"""So many recordings stay open between a look at their steps and measuring them; of more that is too much memory."""

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
    return [_kept(path, ranks) if is_run_summary(path) else _measured(path, ranks, tables) for path in paths]


def sides_alike(
    base: Sequence[Path], new: Sequence[Path], *, ranks: tuple[int, ...] | None = None
) -> tuple[list[RunMeasures], list[RunMeasures]]:
    """The measures of two sides over the same steady steps; a baseline file has several runs.

    Raises:
        UsageError: As ``measured_runs``.
        FormatError: As there.
    """
    from ..analysis.same_steps import shared_steps, steady_steps, steps_of_summary

    opened_runs: dict[Path, Recording] = {}
    kept: dict[Path, list[RunMeasures]] = {}
    found: list[SteadySteps] = []
    both = [*base, *new]
    for path in both:
        if is_baseline_or_summary(path):
            kept[path] = _kept_runs(path, ranks)
            found += [steps_of_summary(run) for run in kept[path]]
            continue
        recording = _opened(path)
        found.append(steady_steps(recording, _there(recording, ranks)))
        if len(both) <= MOST_OPEN:
            opened_runs[path] = recording
    steps = shared_steps(found)

    def side(paths: Sequence[Path]) -> list[RunMeasures]:
        runs: list[RunMeasures] = []
        for path in paths:
            recording = opened_runs.pop(path, None) if path not in kept else None
            runs += kept[path] if path in kept else [_measured(path, ranks, True, recording=recording, steps=steps)]
        return runs

    return side(base), side(new)


def is_baseline_or_summary(path: Path) -> bool:
    """Whether a file holds measured runs."""
    from ..analysis.baselines import is_baseline_file

    return is_run_summary(path) or is_baseline_file(path)


def is_run_summary(path: Path) -> bool:
    """Whether a file is the summary of a run, by its first bytes."""
    if not path.is_file() or path.suffix != SUMMARY_SUFFIX:
        return False
    with path.open("rb") as file:
        return _SUMMARY_MARK in file.read(_HEAD_BYTES)


def _kept(path: Path, ranks: tuple[int, ...] | None) -> RunMeasures:
    """The run of a summary."""
    from ..analysis.run_measures import from_json

    if ranks is not None:
        raise UsageError(f"{path} is a summary: its ranks are summed already.", hint="Leave --rank away.")
    return from_json(path.read_bytes(), source=str(path))


def _kept_runs(path: Path, ranks: tuple[int, ...] | None) -> list[RunMeasures]:
    """The runs of a baseline file, or the one of a summary."""
    from ..analysis.baselines import is_baseline_file, read_baseline

    if not is_baseline_file(path):
        return [_kept(path, ranks)]
    if ranks is not None:
        raise UsageError(f"{path} is a baseline: the ranks of its runs are summed already.", hint="Leave --rank away.")
    return list(read_baseline(path).runs)


def _opened(path: Path) -> Recording:
    from .opening import opened

    return opened([path])


def _there(recording: Recording, ranks: tuple[int, ...] | None) -> tuple[int, ...]:
    """The ranks asked for.

    Raises:
        UsageError: One is not in the recording.
    """
    for rank in ranks or ():
        recording.attempts(rank)
    return recording.ranks if ranks is None else ranks


def _measured(
    path: Path,
    ranks: tuple[int, ...] | None,
    tables: bool,
    *,
    recording: Recording | None = None,
    steps: frozenset[int] | None = None,
) -> RunMeasures:
    """One run; ``steps``: only over these steady steps."""
    from ..analysis.run_measures import run_measures
    from .opening import progress_line

    chosen = recording or _opened(path)
    name = path.name or path.resolve().name
    with progress_line() as progress:
        return run_measures(chosen, name=name, ranks=ranks, tables=tables, steps=steps, progress=progress)


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
    summaries = [child for child in inside if is_baseline_or_summary(child)]
    if any(child.is_file() and _may_be_a_trace(child) for child in inside if child not in summaries):
        return [path]
    return [child for child in inside if child.is_dir() or child in summaries] or [path]


def _may_be_a_trace(path: Path) -> bool:
    return path.name.endswith((SUMMARY_SUFFIX, f"{SUMMARY_SUFFIX}.gz"))
