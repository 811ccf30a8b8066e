"""A report as Markdown that GitHub and GitLab show: the verdict first, the tables folded away."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .report import Report, Section
from .text import printable, shortened

WIDEST_CELL = 100


def markdown(report: Report, *, open_sections: int = 2) -> str:
    """The report; the first ``open_sections`` tables are open, the others folded."""
    lines = [f"### {_text(report.title)}", ""]
    lines += [f"**{_text(line)}**\n" if not place else f"{_text(line)}\n" for place, line in enumerate(report.lines)]
    lines += [f"> :warning: {_text(line)}\n" for line in report.warnings]
    lines += [f"- {_text(line)}" for line in report.notes]
    for place, section in enumerate(report.sections):
        lines += ["", *_section(section, folded=place >= open_sections)]
    return "\n".join(lines) + "\n"


def _section(section: Section, *, folded: bool) -> list[str]:
    title = f"{_text(section.title)}{f' ({_text(section.note)})' if section.note else ''}"
    table = _table([column.title for column in section.columns], [column.right for column in section.columns], section)
    if section.more:
        table += ["", f"... {section.more:,} more"]
    if not folded:
        return [f"#### {title}", "", *table]
    return [f"<details><summary>{title}</summary>", "", *table, "", "</details>"]


def _table(titles: Sequence[str], right: Sequence[bool], section: Section) -> list[str]:
    rows = [[_text(shortened(cell.text, WIDEST_CELL)) for cell in row] for row in section.rows]
    head = [f"| {' | '.join(titles)} |", f"|{'|'.join('---:' if one else '---' for one in right)}|"]
    return head + [f"| {' | '.join(row)} |" for row in rows]


def _text(text: str) -> str:
    """Text that may hold anything, such that Markdown and the HTML in it show it as it is."""
    safe = html.escape(printable(text), quote=False)
    return "".join(f"\\{c}" if c in "\\`*_[]|#~!" else "&#64;" if c == "@" else c for c in safe)
