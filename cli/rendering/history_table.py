"""A history in the terminal: what changed and when, then the runs with their figure as a bar."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from . import numbers
from .gate_words import figure
from .page import Page
from .tables import Cell, Column, name_column, number_column, print_table
from .text import path_end, printable

if TYPE_CHECKING:
    from ...analysis.history import HistoryRun, Series

BAR_WIDTH = 24
WORTH_FRAC = 0.001
"""Creeping by less than this from run to run is not worth a sentence."""


def print_history(
    page: Page, folder: Path, device: str | None, all_series: Sequence[Series], limit: int, left_out: int
) -> None:
    """Prints the changes of every figure, then the runs of the first one."""
    first = all_series[0]
    others = f"; {numbers.plural(left_out, 'run')} on other devices left out" if left_out else ""
    told = printable(f": {numbers.plural(len(first.runs), 'run')} on {device or 'an unnamed device'}{others}")
    page.print(path_end(str(folder), page.width - len(told)) + told)
    page.print()
    for one in all_series:
        for line in _changes(one):
            page.print(printable(line))
    if len(first.runs):
        page.heading(first.budget.words, "oldest first")
        _print_runs(page, first, limit)


def _changes(one: Series) -> list[str]:
    """What became of a figure, in sentences; the level first."""
    if not one.values:
        return [f"{one.budget.words}: no run has it"]
    kind = one.budget.measure.kind
    level = figure(kind, one.level)
    if not one.changes:
        lines = [f"{one.budget.words}: {level}, no change in {numbers.plural(len(one.runs), 'run')}"]
    else:
        lines = [f"{one.budget.words}: {level} since {_when(one.runs[one.level_start])}"]
        lines += [
            f"  {_when(one.runs[change.index])}: {figure(kind, change.before)} -> {figure(kind, change.after)}"
            + (f" ({change.change_frac:+.1%})" if change.change_frac is not None else "")
            for change in one.changes
        ]
    if one.trend.creeps and abs(one.trend.per_run_frac or 0) >= WORTH_FRAC:
        lines.append(f"  creeping since: {one.trend.per_run_frac:+.1%} from run to run")
    if one.budget.measure.timed and one.spread_frac is not None:
        lines.append(f"  runs of one level differ by {one.spread_frac:.1%} (one standard deviation)")
    return lines


def _print_runs(page: Page, one: Series, limit: int) -> None:
    start = max(len(one.runs) - limit, 0) if limit else 0
    shown = list(zip(one.runs, one.values, strict=True))[start:]
    starts = {change.index for change in one.changes}
    longest = max(value for _, value in shown) or 1
    columns = [Column("when"), name_column("run", 2), Column("commit"), number_column("value"), Column("")]
    rows: list[list[str | Cell]] = []
    for place, (run, value) in enumerate(shown, start):
        style = "bold yellow" if place in starts else ""
        bar = ("█" if page.unicode else "#") * max(round(BAR_WIDTH * value / longest), 0)
        rows.append(
            [
                _day(run), printable(run.measures.name), _commit(run) or "-", figure(one.budget.measure.kind, value),
                Cell(f"{bar} <- changed" if place in starts else bar, style),
            ]
        )  # fmt: skip
    print_table(page, columns, rows, indent=2)
    if start:
        page.print(f"  {numbers.plural(start, 'earlier run')} not shown (-n 0 shows all)")


def _when(run: HistoryRun) -> str:
    commit = _commit(run)
    return f"{_day(run)} {run.measures.name}" + (f" (commit {commit})" if commit else "")


def _commit(run: HistoryRun) -> str:
    facts = run.measures.environment
    dirty = "+" if facts.get("git_dirty", "").lower() == "true" else ""
    return facts["git_commit"][:10] + dirty if facts.get("git_commit") else ""


def _day(run: HistoryRun) -> str:
    return datetime.fromtimestamp(run.ts // 1_000_000_000, UTC).strftime("%Y-%m-%d %H:%M")
