"""The report of a recording: what to do, where the time goes, a typical step, stalls, memory, what is missing."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING

from ...profiler.recording.errors import UsageError
from ..served import Served
from . import memory_section, stall_sections
from .markup import Markup, element, joined
from .overview_sections import findings_section, identity_section, losses_section, states_section
from .source_section import source_section
from .step_section import step_section
from .style import STYLE

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
"""No script, no request: what a browser is told of a file that people send each other."""


def report(recording: Recording, label: str, *, rank: int | None = None, with_source: bool = False) -> str:
    """The report as a whole HTML document that loads nothing.

    Args:
        recording: The recording.
        label: What people call it.
        rank: Whose step, memory and source are shown; by default the rank of the first finding, else the first.
        with_source: Whether the text of the user's files is in it, as far as it was recorded; without it, only names of
            files and functions with line numbers are.

    Raises:
        UsageError: The recording has no such rank, or holds no slice.
    """
    served = Served(recording, label)
    if rank is not None and rank not in recording.ranks:
        raise UsageError(f"the recording has no rank {rank}; it has {', '.join(map(str, recording.ranks[:20]))}.")
    if not len(served.index):
        raise UsageError(f"{label} holds no slice, so there is nothing to report.")
    found = served.findings
    first = found.findings[0].rank if found.findings else recording.ranks[0]
    focus = first if rank is None else rank
    body = [
        element("h1", found.verdict),
        element("p", _of_what(served, focus), class_="note"),
        findings_section(found),
        states_section(served, focus),
        step_section(served, focus),
        stall_sections.by_cause(served),
        stall_sections.by_line(served),
        memory_section.memory_section(served, focus),
        source_section(served, focus) if with_source else None,
        losses_section(served),
        identity_section(served),
    ]
    return "<!doctype html>\n" + _document(f"{label} - stallscope", joined(body))


def _of_what(served: Served, focus: int) -> str:
    count = len(served.recording.ranks)
    start = datetime.datetime.fromtimestamp(served.origin / 1e9, tz=datetime.UTC)
    when = f" of {start:%Y-%m-%d %H:%M} UTC" if start.year > 2000 else ""
    which = f", {count} ranks; the step, memory and source shown are those of rank {focus}" if count > 1 else ""
    return f"{served.label}, a recording{when}{which}. Made by stallscope; names are as in the recording."


def _document(title: str, body: Markup) -> str:
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        element("meta", name="viewport", content="width=device-width"),
        element("meta", name="referrer", content="no-referrer"),
        element("title", title),
        element("style", Markup(STYLE)),
    )
    return element("html", head, element("body", body), lang="en")
