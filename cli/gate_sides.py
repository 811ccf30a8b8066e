"""The two sides of a gate: what the user named, as measured runs, and the places of one of them when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..profiler.recording.errors import UsageError
from .runs import is_run_summary, measured_runs, run_paths

if TYPE_CHECKING:
    from ..analysis.gate_places import Place
    from ..analysis.gate_why import Side
    from ..analysis.run_facts import RunMeasures


@dataclass(frozen=True, slots=True)
class NamedRuns:
    """The runs of a side.

    Attributes:
        runs: Their measures.
        paths: Where each is; None for a run of a baseline file or a history, and for a summary.
        kept_places: The places that a baseline file or a history brought along.
    """

    runs: tuple[RunMeasures, ...]
    paths: tuple[Path | None, ...]
    kept_places: tuple[Place, ...] = ()

    def side(self) -> Side:
        """The runs with the places of the one in the middle, worked out now where they were not kept."""
        from ..analysis.gate_why import Side, typical_run

        if self.kept_places or not self.runs:
            return Side(self.runs, self.kept_places)
        middle = typical_run(self.runs)
        return Side(self.runs, places_of(self.paths[middle], self.runs[middle]))


def places_of(path: Path | None, measures: RunMeasures) -> tuple[Place, ...]:
    """The places of a run; none where its recording is not there."""
    if path is None:
        return ()
    from ..analysis.gate_places import places
    from .opening import opened

    return places(opened([path]), measures)


def new_runs(named: Sequence[str], ranks: tuple[int, ...] | None = None) -> NamedRuns:
    """The runs to judge.

    Raises:
        UsageError: There is nothing at a path, or a rank is missing.
        FormatError: A file cannot be read.
    """
    paths = run_paths(named)
    runs = measured_runs(paths, ranks=ranks)
    return NamedRuns(tuple(runs), tuple(None if is_run_summary(path) else path for path in paths))


def baseline_runs(named: Sequence[str], new: NamedRuns, ranks: tuple[int, ...] | None = None) -> NamedRuns:
    """The runs to hold them against: recordings, traces, summaries, baseline files and histories.

    Raises:
        UsageError: As in ``new_runs``; or a history has no run on the devices of the new runs.
        FormatError: A file cannot be read.
    """
    runs: list[RunMeasures] = []
    paths: list[Path | None] = []
    kept: tuple[Place, ...] = ()
    for name in named:
        found = _one(name, new, ranks)
        runs += found.runs
        paths += found.paths
        kept = kept or found.kept_places
    return NamedRuns(tuple(runs), tuple(paths), kept)


def _one(name: str, new: NamedRuns, ranks: tuple[int, ...] | None) -> NamedRuns:
    from ..analysis.baselines import is_baseline_file, read_baseline
    from ..analysis.history import is_history

    path = Path(name)
    if is_baseline_file(path):
        found = read_baseline(path)
        return NamedRuns(found.runs, (None,) * len(found.runs), found.places)
    if is_history(path):
        return _of_history(path, new)
    if not path.exists() and path.suffix == ".json":
        raise UsageError(
            f"there is no baseline at {path}.", hint=f"`stallscope gate RUN... --write-baseline {path}` makes one."
        )
    return new_runs([name], ranks)


def _of_history(path: Path, new: NamedRuns) -> NamedRuns:
    from ..analysis.gate_why import typical_run
    from ..analysis.history import baseline_runs as runs_of_level
    from ..analysis.history import read_history

    device = new.runs[0].environment.get("device", "") if new.runs else None
    judged = {run.fingerprint for run in new.runs}
    others = [run for run in read_history(path) if run.measures.fingerprint not in judged]
    found = runs_of_level(others, device=device)
    if not found:
        raise UsageError(f"{path} has no other run on {device or 'an unnamed device'}, as the new runs are.")
    middle = found[typical_run([run.measures for run in found])]
    return NamedRuns(tuple(run.measures for run in found), (None,) * len(found), middle.places)
