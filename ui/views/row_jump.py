"""From a row of a table to the timeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dash
from dash import Input, State

from ..addresses import address, parsed
from ..open_recordings import OpenRecordings
from ..scope import Query, named
from ..served import Served
from .parts import leads

Row = dict[str, Any]


def open_chosen_row(
    app: dash.Dash,
    recordings: OpenRecordings,
    grid_id: str,
    kind: str,
    number_of: Callable[[Served, Query, Row], int | None],
) -> None:
    """Goes to what a row of a grid stands for, when the row is chosen.

    Args:
        app: The application.
        recordings: The recordings that are open, by key.
        grid_id: The grid's id.
        kind: What the address of the timeline calls it: ``slice`` or ``stall``.
        number_of: The number of it; None where there is nothing to go to. Called with the recording locked.
    """

    @app.callback(
        leads(),
        Input(grid_id, "selectedRows"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def go(selected: list[Row] | None, search: str) -> Any:
        query = parsed(search)
        if not selected:
            return dash.no_update
        served = named(recordings, query)
        with served.lock:
            found = number_of(served, query, selected[0])
        return dash.no_update if found is None else address("timeline", query, **{kind: found})
