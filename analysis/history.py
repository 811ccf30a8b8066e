"""The history of a project: a folder with one Parquet row a run.

Each run is a file of its own, so that two CI jobs can add at the same time, and a folder can be kept in a cache, a
branch or an object store. Any tool reads it: ``SELECT * FROM 'history/*.parquet' ORDER BY ts``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from ..profiler.recording.errors import FormatError, UsageError
from .budgets import MEASURES, Budget
from .gate_places import Place
from .gate_values import NotKnown, budget_value
from .history_trend import ChangePoint, Trend, change_points, spread_frac, trend
from .run_facts import RunMeasures
from .run_measures import as_json, from_json

PREFIX, SUFFIX = "run-", ".parquet"
BASELINE_RUNS = 20
"""A baseline is the latest runs of the present level; older ones were made on another week's machine."""

_FIGURES = tuple(name for name in MEASURES if name != "stall_share")
_UNITS = {"time": "_ns", "size": "_bytes", "count": "", "ops": ""}

SCHEMA = pa.schema(
    [
        pa.field("ts", pa.int64(), nullable=False, metadata={"about": "when the run was made, ns since 1970"}),
        pa.field("fingerprint", pa.string(), nullable=False, metadata={"about": "digest of the recording"}),
        pa.field("name", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("git_commit", pa.string()),
        pa.field("git_dirty", pa.string()),
        pa.field("device", pa.string()),
        pa.field("torch", pa.string()),
        pa.field("steps", pa.int64(), nullable=False, metadata={"about": "steady steps"}),
        *(pa.field(f"{name}{_UNITS[MEASURES[name].kind]}", pa.int64()) for name in _FIGURES),
        pa.field("measures", pa.string(), nullable=False, metadata={"about": "all measures of the run, as JSON"}),
        pa.field("places", pa.string(), nullable=False, metadata={"about": "where it spends them, as JSON"}),
    ]
)
"""The columns of a row."""


@dataclass(frozen=True, slots=True)
class HistoryRun:
    """One row: when the run was made (ns since 1970), its measures, and its places."""

    ts: int
    measures: RunMeasures
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Series:
    """One figure over the runs that have it.

    Attributes:
        budget: The figure, as a budget names it.
        runs: The runs, in the order of time.
        values: Their figures.
        changes: Where the level changes; indices into ``runs``.
        trend: Whether the runs since the last change creep.
        spread_frac: How much runs of one level differ, as a share; None where not known.
    """

    budget: Budget
    runs: tuple[HistoryRun, ...]
    values: tuple[float, ...]
    changes: tuple[ChangePoint, ...]
    trend: Trend
    spread_frac: float | None

    @property
    def level_start(self) -> int:
        """The first run of the present level."""
        return self.changes[-1].index if self.changes else 0

    @property
    def level(self) -> float | None:
        """The median since the last change; None without a run."""
        values = sorted(self.values[self.level_start :])
        middle = values[(len(values) - 1) // 2 : len(values) // 2 + 1]
        return sum(middle) / len(middle) if middle else None


def is_history(path: Path) -> bool:
    """Whether a folder holds runs of a history."""
    return path.is_dir() and any(path.glob(f"{PREFIX}*{SUFFIX}"))


def add_run(folder: Path, measures: RunMeasures, places: Sequence[Place] = ()) -> Path:
    """Adds a run; the folder is made if need be.

    Returns:
        The new file.

    Raises:
        UsageError: The run is in the history already, or did not complete.
    """
    if measures.status != "completed":
        raise UsageError(f"{measures.name} did not complete ({measures.status}), so it belongs in no history.")
    folder.mkdir(parents=True, exist_ok=True)
    short = measures.fingerprint[:16]
    there = next(folder.glob(f"{PREFIX}*-{short}{SUFFIX}"), None)
    if there:
        raise UsageError(f"{measures.name} is in the history already, as {there}.")
    ts = measures.created_ns if measures.created_ns is not None else time.time_ns()
    path = folder / f"{PREFIX}{ts:020d}-{short}{SUFFIX}"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        pq.write_table(pa.Table.from_pylist([_row(ts, measures, places)], schema=SCHEMA), temporary)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def read_history(folder: Path) -> tuple[HistoryRun, ...]:
    """The runs of a history, in the order of time.

    Raises:
        UsageError: There is none.
        FormatError: A file cannot be read.
    """
    if not is_history(folder):
        raise UsageError(
            f"{folder} holds no history.", hint="`stallscope history add FOLDER RECORDING` adds the first run."
        )
    runs = [_read(path) for path in sorted(folder.glob(f"{PREFIX}*{SUFFIX}"))]
    return tuple(sorted(runs, key=lambda run: (run.ts, run.measures.fingerprint)))


def series(runs: Sequence[HistoryRun], budget: Budget) -> Series:
    """A figure over the runs that have it, with its changes and its trend."""
    having, values = [], []
    for run in runs:
        try:
            values.append(budget_value(budget, run.measures))
            having.append(run)
        except NotKnown:
            continue
    changes = change_points(values)
    level = values[changes[-1].index if changes else 0 :]
    return Series(budget, tuple(having), tuple(values), changes, trend(level), spread_frac(values, changes))


def baseline_runs(runs: Sequence[HistoryRun], *, device: str | None = None) -> tuple[HistoryRun, ...]:
    """The runs to hold a new one against: the latest of the present level of the step time.

    Args:
        runs: A history.
        device: The devices that the new run used; runs on others are left out. None: those of the latest run.
    """
    if not runs:
        return ()
    wanted = runs[-1].measures.environment.get("device") if device is None else device
    same = [run for run in runs if run.measures.environment.get("device") == wanted]
    found = series(same, Budget("step_time"))
    return found.runs[found.level_start :][-BASELINE_RUNS:]


def _row(ts: int, measures: RunMeasures, places: Sequence[Place]) -> dict[str, Any]:
    facts = measures.environment
    row: dict[str, Any] = {
        "ts": ts,
        "fingerprint": measures.fingerprint,
        "name": measures.name,
        "status": measures.status,
        "git_commit": facts.get("git_commit"),
        "git_dirty": facts.get("git_dirty"),
        "device": facts.get("device"),
        "torch": facts.get("versions.torch"),
        "steps": len(measures.steps_ns) if measures.unit == "step" else 0,
        "measures": as_json(measures, tables=False),
        "places": msgspec.json.encode(tuple(places)).decode(),
    }
    for name in _FIGURES:
        try:
            value = int(budget_value(Budget(name), measures))
        except NotKnown:
            continue
        row[f"{name}{_UNITS[MEASURES[name].kind]}"] = value
    return row


def _read(path: Path) -> HistoryRun:
    try:
        table = pq.read_table(path, columns=["ts", "measures", "places"])
        [row] = table.to_pylist()
        places = msgspec.json.decode(row["places"], type=tuple[Place, ...])
    except (pa.ArrowException, OSError, ValueError, TypeError, msgspec.DecodeError) as error:
        raise FormatError(
            f"{path} is not a run of a history: {str(error).partition(chr(10))[0]}.", hint="Remove it."
        ) from None
    return HistoryRun(row["ts"], from_json(row["measures"], source=str(path)), places)
