"""SQL: one SELECT over the recording's tables, with their schema and examples beside it; a row leads to its slice."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import dash
import pyarrow as pa
from dash import Input, Output, State, dcc, html

from ...profiler.recording.errors import StallscopeError
from ...profiler.recording.schema import TABLES
from ..addresses import address, parsed
from ..open_recordings import OpenRecordings
from ..scope import Query, named
from ..served import Served
from ..sql_queries import CSV_ROW_LIMIT, MOST_TEXT, ROW_LIMITS, TIMEOUT_S, plain_column, run
from .parts import grid, leads, section

EXAMPLES: dict[str, str] = {
    "Longest device work": "select slice_id, name, dur, bytes\nfrom slices\nwhere category in "
    "('kernel', 'collective', 'memcpy')\norder by dur desc",
    "Time by kernel": "select name, count(*) as count, sum(dur) as total_ns, max(dur) as max_ns\nfrom slices\n"
    "where category = 'kernel'\ngroup by name\norder by total_ns desc",
    "From launch to start": "select work.slice_id, work.name, work.ts - call.ts as delay_ns\nfrom flows\n"
    "join slices as call on call.slice_id = from_slice_id\njoin slices as work on work.slice_id = to_slice_id\n"
    "where flows.kind = 'launch'\norder by delay_ns desc",
    "Time by thread or stream": "select tracks.kind, tracks.name, count(*) as slices, sum(dur) as total_ns\n"
    "from slices\njoin tracks using (track_id)\ngroup by all\norder by total_ns desc",
    "Steps": "select rank, step, phase, dur, ts\nfrom steps\nwhere basis = 'host'\norder by rank, ts",
    "Largest allocations": "select slice_id, device_type, device_index, bytes, total_allocated\nfrom memory\n"
    "where bytes > 0\norder by bytes desc",
    "What is missing": "select collector, kind, severity, count, detail\nfrom losses",
}
"""Queries to start from, by what they show."""

_SLICE_COLUMNS = ("slice_id", "device_slice_id", "to_slice_id", "from_slice_id", "host_slice_id", "root_slice_id")
"""Columns whose value leads to the timeline, the first that a row has."""


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``sql``, which is run, and ``limit`` (rows)."""
    text = query.get("sql", "")
    examples = [
        dcc.Link(title, href=address("sql", query, sql=sql, limit=query.get("limit")), className="chip")
        for title, sql in EXAMPLES.items()
    ]
    limits = [{"label": f"{limit:,} rows", "value": str(limit)} for limit in ROW_LIMITS]
    tools = [
        html.Button("Run", id="sql-run", className="button primary", title="Ctrl-Enter"),
        html.Div(
            dcc.Dropdown(id="sql-limit", options=limits, value=str(_limit(query)), clearable=False, searchable=False),
            className="chooser",
        ),
        html.Span(f"Ctrl-Enter runs it. One SELECT, at most {TIMEOUT_S:.0f} s and 1 GB of memory.", className="dim"),
    ]
    editor = section(
        "Query",
        html.Div(examples, className="chips"),
        dcc.Textarea(
            id="sql-text",
            value=text or next(iter(EXAMPLES.values())),
            className="sql",
            spellCheck=False,
            rows=6,
            maxLength=MOST_TEXT,
        ),
        html.Div(tools, className="links"),
    )
    result = html.Div(id="sql-result", className="sql-result")
    return html.Div(
        [
            html.Div(
                [
                    html.Div([editor, dcc.Loading(result, delay_show=300, color="var(--accent)")], className="stacked"),
                    section("Tables", html.Div([_table(name) for name in TABLES], className="scroll schema")),
                ],
                className="columns wide-first",
            ),
            dcc.Store(id="sql-asked", data={"sql": text, "limit": _limit(query)}),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Runs what the address says; writes what the user typed into the address; opens the timeline at a row's slice."""

    def chosen(search: str) -> Served:
        return named(recordings, parsed(search))

    @app.callback(Output("sql-result", "children"), Input("sql-asked", "data"), State("url", "search"))
    def answer(asked: dict[str, Any], search: str) -> Any:
        text = str(asked.get("sql") or "")
        return _result(chosen(search), text, int(asked["limit"])) if text.strip() else None

    @app.callback(
        leads(),
        Input("sql-run", "n_clicks"),
        State("sql-text", "value"),
        State("sql-limit", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def ask(clicks: int | None, text: str | None, limit: str, search: str) -> Any:
        return address("sql", parsed(search), sql=text or "", limit=limit) if clicks else dash.no_update

    @app.callback(
        leads(),
        Input("sql-grid", "selectedRows"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def open_slice(selected: list[dict[str, Any]] | None, search: str) -> Any:
        slice_id = selected[0].get("slice") if selected else None
        return dash.no_update if slice_id is None else address("timeline", parsed(search), slice=slice_id)


def _limit(query: Query) -> int:
    text = query.get("limit", "")
    return int(text) if text in {str(limit) for limit in ROW_LIMITS} else ROW_LIMITS[1]


def _result(served: Served, text: str, limit: int) -> html.Section:
    try:
        rows, more = run(served.recording, text, min(limit, ROW_LIMITS[-1]))
    except StallscopeError as error:
        hint = [html.P(error.hint, className="note")] if error.hint else []
        return section("It cannot be answered", html.P(error.message, className="mono wrong"), *hint)
    download = html.A(
        "CSV",
        href=f"/data/{served.key}/query.csv?{urlencode({'sql': text})}",
        className="button",
        title=f"At most {CSV_ROW_LIMIT:,} rows",
        download="query.csv",
    )
    leads = _slice_column(rows)
    words = [f"The first {rows.num_rows:,} rows; there are more." if more else f"{rows.num_rows:,} rows."]
    words += [f"Choose a row to see its {leads} on the timeline."] if leads else []
    head = html.Div([html.Span(" ".join(words), className="dim"), download], className="chips apart")
    return section("Result", head, grid("sql-grid", _columns(rows), _cells(rows, leads), height="calc(100vh - 440px)"))


def _columns(rows: pa.Table) -> list[dict[str, Any]]:
    """A column of the table for each of the result, by its place: names may be the same, or hold dots."""
    columns = []
    for number, field in enumerate(rows.schema):
        numeric = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        kind: dict[str, Any] = (
            {"type": "rightAligned", "width": 140, "suppressHeaderFilterButton": True}
            if numeric
            else {"flex": 1, "minWidth": 140, "cellClass": "mono", "tooltipField": f"c{number}"}
        )
        columns.append({"field": f"c{number}", "headerName": field.name, "headerTooltip": str(field.type)} | kind)
    return columns


def _cells(rows: pa.Table, leads: str | None) -> list[dict[str, Any]]:
    columns = {f"c{number}": plain_column(column) for number, column in enumerate(rows.columns)}
    if leads is not None:
        columns["slice"] = plain_column(rows.column(rows.schema.names.index(leads)))
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def _slice_column(rows: pa.Table) -> str | None:
    integers = {field.name for field in rows.schema if pa.types.is_integer(field.type)}
    return next((name for name in _SLICE_COLUMNS if name in integers), None)


def _table(name: str) -> html.Details:
    table = TABLES[name]
    columns = [
        part
        for column in table.columns
        for part in (
            html.Dt(column.name, className="mono"),
            html.Dd(f"{column.meaning}{f' [{column.unit}]' if column.unit else ''}"),
        )
    ]
    summary = html.Summary([html.Span(name, className="mono"), html.Span(f" {table.row}", className="dim")])
    return html.Details([summary, html.Dl(columns, className="facts")])
