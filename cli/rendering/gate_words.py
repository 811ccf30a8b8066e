"""What a gate says, in words that the table, the Markdown, the JUnit file and the annotations share."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from . import numbers

if TYPE_CHECKING:
    from ...analysis.budgets import Kind
    from ...analysis.gate import GateReport, Outcome
    from ...analysis.gate_verdicts import Judgement
    from ...analysis.gate_why import Blame

MATTER_WORDS = {"broken": "broken", "fails": "cannot tell", "warns": "cannot tell (warns)", "kept": "kept"}


def figure(kind: Kind, value: float | None) -> str:
    """A figure of a budget as a person reads it."""
    if value is None:
        return numbers.ABSENT
    if kind == "time":
        return numbers.duration(round(value))
    if kind == "size":
        return numbers.size(round(value))
    if kind == "share":
        return numbers.share(value, 1)
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def change(judgement: Judgement) -> str:
    """How much more than the baseline: in percent, of shares in points, of counts as a number."""
    if judgement.value is None or judgement.base is None:
        return numbers.ABSENT
    kind, more = judgement.budget.measure.kind, judgement.value - judgement.base
    if kind == "share":
        return f"{100 * more:+.1f} points"
    if kind in ("count", "ops"):
        return f"{more:+,.0f}"
    return f"{judgement.change_frac:+.1%}" if judgement.change_frac is not None else f"+{figure(kind, more)}"


def interval(judgement: Judgement) -> str:
    """The interval where it is wider than a point."""
    if judgement.low is None or judgement.high is None or judgement.low == judgement.high:
        return ""
    kind = judgement.budget.measure.kind
    return f"{figure(kind, judgement.low)} to {figure(kind, judgement.high)}"


def sentence(outcome: Outcome) -> str:
    """One budget's outcome: what, how much, how much is allowed."""
    one = outcome.judgement
    kind, name = one.budget.measure.kind, one.budget.words
    if one.budget.name == "fallbacks" and one.fallbacks:
        ops = ", ".join(dict.fromkeys(fallen.op for fallen in one.fallbacks))
        return f"{name}: {ops} ran on the CPU and {'is' if ',' not in ops else 'are'} not accepted"
    if one.value is None:
        return f"{name} is not known"
    if kind in ("count", "ops"):
        text = f"{figure(kind, one.value)} {name}"
        text += "" if one.base is None else f", {figure(kind, one.base)} in the baseline"
        return text if one.limit is None else f"{text}; at most {figure(kind, one.limit)} allowed"
    text = f"{name} {figure(kind, one.value)}"
    if one.base is not None:
        text += f", {change(one)} on the baseline's {figure(kind, one.base)}"
    if one.limit is not None:
        text += f"; at most {figure(kind, one.limit)} allowed"
    return text


def place(blame: Blame | None) -> str:
    """``file:line in function`` of a blame; "" where no line is known."""
    if blame is None or not blame.file:
        return ""
    line = f":{blame.line}" if blame.line else ""
    inside = f" in {blame.function}" if blame.function else ""
    return f"{file_here(blame.file)}{line}{inside}"


def head(report: GateReport) -> tuple[str, str, str]:
    """The first three lines of every report: what and how much, why, and on which line."""
    if report.incomplete:
        broken = numbers.plural(len(report.broken), "budget is", "budgets are")
        rest = f"; {broken} broken as well" if report.broken else ""
        where = place(report.broken[0].blame) if report.broken else ""
        return (
            f"BROKEN: {report.incomplete[0]}",
            f"Why: the recording ends before the program's end{rest}",
            f"Where: {where or 'the recording names no line'}",
        )
    if report.broken:
        return _head_of_broken(report)
    undecided = [outcome for outcome in report.outcomes if outcome.matter in ("fails", "warns")]
    if report.verdict == "cannot_tell":
        first = undecided[0]
        return (
            f"CANNOT TELL: {sentence(first)}.",
            f"Why: {first.judgement.reason}",
            "Where: nothing is known to be broken",
        )
    kept = sum(outcome.matter == "kept" for outcome in report.outcomes)
    warned = f"; {len(undecided)} cannot be told, and only warn" if undecided else ""
    closest = [outcome for outcome in report.outcomes if outcome.matter == "kept"]
    nearest = f"Closest to its limit: {sentence(closest[0])}" if closest else "No budget could be told"
    return (
        f"KEPT: {numbers.plural(kept, 'budget')} of {len(report.outcomes)}{warned}.",
        f"{nearest}.",
        f"From {runs_words(report)}.",
    )


def _head_of_broken(report: GateReport) -> tuple[str, str, str]:
    first = report.broken[0]
    why = first.blame.text if first.blame else "the recording does not say"
    where = place(first.blame) or "the recording names no line"
    return f"BROKEN: {sentence(first)}.", f"Why: {why}", f"Where: {where}"


def counts(report: GateReport) -> str:
    """How many budgets are broken, cannot be told, and are kept; those that are none are left out."""
    matters = [outcome.matter for outcome in report.outcomes]
    undecided = matters.count("fails") + matters.count("warns")
    found = ((matters.count("broken"), "broken"), (undecided, "cannot be told"), (matters.count("kept"), "kept"))
    return ", ".join(f"{number} {words}" for number, words in found if number)


def runs_words(report: GateReport) -> str:
    """How many runs were held against how many."""
    new = numbers.plural(len(report.new), "run")
    if not report.base:
        return f"{new}, without a baseline"
    return f"{new} against {numbers.plural(len(report.base), 'run')} of the baseline"


def file_here(file: str, root: Path | None = None) -> str:
    """The path below the working folder, where the file is in it: by itself, or by the end of its path.

    A recording made on another machine names its folders; the longest end of the path that exists here is the file.
    """
    here = (root or Path.cwd()).resolve()
    path = PurePosixPath(file.replace("\\", "/"))
    parts = [part for part in path.parts if part not in ("/", "..", ".")]
    for start in range(len(parts)):
        end = Path(*parts[start:])
        if (here / end).is_file():
            return end.as_posix()
    return file
