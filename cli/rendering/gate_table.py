"""A gate's answer in the terminal: the verdict, why and where in the first three lines, then every budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from .gate_words import MATTER_WORDS, change, counts, figure, head, interval, place, runs_words
from .page import Page
from .tables import Cell, Column, name_column, number_column, print_table
from .text import printable

if TYPE_CHECKING:
    from ...analysis.gate import GateReport, Outcome

_STYLES = {"broken": "bold red", "fails": "bold yellow", "warns": "yellow", "kept": "green"}
_OF_VERDICT = {"broken": "bold red", "cannot_tell": "bold yellow", "kept": "bold green"}


def print_gate(page: Page, report: GateReport) -> None:
    """Prints the report."""
    first, *others = (printable(line) for line in head(report))
    _wrapped(page, first, _OF_VERDICT[report.verdict])
    for line in others:
        _wrapped(page, line)
    page.heading("Budgets", f"{counts(report)}; {runs_words(report)}")
    columns = [
        name_column("budget"),
        Column("verdict"),
        number_column("new"),
        number_column("95 % interval"),
        number_column("baseline"),
        number_column("change"),
        number_column("at most"),
    ]
    print_table(page, columns, [_row(outcome) for outcome in report.outcomes], indent=2)
    _reasons(page, report)
    for note in report.notes:
        _wrapped(page, f"Note: {printable(note)}", "dim")


def _row(outcome: Outcome) -> list[str | Cell]:
    one = outcome.judgement
    kind = one.budget.measure.kind
    return [
        one.budget.key,
        Cell(MATTER_WORDS[outcome.matter], _STYLES[outcome.matter]),
        figure(kind, one.value),
        interval(one) or "-",
        figure(kind, one.base),
        change(one),
        figure(kind, one.limit),
    ]


def _reasons(page: Page, report: GateReport) -> None:
    """Why, of every budget that has something to say."""
    rows = [(outcome, why) for outcome in report.outcomes if (why := _why(outcome))]
    if not rows and not report.incomplete:
        return
    page.heading("Why")
    for sentence in report.incomplete:
        _wrapped(page, f"  {printable(sentence)}")
    for outcome, why in rows:
        _wrapped(page, f"  {outcome.judgement.budget.key}: {printable(why)}")
    for outcome in report.outcomes:
        for fallen in outcome.judgement.fallbacks:
            _wrapped(page, f"  {printable(f'{fallen.op}: {fallen.count} times at {fallen.file}:{fallen.line}')}")
    page.print()


def _why(outcome: Outcome) -> str:
    """What is behind a verdict, where, and what to know to believe it."""
    where = place(outcome.blame)
    parts = [outcome.blame.text if outcome.blame else "", f"at {where}" if where else "", outcome.judgement.reason]
    return "; ".join(part for part in parts if part)


def _wrapped(page: Page, text: str, style: str = "") -> None:
    """One paragraph, wrapped at words; further lines stand two columns further in."""
    indent = len(text) - len(text.lstrip()) + 2
    for number, line in enumerate(Text(text).wrap(page.console, page.width - indent)):
        prefix = " " * indent if number else ""
        page.print(Text(prefix + line.plain.rstrip(), style=style))
