"""``stallscope history``: runs kept over time, since when a figure is what it is, and whether it creeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .options import json_option, limit_option

if TYPE_CHECKING:
    from ..analysis.budgets import Budget
    from ..analysis.history import HistoryRun, Series

SHOWN = ("step_time", "step_time_p95", "peak_memory", "recompiles", "fallbacks", "bytes_moved")
"""The figures whose changes are told when none is named."""


@described(
    "history",
    short="Keep runs over time; show since when a figure changed.",
    examples=(
        ("Add today's run of the main branch", "stallscope history add perf-history runs/today"),
        ("Since when is it slower?", "stallscope history show perf-history"),
        ("One figure, every run", "stallscope history show perf-history --measure peak_memory -n 0"),
        ("Hold a new run against the runs since the last change", "stallscope gate runs/new --baseline perf-history"),
    ),
    output_keys={
        "measure": "the figure of the list of runs: a name as in a budget",
        "device": "what the runs are of: those on other devices are left out",
        "runs": "list, oldest first: {ts (ns since 1970), name, git_commit, fingerprint, value}",
        "series": (
            "list, one a figure: {measure, kind, runs, level (median since the last change), changes (list of {ts, "
            "name, git_commit, before, after, p_value}), per_run_frac (typical change from run to run since then), "
            "creeps, spread_frac (how much runs of one level differ)}"
        ),
        "left_out": "runs on other devices",
    },
)
@click.argument("action", type=click.Choice(["add", "show"]))
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.argument("runs", metavar="[RUN]...", nargs=-1)
@click.option("--measure", default="step_time", show_default=True, help="The figure to list, as budgets name it.")
@limit_option(20)
@json_option
def command(action: str, folder: Path, runs: tuple[str, ...], measure: str, limit: int, as_json: bool) -> None:
    """Keep runs in a folder, one Parquet row a run, and show what became of their figures.

    add: measures each RUN (a recording or trace) and adds it. show: since when each figure is at its
    present level, whether it creeps, and how much runs of one level differ. A change is one that fewer
    than 1 % of random orders of the same runs show.
    """
    if action == "add":
        if not runs:
            raise UsageError("history add needs a run.", hint=f"stallscope history add {folder} RECORDING")
        _add(folder, runs)
        return
    if runs:
        raise UsageError("history show takes a folder alone.", hint=f"stallscope history show {folder}")
    _show(folder, measure, limit, as_json)


def _add(folder: Path, named: Sequence[str]) -> None:
    from ..analysis.history import add_run
    from .gate_sides import new_runs, places_of
    from .rendering.page import note

    found = new_runs(named)
    for path, run in zip(found.paths, found.runs, strict=True):
        note(f"Added {run.name} as {add_run(folder, run, places_of(path, run))}.")


def _show(folder: Path, measure: str, limit: int, as_json: bool) -> None:
    from ..analysis.budgets import parse_budgets
    from ..analysis.history import read_history, series

    everything = read_history(folder)
    device = everything[-1].measures.environment.get("device")
    runs = [run for run in everything if run.measures.environment.get("device") == device]
    chosen = parse_budgets({measure: "baseline"}).budgets[0]
    others = [budget for name in SHOWN for budget in parse_budgets({name: "baseline"}).budgets if name != measure]
    all_series = [series(runs, budget) for budget in (chosen, *others)]
    if as_json:
        from .rendering.json_output import print_json

        print_json(_document(chosen, device, all_series, len(everything) - len(runs)))
        return
    from .rendering.history_table import print_history
    from .rendering.page import page

    print_history(page(), folder, device, all_series, limit, len(everything) - len(runs))


def _document(chosen: Budget, device: str | None, all_series: Sequence[Series], left_out: int) -> dict[str, Any]:
    first = all_series[0]
    listed = [{**_run(run), "value": value} for run, value in zip(first.runs, first.values, strict=True)]
    return {
        "measure": chosen.key,
        "device": device,
        "runs": listed,
        "series": [_series(one) for one in all_series],
        "left_out": left_out,
    }


def _series(one: Series) -> dict[str, Any]:
    changes = [
        {**_run(one.runs[change.index]), "before": change.before, "after": change.after, "p_value": change.p_value}
        for change in one.changes
    ]
    return {
        "measure": one.budget.key,
        "kind": one.budget.measure.kind,
        "runs": len(one.runs),
        "level": one.level,
        "changes": changes,
        "per_run_frac": one.trend.per_run_frac,
        "creeps": one.trend.creeps,
        "spread_frac": one.spread_frac,
    }


def _run(run: HistoryRun) -> dict[str, Any]:
    return {
        "ts": run.ts,
        "name": run.measures.name,
        "git_commit": run.measures.environment.get("git_commit"),
        "fingerprint": run.measures.fingerprint,
    }
