"""What several views are made of: tables, titled sections, grids. Text is always text, never HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import dash
import dash_ag_grid as dag
import pandas as pd
from dash import Input, Output, State, dcc, html

from ..addresses import address
from ..colours import BAND_COLOURS
from ..field_component import StallscopeField
from ..scope import Query, chosen_rank
from ..served import Served

_GRID_THEME = (
    "themeQuartz.withParams({backgroundColor:'var(--ground)',foregroundColor:'var(--text)',"
    "headerBackgroundColor:'var(--panel)',headerTextColor:'var(--dim)',borderColor:'var(--line)',"
    "rowHoverColor:'var(--hover)',selectedRowBackgroundColor:'var(--hover)',oddRowBackgroundColor:'var(--ground)',"
    "fontFamily:'inherit',fontSize:12,spacing:4,wrapperBorderRadius:3,accentColor:'var(--accent)'})"
)


def leads() -> Output:
    """The output of a callback that leads elsewhere: the query of an address of this application.

    The browser follows it (``go`` in ui/assets/stallscope_page.js). A ``dcc.Location`` is no such output: it puts its
    own address back over what the page has written into the address bar, as soon as the callback is called.
    """
    return Output("go", "data", allow_duplicate=True)


def section(title: str, *children: Any, note: str = "") -> html.Section:
    """A part of a page under a title."""
    head = [html.H2(title)] + ([html.P(note, className="note")] if note else [])
    return html.Section([*head, *children], className="section")


def table(head: Sequence[Any], rows: Sequence[Sequence[Any]], *, numbers: Sequence[int] = ()) -> html.Table:
    """A plain table; the columns in ``numbers`` are set to the right."""

    def kind(column: int) -> str:
        return "number" if column in numbers else ""

    return html.Table(
        [
            html.Thead(html.Tr([html.Th(text, className=kind(n)) for n, text in enumerate(head)])),
            html.Tbody([html.Tr([html.Td(cell, className=kind(n)) for n, cell in enumerate(row)]) for row in rows]),
        ],
        className="table",
    )


def facts(pairs: Sequence[tuple[str, Any]]) -> html.Dl:
    """Names with their values."""
    return html.Dl([part for name, value in pairs for part in (html.Dt(name), html.Dd(value))], className="facts")


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as dictionaries by column."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def plain_records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a frame as dictionaries by column, None where a value is missing."""
    return records(frame.astype(object).where(frame.notna(), None))


def ways_to_group(view: str, query: Query, ways: Mapping[str, str], chosen: str, **kept: object) -> html.Nav:
    """Links to the same view with its rows made by something else (``by`` in the address), ``kept`` as it is."""
    links = [
        dcc.Link(words, href=address(view, query, by=by, **kept), className="chip chosen" if by == chosen else "chip")
        for by, words in ways.items()
    ]
    return html.Nav([html.Span("by", className="dim"), *links], className="chips")


def one_rank_only(served: Served, query: Query) -> list[html.Span]:
    """For the head of a page that shows one rank: which it is, where the address names none of several."""
    if len(served.recording.ranks) == 1 or served.rank_of(query.get("rank")) is not None:
        return []
    return [html.Span(f"rank {chosen_rank(served, query)} only; choose another at the top", className="dim")]


def swatch(code: str) -> html.Span:
    """The colour of a state or cause, with its name beside it."""
    mark = html.Span(className="swatch", style={"background": BAND_COLOURS.get(code, "#808488")})
    return html.Span([mark, code.replace("_", " ")], className="swatched")


def grid(
    id: str, columns: Sequence[dict[str, Any]], rows: Sequence[dict[str, Any]], *, height: str, row_id: str = ""
) -> dag.AgGrid:
    """A table to sort and filter; ``selectedRows`` is the row that was clicked.

    With ``row_id``, an expression such as ``params.data.name``, a row stays the same when its values change.
    """
    known = {"getRowId": row_id} if row_id else {}
    return dag.AgGrid(
        id=id,
        columnDefs=list(columns),
        rowData=list(rows),
        defaultColDef={"sortable": True, "resizable": True, "filter": True, "suppressHeaderMenuButton": True},
        dashGridOptions={
            "theme": {"function": _GRID_THEME},
            "rowHeight": 26,
            "headerHeight": 30,
            "animateRows": False,
            "rowSelection": {"mode": "singleRow", "checkboxes": False, "enableClickSelection": True},
            "suppressCellFocus": False,
        },
        style={"height": height},
        className="grid",
        **known,
    )


def name_column(field: str, title: str, whole: str | None = None, **more: Any) -> dict[str, Any]:
    """A column of names in a fixed-width font; ``whole`` is the field that is shown when the pointer rests on one."""
    return {"field": field, "headerName": title, "cellClass": "mono", "tooltipField": whole or field} | more


def swatch_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of states or causes, each with its colour at the edge."""
    styles = [
        {"condition": f"params.value == '{code}'", "style": {"boxShadow": f"inset 4px 0 {colour}"}}
        for code, colour in BAND_COLOURS.items()
    ]
    words = {"function": "stallscopeWords(params.value)"}
    return {
        "field": field,
        "headerName": title,
        "valueFormatter": words,
        "cellStyle": {"styleConditions": styles},
    } | more


def filter_field(query: Query) -> StallscopeField:
    """A field that leaves only the rows of the page's one table that have its text; ``filter`` in the address."""
    return StallscopeField(
        "row-filter", type="text", value=query.get("filter", ""), placeholder="Filter rows", wait=100
    )


def rows_section(
    title: str, grid_id: str, columns: Sequence[dict[str, Any]], frame: pd.DataFrame, query: Query, *, note: str
) -> html.Section:
    """A section that fills the page: the rows of a table, with a field that filters them."""
    rows = grid(grid_id, columns, plain_records(frame), height="calc(100vh - 215px)")
    return section(title, html.Div(filter_field(query), className="above"), rows, note=note)


def filter_rows(app: dash.Dash, grid_id: str) -> None:
    """Makes ``filter_field`` filter a table, without asking the server."""
    in_browser: Any = app.clientside_callback
    in_browser(
        dash.ClientsideFunction("stallscope_page", "filter_rows"),
        Output(grid_id, "dashGridOptions"),
        Input("row-filter", "value"),
        State(grid_id, "dashGridOptions"),
    )


def duration_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of ns, shown with a unit and sorted by value."""
    return _number_column(field, title, "stallscopeDuration", 95) | more


def count_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of counts."""
    return _number_column(field, title, "stallscopeCount", 80) | more


def share_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of shares 0..1, shown in per cent."""
    return _number_column(field, title, "stallscopeShare", 80) | more


def size_column(field: str, title: str, **more: Any) -> dict[str, Any]:
    """A column of bytes, shown with a binary unit and sorted by value."""
    return _number_column(field, title, "stallscopeSize", 100) | more


def _number_column(field: str, title: str, formatter: str, width: int) -> dict[str, Any]:
    return {
        "field": field,
        "headerName": title,
        "type": "rightAligned",
        "suppressHeaderFilterButton": True,
        "valueFormatter": {"function": f"{formatter}(params.value)"},
        "width": width,
    }
