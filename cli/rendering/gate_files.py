"""A gate's answer for machines: JUnit XML, GitHub's annotations, and JSON."""

from __future__ import annotations

import re
from dataclasses import asdict
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from .gate_words import file_here, head, place, sentence
from .text import printable

if TYPE_CHECKING:
    from ...analysis.gate import GateReport, Outcome

_NOT_IN_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(report: GateReport) -> str:
    """One test case a budget: a failure where it is broken, an error where it cannot be told, skipped if that warns."""
    suite = ElementTree.Element("testsuite", name="stallscope gate", tests=str(len(report.outcomes) + 1), skipped="0")
    counts = {"failure": 0, "error": 0, "skipped": 0}
    complete = ElementTree.SubElement(suite, "testcase", classname="stallscope.gate", name="completed")
    if report.incomplete:
        _problem(complete, "failure", " ".join(report.incomplete), "")
        counts["failure"] += 1
    for outcome in report.outcomes:
        case = _case(suite, outcome)
        kind = {"broken": "failure", "fails": "error", "warns": "skipped"}.get(outcome.matter)
        if kind:
            _problem(case, kind, sentence(outcome), _text(outcome))
            counts[kind] += 1
    suite.set("failures", str(counts["failure"]))
    suite.set("errors", str(counts["error"]))
    suite.set("skipped", str(counts["skipped"]))
    ElementTree.indent(suite)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suite, encoding="unicode") + "\n"


def _case(suite: ElementTree.Element, outcome: Outcome) -> ElementTree.Element:
    case = ElementTree.SubElement(suite, "testcase", classname="stallscope.gate", name=outcome.judgement.budget.key)
    if outcome.blame and outcome.blame.file:
        case.set("file", _xml(file_here(outcome.blame.file)))
        if outcome.blame.line:
            case.set("line", str(outcome.blame.line))
    return case


def _problem(case: ElementTree.Element, kind: str, message: str, text: str) -> None:
    ElementTree.SubElement(case, kind, message=_xml(message)).text = _xml(text)


def _text(outcome: Outcome) -> str:
    parts = [outcome.blame.text if outcome.blame else "", place(outcome.blame), outcome.judgement.reason]
    return "\n".join(part for part in parts if part)


def _xml(text: str) -> str:
    """The text without what XML cannot hold."""
    return _NOT_IN_XML.sub("?", text)


def github_annotations(report: GateReport) -> list[str]:
    """GitHub's workflow commands: an error on the line to blame for each broken budget, a warning where one warns."""
    lines = [f"::error title=stallscope gate::{_message(text)}" for text in report.incomplete]
    for outcome in report.outcomes:
        if outcome.matter == "kept":
            continue
        command = "warning" if outcome.matter == "warns" else "error"
        properties = [f"title={_property(f'stallscope gate: {outcome.judgement.budget.key}')}"]
        if outcome.blame and outcome.blame.file:
            properties.insert(0, f"file={_property(file_here(outcome.blame.file))}")
            if outcome.blame.line:
                properties.insert(1, f"line={outcome.blame.line}")
        text = "\n".join(part for part in (sentence(outcome), _text(outcome)) if part)
        lines.append(f"::{command} {','.join(properties)}::{_message(text)}")
    return lines


def _message(text: str) -> str:
    """A message of a workflow command: line breaks are written as escapes, so that a name can add no command."""
    return "%0A".join(printable(line).replace("%", "%25") for line in text.split("\n"))


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")


def document(report: GateReport) -> dict[str, Any]:
    """What ``--json`` prints."""
    what, why, where = head(report)
    return {
        "verdict": report.verdict,
        "exit_code": report.exit_code,
        "what": what,
        "why": why,
        "where": where,
        "budgets": [_budget(outcome) for outcome in report.outcomes],
        "incomplete": list(report.incomplete),
        "new": list(report.new),
        "baseline": list(report.base),
        "environment": [asdict(row) for row in report.environment],
        "notes": list(report.notes),
    }


_FIGURES = ("value", "low", "high", "base", "limit")


def _exact(value: float | None, kind: str) -> float | None:
    """Whole ns, bytes and counts; a share as it is."""
    return value if value is None or kind == "share" else round(value)


def _budget(outcome: Outcome) -> dict[str, Any]:
    one = outcome.judgement
    return {
        "name": one.budget.key,
        "kind": one.budget.measure.kind,
        "verdict": one.verdict,
        "on_unknown": one.budget.on_unknown,
        **{name: _exact(getattr(one, name), one.budget.measure.kind) for name in _FIGURES},
        "runs_new": one.runs_new,
        "runs_base": one.runs_base,
        "basis": one.basis,
        "run_sd_frac": one.run_sd_frac,
        "reason": one.reason,
        "blame": asdict(outcome.blame) if outcome.blame else None,
        "fallbacks": [asdict(fallen) for fallen in one.fallbacks],
    }
