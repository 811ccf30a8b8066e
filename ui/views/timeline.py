"""Timeline: the canvas, and below it what was picked, what the marked area holds, and what a search found."""

from __future__ import annotations

from typing import Any

import dash
import pandas as pd
from dash import ALL, Input, Output, State, dcc, html

from ...analysis.area_statistics import area_histogram, area_states, area_statistics
from ...analysis.slice_search import entry_of_slice, search_slices
from ..addresses import parsed
from ..field_component import StallscopeField
from ..marked_area import marked_area
from ..open_recordings import OpenRecordings
from ..scope import Query, named, step_window
from ..served import Served
from ..timeline_component import StallscopeTimeline
from ..timeline_tracks import TimelineTracks
from ..wording import duration, share
from .counter_details import counter_of
from .details import details_of, nothing_picked
from .parts import count_column, duration_column, grid, records, swatch, table
from .source import longest_stall_of_line

_MOST_FOUND = 200
_MOST_AREA_ROWS = 500
_AROUND = 3
"""How many of its own lengths are shown on either side of what an address points at."""

_LEAST_AROUND_NS = 2_000

_AREA_COLUMNS = (
    {"field": "name", "headerName": "name", "flex": 1, "minWidth": 180, "cellClass": "mono", "tooltipField": "name"},
    {"field": "category", "headerName": "category", "width": 110},
    duration_column("inside_ns", "inside", sort="desc"),
    count_column("count", "count"),
    duration_column("mean_ns", "mean"),
    duration_column("p50_ns", "p50"),
    duration_column("p99_ns", "p99"),
    duration_column("min_ns", "min"),
    duration_column("max_ns", "max"),
)


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``start`` and ``end`` (ns from the start), and ``slice``, ``stall`` or ``line``.

    Or ``at`` (ns from the start) and ``counter`` (its number): a moment on a counter.

    ``area`` and ``tracks`` mark an area.

    ``rank`` leaves only that rank's tracks, ``step`` shows that step where nothing else says what to show.
    """
    view, command = shown(served, query)
    start = {"view": view} if view else {}
    rank = served.rank_of(query.get("rank"))
    data = f"/data/{served.key}" if rank is None or command else f"/data/{served.key}/rank/{rank}"
    tracks = served.tracks.first_counter + len(served.tracks.counters)
    if marked := marked_area(query, served.extent[1] - served.extent[0], tracks):
        command = (command or {}) | {"area": marked}
    return html.Div(
        [
            html.Div(
                [
                    StallscopeField("track-filter", type="text", placeholder="Filter tracks", wait=200),
                    StallscopeField("search", type="search", placeholder="Search slices  /"),
                    html.Span(id="search-count", className="dim"),
                    html.Button("Previous", id="search-previous", className="button"),
                    html.Button("Next", id="search-next", className="button"),
                    html.Span("drag: area · wheel: zoom · ? keys", className="dim hint"),
                ],
                className="tools",
            ),
            StallscopeTimeline(
                "timeline", api=data, command=command, search="search", remember=f"{served.family}/{rank}", **start
            ),
            html.Div(
                [
                    html.Div(nothing_picked(served), id="details", className="pane"),
                    html.Div(_nothing_marked(), id="area", className="pane wide"),
                ],
                className="panes",
            ),
            dcc.Store(id="found", data={"refs": [], "at": -1}),
            dcc.Store(id="address-kept"),
        ],
        className="timeline-page",
    )


def shown(served: Served, query: Query) -> tuple[list[int] | None, dict[str, Any] | None]:
    """The view and the command that an address asks for; None for what it does not say or says wrongly."""
    span = served.extent[1] - served.extent[0]
    start, end = (_number(query.get(name)) for name in ("start", "end"))
    view = [start, end] if start is not None and end is not None and start < end <= 2 * span + 1 else None
    at, counter = _number(query.get("at")), counter_of(served, query.get("counter"))
    stall, slice_id = _number(query.get("stall")), _number(query.get("slice"))
    if stall is None and "line" in query:
        stall = longest_stall_of_line(served, query["line"])
    index = served.bands.index if stall is not None else served.index
    entry = None
    if stall is not None:
        entry = served.bands.entry_of_stall(stall)
    elif slice_id is not None:
        entry = entry_of_slice(index, slice_id)
    if entry is None and at is not None and at <= span:
        track = served.tracks.first_counter + int(query["counter"]) if counter else None
        return view, {"moment": at, "counter": track}
    if entry is None:
        step = step_window(served, query)
        return view or ([step[0] - served.origin, step[1] - served.origin] if step else None), None
    first, last = int(index.start[entry]) - served.origin, int(index.end[entry]) - served.origin
    room = max(_AROUND * (last - first), _LEAST_AROUND_NS)
    return view or [max(0, first - room), min(span, last + room)], {"pick": entry, "band": stall is not None}


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """The answers to picks, areas, searches and filters."""

    def chosen(search: str | None) -> TimelineTracks:
        return named(recordings, parsed(search)).tracks

    @app.callback(
        Output("details", "children"), Input("timeline", "picked"), State("url", "search"), prevent_initial_call=True
    )
    def details(picked: dict[str, Any] | None, search: str) -> Any:
        served = chosen(search).served
        return details_of(served, picked, parsed(search)) if picked else nothing_picked(served)

    @app.callback(
        Output("area", "children"), Input("timeline", "area"), State("url", "search"), prevent_initial_call=True
    )
    def area(marked: dict[str, Any] | None, search: str) -> Any:
        return _area(chosen(search), marked) if marked else _nothing_marked()

    @app.callback(
        Output("found", "data"),
        Output("search-count", "children"),
        Input("search", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def find(text: str | None, search: str) -> Any:
        found = search_slices(chosen(search).served.index, text or "", limit=_MOST_FOUND)
        if not (text or "").strip():
            return {"refs": [], "at": -1}, ""
        more = f"{found.count:,} slices" + (f", the {_MOST_FOUND} longest" if found.count > _MOST_FOUND else "")
        return {"refs": found.entries.tolist(), "at": -1}, more

    _register_jumps(app)
    _register_in_the_browser(app)


def _register_jumps(app: dash.Dash) -> None:
    """Buttons and rows that pick a slice on the timeline."""

    @app.callback(
        Output("timeline", "command", allow_duplicate=True),
        Input({"jump": ALL, "band": ALL, "stay": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )
    def jump(clicks: list[int | None]) -> Any:
        if not any(clicks) or not dash.ctx.triggered_id:
            return dash.no_update
        wanted = dash.ctx.triggered_id
        count = sum(one or 0 for one in clicks)
        return {"pick": wanted["jump"], "band": wanted["band"] == 1, "fit": not wanted["stay"], "count": count}

    @app.callback(
        Output("timeline", "command", allow_duplicate=True),
        Input("area-grid", "selectedRows"),
        prevent_initial_call=True,
    )
    def jump_to_longest(selected: list[dict[str, Any]] | None) -> Any:
        return {"pick": int(selected[0]["longest"]), "fit": True} if selected else dash.no_update


def _register_in_the_browser(app: dash.Dash) -> None:
    """What ui/assets/stallscope_page.js does without asking the server."""
    page = "stallscope_page"
    in_browser: Any = app.clientside_callback
    in_browser(
        dash.ClientsideFunction(page, "keep_address"),
        Output("address-kept", "data"),
        Input("timeline", "view"),
        Input("timeline", "picked"),
        Input("timeline", "area"),
        prevent_initial_call=True,
    )
    in_browser(
        dash.ClientsideFunction(page, "filter_tracks"),
        Output("timeline", "filter"),
        Input("track-filter", "value"),
        prevent_initial_call=True,
    )
    in_browser(
        dash.ClientsideFunction(page, "walk_found"),
        Output("timeline", "command"),
        Output("found", "data", allow_duplicate=True),
        Input("search-next", "n_clicks"),
        Input("search-previous", "n_clicks"),
        Input("search", "submits"),
        Input("found", "data"),
        prevent_initial_call=True,
    )


def _nothing_marked() -> list[Any]:
    return [html.H2("Area"), html.P("Drag across the tracks to mark an area.", className="note")]


def _area(tracks: TimelineTracks, marked: dict[str, Any]) -> list[Any]:
    served = tracks.served
    start, end = sorted(int(marked[name]) + served.origin for name in ("start", "end"))
    numbers = [int(number) for number in marked.get("tracks", [])]
    slices = [number for number in numbers if 0 <= number < tracks.first_band]
    bands = [number - tracks.first_band for number in numbers if tracks.first_band <= number < tracks.first_counter]
    head = html.H2(f"Area: {duration(end - start)}")
    parts: list[Any] = [head]
    small: list[Any] = []
    if bands:
        small.append(_states(area_states(served.bands, start, end, bands), (end - start) * len(bands)))
    frame = area_statistics(served.index, slices, start, end)
    if len(frame):
        rows = records(frame.head(_MOST_AREA_ROWS))
        total = html.P(
            f"{int(frame['count'].sum()):,} slices, {len(frame):,} names; choose one to go to its longest.",
            className="note",
        )
        small.append(_categories(area_statistics(served.index, slices, start, end, by="category")))
        small.append(_histogram(area_histogram(served.index, slices, start, end)))
        parts += [
            html.Div(small, className="area-parts"),
            total,
            grid("area-grid", _AREA_COLUMNS, rows, height="210px"),
        ]
    elif small:
        parts += small
    else:
        parts.append(html.P("No slice lies in it.", className="note"))
    return parts


def _states(frame: pd.DataFrame, whole: int) -> html.Table:
    rows = [
        [swatch(row["state"]), duration(row["inside_ns"]), share(row["inside_ns"] / max(whole, 1)), f"{row['count']:,}"]
        for row in frame.to_dict("records")
    ]
    return table(["state", "time", "share", "pieces"], rows, numbers=(1, 2, 3))


def _categories(frame: pd.DataFrame) -> html.Table:
    rows = [
        [
            row["category"],
            duration(row["inside_ns"]),
            f"{row['count']:,}",
            duration(row["p50_ns"]),
            duration(row["p99_ns"]),
        ]
        for row in frame.to_dict("records")
    ]
    return table(["category", "time", "count", "p50", "p99"], rows, numbers=(1, 2, 3, 4))


def _histogram(frame: pd.DataFrame) -> html.Figure:
    """Bars of how many slices are how long, each twice as long as the one before."""
    most = max(int(frame["count"].max()), 1)
    bars = []
    for row in frame.to_dict("records"):
        span = f"{duration(row['low_ns'])} to {duration(row['high_ns'])}"
        title = f"{span}: {row['count']:,} slices, {duration(row['total_ns'])} in all"
        height = f"{max(100 * row['count'] / most, 2 if row['count'] else 0):.1f}%"
        bars.append(html.Div(html.Div(style={"height": height}), title=title, className="histogram-bar"))
    ends = [html.Span(duration(frame["low_ns"].iloc[0])), html.Span(duration(frame["high_ns"].iloc[-1]))]
    return html.Figure(
        [
            html.Figcaption("how long they are"),
            html.Div(bars, className="histogram-bars"),
            html.Div(ends, className="histogram-ends"),
        ],
        className="histogram",
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 18 else None
