"""A gate's answer in the terminal: the verdict, why and where in the first three lines, then every budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from .gate_words import MATTER_WORDS, change, counts, figure, head, interval, place, runs_words
from .page import Page
from .tables import Cell, Column, name_column, number_column, print_table
from .text import path_end, printable

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
        name_column("budget", 3),
        Column("verdict"),
        number_column("new"),
        number_column("95 % interval"),
        number_column("baseline"),
        number_column("change"),
        number_column("at most"),
        name_column("line", 4, path_end),
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
        printable(place(outcome.blame).partition(" in ")[0]) or "-",
    ]


def _reasons(page: Page, report: GateReport) -> None:
    """Why, of every budget that has something to say; the first line said it of the first one."""
    told = [(outcome, outcome.blame.text if outcome.blame else "") for outcome in report.outcomes]
    rows = [(outcome, why, outcome.judgement.reason) for outcome, why in told if why or outcome.judgement.reason]
    if not rows and not report.incomplete:
        return
    page.heading("Why")
    for sentence in report.incomplete:
        _wrapped(page, f"  {printable(sentence)}")
    for outcome, why, reason in rows:
        _wrapped(
            page, f"  {outcome.judgement.budget.key}: {printable('; '.join(part for part in (why, reason) if part))}"
        )
    for outcome in report.outcomes:
        for fallen in outcome.judgement.fallbacks:
            _wrapped(page, f"  {printable(f'{fallen.op}: {fallen.count} times at {fallen.file}:{fallen.line}')}")
    page.print()


def _wrapped(page: Page, text: str, style: str = "") -> None:
    """One paragraph, wrapped at words; further lines stand two columns further in."""
    indent = len(text) - len(text.lstrip()) + 2
    for number, line in enumerate(Text(text).wrap(page.console, page.width - indent)):
        prefix = " " * indent if number else ""
        page.print(Text(prefix + line.plain.rstrip(), style=style))
