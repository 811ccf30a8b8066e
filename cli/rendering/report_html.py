"""A report as one HTML file that needs nothing else: no script, no font, nothing fetched; light and dark."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .report import Report, ReportCell, Section
from .text import printable

_STYLE = """
:root { color-scheme: light dark; --ink: #1b1f24; --quiet: #5b6470; --line: #d7dce2; --page: #fff;
  --compute: #2e8b57; --communication: #2a8fb5; --data_movement: #d19a1c; --stall: #c8453b;
  --worse: #c8453b; --better: #2e8b57; --base: #7a8699; --new: #2f6fd0; --warn: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --quiet: #9aa4b2; --line: #343b45; --page: #14171b;
  --base: #9aa4b2; --new: #6ea8fe; --worse: #ff7b72; --better: #56d38c; --warn: #e3b341; } }
body { font: 14px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto;
  max-width: 70rem; padding: 0 1rem; }
h1 { font-size: 1.15rem; overflow-wrap: anywhere; } h2 { font-size: 1rem; margin: 2rem 0 .4rem; }
h2 small, .note { color: var(--quiet); font-weight: normal; }
.lead { font-size: 1.05rem; font-weight: 600; } .warn { color: var(--warn); font-weight: 600; }
div.table { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid var(--line);
  vertical-align: top; overflow-wrap: anywhere; }
th { color: var(--quiet); font-weight: 600; } .right { text-align: right; white-space: nowrap;
  font-variant-numeric: tabular-nums; } td.worse { color: var(--worse); } td.better { color: var(--better); }
figure { margin: 1.2rem 0; } figcaption { font-weight: 600; margin-bottom: .3rem; } svg { width: 100%; height: auto; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .label, svg .tick.end { text-anchor: end; }
svg .tick { fill: var(--quiet); } svg line { stroke: var(--line); } svg .median { stroke: var(--ink); stroke-width: 2; }
svg circle { fill-opacity: .55; } svg circle.base { fill: var(--base); } svg circle.new { fill: var(--new); }
.compute { fill: var(--compute); --key: var(--compute); } .stall { fill: var(--stall); --key: var(--stall); }
.communication { fill: var(--communication); --key: var(--communication); }
.data_movement { fill: var(--data_movement); --key: var(--data_movement); }
rect.worse { fill: var(--worse); } rect.better { fill: var(--better); }
.key::before { content: ""; display: inline-block; width: .8em; height: .8em; margin-right: .4em;
  background: var(--key); } .key { margin-right: 1.2em; }
"""


def html_page(report: Report, charts: Sequence[str] = ()) -> str:
    """The report as an HTML document; everything that a trace may hold is escaped.

    Args:
        report: The report.
        charts: SVG made by us, put between the verdict and the tables.
    """
    title = _text(report.title)
    lines = [
        f'<p class="{"lead" if not place else "why"}">{_text(line)}</p>' for place, line in enumerate(report.lines)
    ]
    lines += [f'<p class="warn">{_text(line)}</p>' for line in report.warnings]
    if report.notes:
        lines.append("<ul>" + "".join(f'<li class="note">{_text(line)}</li>' for line in report.notes) + "</ul>")
    body = "\n".join((f"<h1>{title}</h1>", *lines, *charts, *(_section(section) for section in report.sections)))
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{title}</title><style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _section(section: Section) -> str:
    note = f" <small>{_text(section.note)}</small>" if section.note else ""
    right = [column.right for column in section.columns]
    head = "".join(
        f"<th{_classes('', one)}>{_text(column.title)}</th>" for column, one in zip(section.columns, right, strict=True)
    )
    rows = "".join(f"<tr>{''.join(map(_cell, row, right))}</tr>\n" for row in section.rows)
    more = f'<p class="note">... {section.more:,} more</p>' if section.more else ""
    return (
        f'<h2>{_text(section.title)}{note}</h2>\n<div class="table"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>{more}"
    )


def _cell(cell: ReportCell, right: bool) -> str:
    return f"<td{_classes(cell.tone, right)}>{_text(cell.text)}</td>"


def _classes(tone: str, right: bool) -> str:
    names = " ".join(name for name in (tone, "right" if right else "") if name)
    return f' class="{names}"' if names else ""


def _text(text: str) -> str:
    return html.escape(printable(text))
