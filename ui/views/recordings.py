"""The recordings that are served: when each was made, how it ended, how long a step takes. A row opens its overview."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import dash
from dash import Input, Output, dcc, html

from ...analysis.recording_facts import recording_facts
from ...profiler.recording.errors import StallscopeError
from ..addresses import address
from ..open_recordings import OpenRecordings, Source
from ..wording import how_many
from .parts import count_column, duration_column, filter_field, filter_rows, grid, leads, name_column, section
from .run_state import POLL_MS, age_text, statuses_text

_COLUMNS = (
    name_column("label", "recording", flex=2, minWidth=240),
    {"field": "started", "headerName": "started (UTC)", "width": 150},
    {"field": "status", "headerName": "status", "width": 215, "tooltipField": "status"},
    {"field": "ranks", "headerName": "ranks", "width": 90, "type": "rightAligned", "suppressHeaderFilterButton": True},
    count_column("steps", "steps"),
    duration_column("step_ns", "step, median", width=115),
    name_column("devices", "devices", flex=1, minWidth=160),
)


def layout(recordings: OpenRecordings, query: Mapping[str, str]) -> html.Div:
    """The list; of each recording only its small tables are read.

    What is running, and what came into a folder that is served, is looked up every few seconds.
    """
    recordings.look()
    rows = _rows(recordings)
    table = grid("recording-grid", _COLUMNS, rows, height="calc(100vh - 215px)", row_id="params.data.name")
    watch = dcc.Interval(id="watch-list", interval=POLL_MS, disabled=not _may_change(recordings))
    note = "Choose one to open it. The step is the host’s, without preparation and warm-up where they are known."
    return html.Div(
        [
            html.Div(html.H1(how_many(len(rows), "recording"), id="recording-count"), className="verdict"),
            section("Recordings", html.Div(filter_field(query), className="above"), watch, table, note=note),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Opens the overview of the row that was chosen, as it is by then; filters the rows; follows what is running."""
    filter_rows(app, "recording-grid")

    @app.callback(
        Output("recording-grid", "rowData"),
        Output("watch-list", "disabled"),
        Output("recording-count", "children"),
        Input("watch-list", "n_intervals"),
        prevent_initial_call=True,
    )
    def follow(turns: int | None) -> Any:
        if not turns:
            return [dash.no_update] * 3
        recordings.look()
        rows = _rows(recordings)
        return rows, not _may_change(recordings), how_many(len(rows), "recording")

    @app.callback(
        leads(),
        Input("recording-grid", "selectedRows"),
        prevent_initial_call=True,
    )
    def open_recording(selected: list[dict[str, Any]] | None) -> Any:
        if not selected:
            return dash.no_update
        return address("overview", recording=recordings.source(selected[0]["name"]).advance().key)


def _rows(recordings: OpenRecordings) -> list[dict[str, Any]]:
    rows = []
    for source in recordings.sources:
        try:
            rows.append(_row(source))
        except (StallscopeError, OSError):
            if source.readable:  # else it was removed meanwhile
                raise
    return rows


def _may_change(recordings: OpenRecordings) -> bool:
    if recordings.may_come:
        return True
    found = [source.news() for source in recordings.sources]
    return any(news is not None and news.running for news in found)


def _row(source: Source) -> dict[str, Any]:
    news, served = source.news(), source.latest
    if news is None:
        with served.lock:
            facts = recording_facts(served.recording)
    else:
        facts = replace(news.facts, statuses=news.statuses)
    started = None
    if facts.started_ns is not None:
        at = datetime.datetime.fromtimestamp(facts.started_ns // 1_000_000_000, tz=datetime.UTC)
        started = f"{at:%Y-%m-%d %H:%M}"
    status = statuses_text(facts.statuses) if news is None or news.there else "removed"
    several = facts.world_size is not None and facts.world_size != facts.ranks
    return {
        "name": source.name,
        "label": source.label,
        "started": started or "–",
        "status": status + (f", heartbeat {age_text(news)}" if news and news.running else ""),
        "ranks": f"{facts.ranks} of {facts.world_size}" if several else str(facts.ranks),
        "steps": facts.steps,
        "step_ns": facts.step_median_ns,
        "devices": ", ".join(facts.devices) or "–",
    }
