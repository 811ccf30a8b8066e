"""Timeline: the canvas, and below it what was picked, what the marked area holds, and what a search found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash
import pandas as pd
from dash import ALL, Input, Output, State, dcc, html

from ...analysis.area_statistics import area_states, area_statistics
from ...analysis.causes import CAUSES
from ...analysis.slice_facts import slice_facts, stall_facts, stalls_resting_on
from ...analysis.slice_search import entry_of_slice, search_slices
from ..addresses import address, parsed
from ..served import Served
from ..timeline_component import StallscopeTimeline
from ..timeline_meta import TimelineTracks
from ..wording import duration, editor_address, place, share, size
from .parts import count_column, duration_column, facts, grid, swatch, table
from .source import longest_stall_of_line

Query = Mapping[str, str]
Finder = Mapping[str, TimelineTracks]

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
    """The page for an address: ``start`` and ``end`` (ns from the start), and ``slice``, ``stall`` or ``line``."""
    view, command = shown(served, query)
    start = {"view": view} if view else {}
    return html.Div(
        [
            html.Div(
                [
                    dcc.Input(
                        id="track-filter", type="text", placeholder="Filter tracks", debounce=0.2, className="field"
                    ),
                    dcc.Input(
                        id="search", type="search", placeholder="Search slices  /", debounce=True, className="field"
                    ),
                    html.Span(id="search-count", className="dim"),
                    html.Button("Previous", id="search-previous", className="button"),
                    html.Button("Next", id="search-next", className="button"),
                    html.Span("drag: area · wheel: zoom · ? keys", className="dim hint"),
                ],
                className="tools",
            ),
            StallscopeTimeline("timeline", f"/data/{served.key}", command=command, searches=0, **start),
            html.Div(
                [
                    html.Div(_nothing_picked(), id="details", className="pane"),
                    html.Div(_nothing_marked(), id="area", className="pane wide"),
                ],
                className="panes",
            ),
            dcc.Store(id="found", data={"refs": [], "at": -1}),
            dcc.Store(id="address-kept"),
            dcc.Store(id="search-focused"),
        ],
        className="timeline-page",
    )


def shown(served: Served, query: Query) -> tuple[list[int] | None, dict[str, Any] | None]:
    """The view and the command that an address asks for; None for what it does not say or says wrongly."""
    span = served.extent[1] - served.extent[0]
    start, end = (_number(query.get(name)) for name in ("start", "end"))
    view = [start, end] if start is not None and end is not None and start < end <= 2 * span + 1 else None
    stall, slice_id = _number(query.get("stall")), _number(query.get("slice"))
    if stall is None and "line" in query:
        stall = longest_stall_of_line(served, query["line"])
    index = served.bands.index if stall is not None else served.index
    entry = None
    if stall is not None:
        entry = served.bands.entry_of_stall(stall)
    elif slice_id is not None:
        entry = entry_of_slice(index, slice_id)
    if entry is None:
        return view, None
    first, last = int(index.start[entry]) - served.origin, int(index.end[entry]) - served.origin
    room = max(_AROUND * (last - first), _LEAST_AROUND_NS)
    return view or [max(0, first - room), min(span, last + room)], {"pick": entry, "band": stall is not None}


def register(app: dash.Dash, tracks: Finder) -> None:
    """The answers to picks, areas, searches and filters."""

    def chosen(search: str | None) -> TimelineTracks:
        return tracks.get(parsed(search).get("recording", "")) or next(iter(tracks.values()))

    @app.callback(
        Output("details", "children"), Input("timeline", "picked"), State("url", "search"), prevent_initial_call=True
    )
    def details(picked: dict[str, Any] | None, search: str) -> Any:
        return _details(chosen(search).served, picked, parsed(search)) if picked else _nothing_picked()

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

    @app.callback(
        Output("timeline", "command", allow_duplicate=True),
        Input({"jump": ALL, "band": ALL}, "n_clicks"),
        prevent_initial_call=True,
    )
    def jump(clicks: list[int | None]) -> Any:
        if not any(clicks) or not dash.ctx.triggered_id:
            return dash.no_update
        wanted = dash.ctx.triggered_id
        return {"pick": wanted["jump"], "band": wanted["band"] == 1, "fit": True, "count": sum(c or 0 for c in clicks)}

    @app.callback(
        Output("timeline", "command", allow_duplicate=True),
        Input("area-grid", "selectedRows"),
        prevent_initial_call=True,
    )
    def jump_to_longest(selected: list[dict[str, Any]] | None) -> Any:
        return {"pick": int(selected[0]["longest"]), "fit": True} if selected else dash.no_update

    _register_in_the_browser(app)


def _register_in_the_browser(app: dash.Dash) -> None:
    """What ui/assets/stallscope_page.js does without asking the server."""
    page = "stallscope_page"
    app.clientside_callback(
        dash.ClientsideFunction(page, "keep_address"),
        Output("address-kept", "data"),
        Input("timeline", "view"),
        Input("timeline", "picked"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        dash.ClientsideFunction(page, "focus_search"),
        Output("search-focused", "data"),
        Input("timeline", "searches"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        dash.ClientsideFunction(page, "filter_tracks"),
        Output("timeline", "filter"),
        Input("track-filter", "value"),
        prevent_initial_call=True,
    )
    app.clientside_callback(
        dash.ClientsideFunction(page, "walk_found"),
        Output("timeline", "command"),
        Output("found", "data", allow_duplicate=True),
        Input("search-next", "n_clicks"),
        Input("search-previous", "n_clicks"),
        Input("search", "n_submit"),
        Input("found", "data"),
        prevent_initial_call=True,
    )


def _nothing_picked() -> list[Any]:
    return [html.H2("Slice"), html.P("Click a slice or a piece of a state band.", className="note")]


def _nothing_marked() -> list[Any]:
    return [html.H2("Area"), html.P("Drag across the tracks to mark an area.", className="note")]


def _details(served: Served, picked: dict[str, Any], query: Query) -> list[Any]:
    rank = served.rank_of(picked.get("rank"))
    if rank is None:
        return _nothing_picked()
    with served.lock:
        if picked.get("band"):
            return _stall_details(served, picked, rank, query)
        return _slice_details(served, picked, rank, query)


def _slice_details(served: Served, picked: dict[str, Any], rank: int, query: Query) -> list[Any]:
    slice_id, ts = int(picked["slice_id"]), int(picked["start"]) + served.origin
    known = slice_facts(served.recording, rank, slice_id, ts)
    if known is None:
        return _nothing_picked()
    fields = known.fields
    words: list[tuple[str, Any]] = [
        ("length", duration(fields.get("dur"))),
        ("starts at", duration(picked["start"])),
        ("category", fields["category"]),
        *((name.replace("_", " "), _field(name, value)) for name, value in fields.items() if name not in _SAID),
    ]
    stalls = stalls_resting_on(served.recording, rank, slice_id)
    parts: list[Any] = [html.H2(fields["name"], className="mono")]
    for row in stalls.head(3).to_dict("records"):
        entry = served.bands.entry_of_stall(int(row["stall_id"]))
        if entry is not None:
            words_of_stall = f"{duration(row['dur'])} {row['root_cause'].replace('_', ' ')}"
            parts.append(_jump(f"Stall: {words_of_stall}", entry, band=True))
    parts.append(facts(words))
    if known.arrow_count:
        parts.append(html.P(f"{known.arrow_count} arrows; [ and ] follow them.", className="note"))
    return [*parts, *_stack(known.stack, rank, query), *_arguments(fields.get("args"))]


_SAID = frozenset({"name", "dur", "ts", "category", "args", "track_id", "kind", "lane", "depth", "segment_id"})


def _field(name: str, value: Any) -> str:
    return size(value) if name == "bytes" else str(value)


def _stack(stack: Any, rank: int, query: Query) -> list[Any]:
    if not stack:
        return []
    rows = []
    for frame in reversed(stack):
        target = address("source", query, rank=rank, file=frame.file, line=frame.line)
        opener = editor_address(frame.file, frame.line)
        edit = [html.A("open", href=opener, className="dim")] if opener else []
        words = f"{frame.function or '?'}  {frame.file}:{frame.line}"
        rows.append(
            html.Li(
                [dcc.Link(words, href=target) if frame.origin == "user" else words, " ", *edit],
                className=f"mono {frame.origin}",
            )
        )
    return [html.H3("Stack, innermost first"), html.Ol(rows, className="stack")]


def _arguments(text: str | None) -> list[Any]:
    return [html.H3("Arguments"), html.Pre(text[:4000], className="arguments")] if text else []


def _stall_details(served: Served, picked: dict[str, Any], rank: int, query: Query) -> list[Any]:
    length = ("length", duration(picked["end"] - picked["start"]))
    if picked.get("stall_id") is None:
        return [html.H2(picked["name"]), facts([length, ("rank", rank)])]
    row = stall_facts(served.recording, rank, int(picked["stall_id"]))
    if row is None:
        return [html.H2(picked["name"]), facts([length])]
    where = place(row.get("file"), row.get("line"), row.get("function"), row.get("line_source"))
    line: Any = html.Code(where)
    if row.get("file"):
        line = dcc.Link(
            line, href=address("source", query, rank=rank, file=row["file"], line=int(row.get("line") or 1))
        )
    words: list[tuple[str, Any]] = [
        ("length", duration(row["dur"])),
        ("root cause", html.Span([swatch(row["root_cause"]), f": {CAUSES.get(row['root_cause'], '')}"])),
        ("meanwhile", html.Span([swatch(row["cause"]), f": {CAUSES.get(row['cause'], '')}"])),
        ("line", line),
        ("confidence", row["confidence"]),
    ]
    if row.get("step") is not None:
        words.append(("step", int(row["step"])))
    if row.get("co_cause"):
        words.append(("also needed", str(row["co_cause"]).replace("_", " ")))
    if row.get("peer_rank") is not None:
        words.append(("waited for", f"rank {int(row['peer_rank'])}"))
    if row.get("reason"):
        words.append(("reason", row["reason"]))
    title = "Exposed copy" if row["state"] == "data_movement" else "Stall"
    return [html.H2(f"{title}: {row['root_cause'].replace('_', ' ')}"), facts(words), *_evidence(served, row)]


def _evidence(served: Served, row: dict[str, Any]) -> list[Any]:
    roles = {row.get("root_slice_id"): "root", row.get("host_slice_id"): "host", row.get("ended_by"): "ended by"}
    jumps = []
    for slice_id in row["evidence"]:
        entry = entry_of_slice(served.index, int(slice_id))
        if entry is not None:
            name = served.index.names[int(served.index.name[entry])]
            jumps.append(_jump(f"{roles.get(slice_id, 'launch')}: {name[:90]}", entry, band=False))
    return [html.H3("Rests on"), html.Div(jumps, className="jumps")] if jumps else []


def _jump(label: str, entry: int, *, band: bool) -> html.Button:
    return html.Button(label, id={"jump": entry, "band": int(band)}, className="button jump")


def _area(tracks: TimelineTracks, marked: dict[str, Any]) -> list[Any]:
    served = tracks.served
    start, end = sorted(int(marked[name]) + served.origin for name in ("start", "end"))
    numbers = [int(number) for number in marked.get("tracks", [])]
    slices = [number for number in numbers if 0 <= number < tracks.first_band]
    bands = [number - tracks.first_band for number in numbers if tracks.first_band <= number < tracks.first_counter]
    head = html.H2(f"Area: {duration(end - start)}")
    parts: list[Any] = [head]
    if bands:
        parts.append(_states(area_states(served.bands, start, end, bands), (end - start) * len(bands)))
    frame = area_statistics(served.index, slices, start, end)
    if len(frame):
        rows = frame.head(_MOST_AREA_ROWS).to_dict("records")
        total = html.P(
            f"{int(frame['count'].sum()):,} slices, {len(frame):,} names; choose one to go to its longest.",
            className="note",
        )
        parts += [total, grid("area-grid", _AREA_COLUMNS, rows, height="210px")]
    elif not bands:
        parts.append(html.P("No slice lies in it.", className="note"))
    return parts


def _states(frame: pd.DataFrame, whole: int) -> html.Table:
    rows = [
        [swatch(row["state"]), duration(row["inside_ns"]), share(row["inside_ns"] / max(whole, 1)), f"{row['count']:,}"]
        for row in frame.to_dict("records")
    ]
    return table(["state", "time", "share", "pieces"], rows, numbers=(1, 2, 3))


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) <= 18 else None
