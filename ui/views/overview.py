"""Overview: what was run, what the step is made of, what to do about it, the devices, and what is missing."""

from __future__ import annotations

import re
from typing import Any

import pandas as pd
from dash import dcc, html

from ...analysis.findings import Finding, Findings
from ...analysis.step_breakdown import STATE_COLUMNS, mean_steady_step
from ...analysis.steps import PAUSED
from ..addresses import address
from ..colours import BAND_COLOURS
from ..scope import Query, chosen_ranks, chosen_step
from ..served import Served
from ..timeline_meta import device_label
from ..wording import ABSENT, counted, duration, place, share, size, with_micro
from .parts import facts, section, swatch, table

_STATES = tuple(column.removesuffix("_ns") for column in STATE_COLUMNS)
_MOST_LOSSES = 200
_MOST_TICKS = 26
_CHART_HEIGHT = 260


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address; ``rank`` and ``step`` limit it. Findings are always about the steady steps."""
    ranks = chosen_ranks(served, query)
    step = chosen_step(served, query)
    frame = served.breakdown
    frame = frame[frame["rank"].isin(ranks)]
    rank = served.rank_of(query.get("rank"))
    found = served.findings if rank is None else served.findings_of(rank)
    return html.Div(
        [
            html.Div(html.H1(with_micro(found.verdict)), className="verdict"),
            html.Div(
                [_findings(found, query), html.Div(_facts(served, frame, ranks, step), className="stacked")],
                className="columns",
            ),
        ],
        className="page",
    )


def _facts(served: Served, frame: pd.DataFrame, ranks: tuple[int, ...], step: int | None) -> list[html.Section]:
    return [_steps(frame, step), _devices(served, frame), _identity(served), _losses(served, ranks)]


def _findings(found: Findings, query: Query) -> html.Section:
    cards: list[Any] = [_card(number, finding, query) for number, finding in enumerate(found.findings, 1)]
    if not cards:
        cards = [
            html.P("Nothing here is worth changing: no finding would give back 2 % of the step.", className="note")
        ]
    for cold in found.cold_starts:
        steady = f"; a steady step takes {duration(cold.steady_step_ns)}" if cold.steady_step_ns is not None else ""
        first = "its first step" if cold.steps == 1 else f"its first {cold.steps} steps"
        words = f"Rank {cold.rank}: {first} took {duration(cold.total_ns)} to prepare{steady}."
        cards.append(html.P([html.B("Cold start. "), words], className="note"))
    return section("What to do", html.Ol(cards, className="findings"))


def _card(number: int, finding: Finding, query: Query) -> html.Li:
    gain = f"{duration(finding.gives_back_ns)} of each {finding.per} · {share(finding.share_frac)}"
    gain = gain if finding.gives_back_ns else ""
    where = place(finding.file, finding.line, finding.function, finding.line_source)
    links = []
    if finding.slice_ids:
        target = address("timeline", query, slice=finding.slice_ids[0])
        links.append(dcc.Link("Show on the timeline", href=target, className="button"))
    if finding.peer is not None:
        target = address("stalls", query, rank=finding.peer)
        links.append(dcc.Link(f"Stalls of rank {finding.peer}", href=target, className="button"))
    if finding.file:
        target = address("source", query, rank=finding.rank, file=finding.file, line=finding.line)
        links.append(dcc.Link("Show the line", href=target, className="button"))
    return html.Li(
        [
            html.Div(
                [
                    html.H3(f"{number}. {finding.title}"),
                    html.Span(gain if finding.gives_back_ns else "", className="gain"),
                ],
                className="card-head",
            ),
            html.P(with_micro(finding.evidence)),
            html.P([html.Span("line ", className="dim"), html.Code(where)]) if where != ABSENT else None,
            html.P([html.B("Try: "), finding.advice]),
            html.Div([*links, html.Span(f"{finding.confidence} confidence", className="dim")], className="links"),
        ],
        className="card",
    )


def _steps(frame: pd.DataFrame, step: int | None) -> html.Section:
    """The chart of every step, or of one, and beneath it the same in figures: of the mean steady step."""
    steps = frame[frame["step"].notna()]
    note = "Each step as the device ran it; the four states add up to the step exactly."
    paused = steps[steps["phase"] == PAUSED]
    if len(paused) and step is None:
        steps, numbers = steps[steps["phase"] != PAUSED], sorted(set(paused["step"].tolist()))
        note += f" Left out: {counted(numbers)}, in which the recorder paused the program to write."
    steady = mean_steady_step(steps)
    whole, head = (steady, "steady step") if len(steady) else (frame[frame["step"].isna()], "window")
    if step is not None:
        head = "step"
        steps = whole = steps[steps["step"] == step]
        note = f"Step {step} as each device ran it; the four states add up to it exactly."
    if not len(steps):
        steps = frame[frame["device_type"] != "all"]
        note = "The recording marks no steps: each device from its first operation to its last."
    graph = dcc.Graph(
        figure=step_figure(steps),
        config={"displayModeBar": False, "responsive": True},
        className="chart",
        style={"height": _CHART_HEIGHT},
    )
    several = frame["rank"].nunique() > 1
    rows = [
        [
            *([f"rank\N{NO-BREAK SPACE}{row['rank']}"] if several else []),
            device_label(row["device_type"], _index(row["device_index"])),
            duration(row["dur"]),
            *(share(row[column] / row["dur"] if row["dur"] else None) for column in STATE_COLUMNS),
        ]
        for row in whole.to_dict("records")
    ]
    names: list[Any] = [*([""] if several else []), "device", head, *(swatch(state) for state in _STATES)]
    numbers_at = range(2 if several else 1, len(names))
    return section("Where the time goes", graph, table(names, rows, numbers=numbers_at), note=note)


def step_figure(steps: pd.DataFrame) -> dict[str, Any]:
    """A bar per rank, device and step, stacked by state, in ms."""
    ranks = [f"rank {rank}" for rank in steps["rank"]]
    if len(steps[["rank", "device_type", "device_index"]].drop_duplicates()) > steps["rank"].nunique():
        ranks = [
            f"{rank} {device_label(kind, _index(number))}"
            for rank, kind, number in zip(ranks, steps["device_type"], steps["device_index"], strict=True)
        ]
    numbers = ["" if pd.isna(step) else str(step) for step in steps["step"]]
    several = len(set(ranks)) > 1
    x: list[Any] = [ranks, numbers] if several else [number or ranks[0] for number in numbers]
    before = "" if several or not any(numbers) else "step "
    bars = [
        {
            "type": "bar",
            "name": state.replace("_", " "),
            "x": x,
            "y": (steps[f"{state}_ns"] / 1e6).tolist(),
            "marker": {"color": BAND_COLOURS[state]},
            "hovertemplate": f"{state.replace('_', ' ')}: %{{y:.3f}} ms<extra>{before}%{{x}}</extra>",
        }
        for state in _STATES
    ]
    horizontal: dict[str, Any] = {"type": "multicategory" if several else "category", "showgrid": False}
    if not several and any(numbers):
        horizontal |= {"title": {"text": "step", "standoff": 4}, "tickangle": 0, "nticks": _MOST_TICKS}
    axis = {"gridcolor": "rgba(128,128,128,0.22)", "zeroline": False, "fixedrange": True}
    plain = {
        "barmode": "stack",
        "height": _CHART_HEIGHT,
        "margin": {"l": 52, "r": 8, "t": 8, "b": 48 if several else 38},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"size": 11, "color": "#808a96"},
        "legend": {"orientation": "h", "y": 1.12, "traceorder": "normal"},
        "bargap": 0.25,
        "xaxis": axis | horizontal,
        "yaxis": axis | {"title": {"text": "ms"}, "rangemode": "tozero"},
    }
    return {"data": bars, "layout": plain}


def _devices(served: Served, frame: pd.DataFrame) -> html.Section:
    named = served.recording.table("devices").to_pylist()
    names = {(row["rank"], row["device_type"], row["device_index"]): row for row in named}
    rows = []
    steady = mean_steady_step(frame)
    whole = steady if len(steady) else frame[frame["step"].isna() & (frame["device_type"] != "all")]
    for row in whole.to_dict("records"):
        index = _index(row["device_index"])
        known = names.get((row["rank"], row["device_type"], index), {})
        rows.append(
            [
                row["rank"],
                device_label(row["device_type"], index),
                known.get("name") or ABSENT,
                size(known.get("memory_bytes")),
                share(1 - row["stall_ns"] / row["dur"] if row["dur"] else None),
            ]
        )
    return section(
        "Devices",
        table(
            ["rank", "device", "name", "memory", "busy in a steady step" if len(steady) else "busy"],
            rows,
            numbers=(3, 4),
        ),
    )


def _identity(served: Served) -> html.Section:
    recording = served.recording
    statuses = pd.Series([served.status(rank) for rank in recording.ranks]).value_counts()
    pairs: list[tuple[str, Any]] = [
        ("recording", served.label),
        (
            "status",
            ", ".join(
                f"{status} ({count})" if len(recording.ranks) > 1 else str(status) for status, count in statuses.items()
            ),
        ),
        ("ranks", f"{len(recording.ranks)} of {recording.info.get('world_size') or len(recording.ranks)}"),
        ("slices", f"{len(served.index):,}"),
        ("length", duration(served.extent[1] - served.extent[0])),
    ]
    pairs += [(_name(name), _words(value)) for name, value in recording.identity.items() if value]
    return section("Recording", facts(pairs))


def _name(name: str) -> str:
    """``schemaVersion`` and ``schema_version`` as words."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).replace("_", " ").lower()


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items() if part)[:400]
    if isinstance(value, list):
        return " ".join(_words(part) for part in value)[:400]
    return str(value)[:400]


def _losses(served: Served, ranks: tuple[int, ...]) -> html.Section:
    columns = ["rank", "collector", "kind", "severity", "count", "detail"]
    rows = served.recording.table("losses", ranks=ranks, columns=columns).to_pylist()
    if not rows:
        return section("What is missing", html.P("Nothing was lost, repaired or paused.", className="note"))
    order = {"data_loss": 0, "warning": 1, "info": 2}
    rows.sort(key=lambda row: order.get(row["severity"], 3))
    cells = [
        [
            row["rank"],
            row["severity"].replace("_", " "),
            row["kind"].replace("_", " "),
            row["count"] or "",
            row["detail"] or "",
        ]
        for row in rows[:_MOST_LOSSES]
    ]
    note = f"{len(rows):,} notes; the first {_MOST_LOSSES}." if len(rows) > _MOST_LOSSES else ""
    shown = table(["rank", "", "what", "count", "detail"], cells, numbers=(3,))
    return section("What is missing", html.Div(shown, className="short"), note=note)


def _index(value: Any) -> int | None:
    return None if pd.isna(value) else int(value)
