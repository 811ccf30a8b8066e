"""A gate's answer as Markdown, for a pull request's comment or a job's summary: verdict first, then why, then all.

Names come from traces: everything that Markdown or HTML would take as markup is escaped.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .gate_words import MATTER_WORDS, change, figure, head, interval, place, runs_words
from .text import printable

if TYPE_CHECKING:
    from ...analysis.gate import GateReport, Outcome

_MARKUP = re.compile(r"([\\`*_{}\[\]<>#|~@&])")
_MARKS = {"broken": "❌", "fails": "❔", "warns": "❔", "kept": "✅", "cannot_tell": "❔"}
_HEADINGS = ("budget", "verdict", "new", "95 % interval", "baseline", "change", "at most", "line")


def gate_markdown(report: GateReport) -> str:
    """The report, ending in a line break; its first three lines say what and how much, why, and on which line."""
    what, why, where = (escaped(line) for line in head(report))
    verdict, _, rest = what.partition(": ")
    lines = [f"**{_MARKS[report.verdict]} {verdict}**: {rest}\\", f"{why}\\", where, ""]
    lines += ["| " + " | ".join(_HEADINGS) + " |", "|---|---|--:|--:|--:|--:|--:|---|"]
    lines += ["| " + " | ".join(_row(outcome)) + " |" for outcome in report.outcomes]
    lines.append("")
    lines += [f"- {escaped(text)}" for text in report.incomplete]
    for outcome in report.outcomes:
        lines += _reasons(outcome)
    if lines[-1]:
        lines.append("")
    lines += _details(report)
    return "\n".join(lines).rstrip() + "\n"


def _row(outcome: Outcome) -> list[str]:
    one = outcome.judgement
    kind = one.budget.measure.kind
    return [
        escaped(one.budget.key),
        f"{_MARKS[outcome.matter]} {MATTER_WORDS[outcome.matter]}",
        figure(kind, one.value),
        interval(one) or "-",
        figure(kind, one.base),
        change(one),
        figure(kind, one.limit),
        code(place(outcome.blame)),
    ]


def _reasons(outcome: Outcome) -> list[str]:
    """What there is to say about one budget, as items of a list."""
    one = outcome.judgement
    parts = [outcome.blame.text if outcome.blame else "", one.reason]
    text = "; ".join(part for part in parts if part)
    lines = [f"- **{escaped(one.budget.key)}**: {escaped(text)}"] if text else []
    return lines + [
        f"  - {code(fallen.op)}, {fallen.count} times at {code(f'{fallen.file}:{fallen.line}')}"
        for fallen in one.fallbacks
    ]


def _details(report: GateReport) -> list[str]:
    """The runs, the notes and what else differs, folded away."""
    lines = ["<details><summary>Runs, and what else differs</summary>", ""]
    lines.append(f"{runs_words(report)}: {', '.join(code(name) for name in report.new)}.")
    lines += ["", *(f"- {escaped(note)}" for note in report.notes)]
    if report.environment:
        lines += ["", "| | baseline | new |", "|---|---|---|"]
        lines += [f"| {escaped(row.name)} | {escaped(row.base)} | {escaped(row.new)} |" for row in report.environment]
    return [*lines, "", "</details>"]


def escaped(text: str) -> str:
    """The text with nothing in it that Markdown or HTML would take as markup, on one line."""
    return _MARKUP.sub(r"\\\1", printable(text))


def code(text: str) -> str:
    """A name as code, safe inside of a table; "-" for an empty one."""
    if not text:
        return "-"
    safe = printable(text).replace("`", "'").replace("|", "¦")
    return f"`{safe}`"
