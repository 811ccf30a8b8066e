"""The charts of a comparison as SVG text: steps of every run, the mean step by state, and what makes the difference.

Nothing but shapes and text that is escaped here; no script, and nothing is fetched.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import numbers

if TYPE_CHECKING:
    from ...analysis.compare import Compared, RunLine
    from ...analysis.compare_parts import PartDifference

WIDTH = 860
LEFT = 210
RIGHT = 110
ROW = 22
MOST_PARTS = 12
MOST_DOTS = 400
"""Steps of a run that are drawn: beyond them, evenly chosen ones."""

STATE_TITLES = {
    "compute": "compute",
    "communication": "exposed communication",
    "data_movement": "exposed copies",
    "stall": "stall",
}


def steps_chart(found: Compared) -> str:
    """Every steady step of every run as a dot, a row a run, with its median as a bar; from 0."""
    runs = [("base", run) for run in found.base_runs] + [("new", run) for run in found.new_runs]
    longest = max((max(run.steps_ns) for _, run in runs if run.steps_ns), default=0)
    if not longest:
        return ""
    shapes = []
    for place, (side, run) in enumerate(runs):
        middle = ROW * place + ROW // 2
        shapes.append(_label(f"{side}: {run.name}", middle))
        shapes += [
            f'<circle class="{side}" cx="{_x(ns, longest):.1f}" cy="{middle}" r="3">'
            f"<title>{numbers.duration(ns)}</title></circle>"
            for ns in _thinned(run.steps_ns)
        ]
        shapes += _median(run, middle, longest)
    return _svg("Steady steps of each run", shapes, ROW * len(runs), longest)


def states_chart(found: Compared) -> str:
    """The mean step of both sides as bars of their states, from 0."""
    longest = max(found.mean.base or 0, found.mean.new or 0)
    if not longest:
        return ""
    shapes = []
    for place, side in enumerate(("base", "new")):
        shapes.append(_label(f"{side}, mean", ROW * place + ROW // 2))
        at = 0
        for state in found.states:
            ns = state.base_ns if side == "base" else state.new_ns
            if ns:
                title = f"{STATE_TITLES[state.state]} {numbers.duration(ns)}"
                shapes.append(_bar(state.state, _x(at, longest), _x(at + ns, longest), ROW * place + 3, title))
            at += ns
        shapes.append(_value(_x(at, longest), ROW * place + ROW // 2, numbers.duration(at)))
    legend = "".join(
        f'<span class="key {state.state}">{STATE_TITLES[state.state]}</span>'
        for state in found.states
        if state.base_ns or state.new_ns
    )
    return _svg("The mean step by state", shapes, ROW * 2, longest) + f'<p class="legend">{legend}</p>'


def difference_chart(found: Compared) -> str:
    """What makes the difference: a bar a part, each beginning where the one above it ends."""
    parts = [part for part in found.parts if part.difference_ns]
    if not parts:
        return ""
    shown, rest = parts[:MOST_PARTS], sum(part.difference_ns for part in parts[MOST_PARTS:])
    steps = [(_part_title(part), part.difference_ns) for part in shown] + ([("all else", rest)] if rest else [])
    edges = [0]
    for _, ns in steps:
        edges.append(edges[-1] + ns)
    low, high = min(edges), max(edges)
    shapes = []
    for place, ((title, ns), start) in enumerate(zip(steps, edges, strict=False)):
        first, last = sorted((_x(start - low, high - low), _x(start + ns - low, high - low)))
        words = f"{'+' if ns > 0 else ''}{numbers.duration(ns)}"
        shapes.append(_label(title, ROW * place + ROW // 2))
        shapes.append(_bar("worse" if ns > 0 else "better", first, last, ROW * place + 3, f"{title} {words}"))
        shapes.append(_value(last, ROW * place + ROW // 2, words))
    zero = _x(-low, high - low)
    shapes.append(f'<line class="zero" x1="{zero:.1f}" x2="{zero:.1f}" y1="0" y2="{ROW * len(steps)}"/>')
    return _svg("What makes the difference of the mean step", shapes, ROW * len(steps), None)


def _part_title(part: PartDifference) -> str:
    title = STATE_TITLES[part.state]
    return f"{title}: {part.cause}" if part.cause else title


def _x(ns: int, longest: int) -> float:
    return LEFT + (WIDTH - LEFT - RIGHT) * ns / max(longest, 1)


def _thinned(values: Sequence[int]) -> Sequence[int]:
    """At most ``MOST_DOTS`` of the values, the extremes among them."""
    if len(values) <= MOST_DOTS:
        return values
    ordered = sorted(values)
    last = len(ordered) - 1
    return [ordered[place * last // (MOST_DOTS - 1)] for place in range(MOST_DOTS)]


def _median(run: RunLine, middle: int, longest: int) -> list[str]:
    if run.median_ns is None:
        return []
    at = _x(run.median_ns, longest)
    words = numbers.duration(run.median_ns)
    return [
        f'<line class="median" x1="{at:.1f}" x2="{at:.1f}" y1="{middle - 9}" y2="{middle + 9}"/>',
        f'<text class="value" x="{WIDTH - RIGHT + 8}" y="{middle + 4}">{words}</text>',
    ]


def _bar(kind: str, first: float, last: float, top: int, title: str) -> str:
    return (
        f'<rect class="{kind}" x="{first:.1f}" y="{top}" width="{max(last - first, 0.5):.1f}" height="{ROW - 6}">'
        f"<title>{html.escape(title)}</title></rect>"
    )


def _label(text: str, middle: int) -> str:
    short = text if len(text) <= 32 else f"{text[:18]}...{text[-11:]}"
    safe, whole = html.escape(short), html.escape(text)
    return f'<text class="label" x="{LEFT - 8}" y="{middle + 4}"><title>{whole}</title>{safe}</text>'


def _value(at: float, middle: int, text: str) -> str:
    return f'<text class="value" x="{at + 6:.1f}" y="{middle + 4}">{html.escape(text)}</text>'


def _svg(title: str, shapes: Sequence[str], height: int, longest: int | None) -> str:
    """The shapes under a heading; with ``longest``, an axis from 0 to it."""
    axis = ""
    if longest is not None:
        axis = (
            f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height + 2}" y2="{height + 2}"/>'
            f'<text class="tick" x="{LEFT}" y="{height + 16}">0</text>'
            f'<text class="tick end" x="{WIDTH - RIGHT}" y="{height + 16}">{numbers.duration(longest)}</text>'
        )
    whole = height + (22 if axis else 4)
    name = html.escape(title)
    return (
        f'<figure><figcaption>{name}</figcaption><svg viewBox="0 0 {WIDTH} {whole}" role="img" aria-label="{name}">'
        f"{''.join(shapes)}{axis}</svg></figure>"
    )
