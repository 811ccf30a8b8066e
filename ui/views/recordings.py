"""The recordings that are served: when each was made, how it ended, how long a step takes. A row opens its overview."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any

import dash
from dash import Input, Output, html

from ...analysis.recording_facts import recording_facts
from ..addresses import address
from ..served import Served
from .parts import count_column, duration_column, filter_field, filter_rows, grid, name_column, section

_COLUMNS = (
    name_column("label", "recording", flex=2, minWidth=240),
    {"field": "started", "headerName": "started (UTC)", "width": 150},
    {"field": "status", "headerName": "status", "width": 150, "tooltipField": "status"},
    {"field": "ranks", "headerName": "ranks", "width": 90, "type": "rightAligned", "suppressHeaderFilterButton": True},
    count_column("steps", "steps"),
    duration_column("step_ns", "step, median", width=115),
    name_column("devices", "devices", flex=1, minWidth=160),
)


def layout(recordings: Mapping[str, Served], query: Mapping[str, str]) -> html.Div:
    """The list; of each recording only its small tables are read."""
    rows = [_row(one) for one in recordings.values()]
    table = grid("recording-grid", _COLUMNS, rows, height="calc(100vh - 215px)")
    note = "Choose one to open it. The step is the host’s, without preparation and warm-up where they are known."
    return html.Div(
        [
            html.Div(html.H1(f"{len(rows)} recordings"), className="verdict"),
            section("Recordings", html.Div(filter_field(query), className="above"), table, note=note),
        ],
        className="page",
    )


def register(app: dash.Dash) -> None:
    """Opens the overview of the row that was chosen; filters the rows."""
    filter_rows(app, "recording-grid")

    @app.callback(
        Output("url", "search", allow_duplicate=True),
        Input("recording-grid", "selectedRows"),
        prevent_initial_call=True,
    )
    def open_recording(selected: list[dict[str, Any]] | None) -> Any:
        return address("overview", recording=selected[0]["key"]) if selected else dash.no_update


def _row(served: Served) -> dict[str, Any]:
    with served.lock:
        facts = recording_facts(served.recording)
    started = None
    if facts.started_ns is not None:
        at = datetime.datetime.fromtimestamp(facts.started_ns // 1_000_000_000, tz=datetime.UTC)
        started = f"{at:%Y-%m-%d %H:%M}"
    several = facts.world_size is not None and facts.world_size != facts.ranks
    return {
        "key": served.key,
        "label": served.label,
        "started": started or "–",
        "status": ", ".join(
            status if facts.ranks == 1 else f"{status} ({count})" for status, count in sorted(facts.statuses.items())
        ),
        "ranks": f"{facts.ranks} of {facts.world_size}" if several else str(facts.ranks),
        "steps": facts.steps,
        "step_ns": facts.step_median_ns,
        "devices": ", ".join(facts.devices) or "–",
    }
