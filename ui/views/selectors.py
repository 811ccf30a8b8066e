"""The rank and the step at the top of every page: what is chosen is in the address, so it stays from page to page."""

from __future__ import annotations

from typing import Any

import dash
from dash import Input, State, dcc, html

from ..addresses import address, parsed
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_step, named, step_numbers
from ..served import Served
from .parts import leads

_OF_A_MOMENT = frozenset({"rank", "step", "start", "end", "slice", "stall", "line", "at", "counter"})
"""What an address says that no longer holds when another rank or step is chosen."""


def selectors(served: Served, query: Query) -> list[Any]:
    """A choice of rank and one of step, each only where there are several."""
    ranks = served.recording.ranks
    rank = served.rank_of(query.get("rank"))
    numbers = step_numbers(served, ranks if rank is None else (rank,))
    step = chosen_step(served, query)
    return [
        _choice("scope-rank", "rank", [str(one) for one in ranks], rank),
        _choice("scope-step", "step", [str(one) for one in numbers], step),
    ]


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Goes to the same page with the rank and step that were chosen."""

    @app.callback(
        leads(),
        Input("scope-rank", "value"),
        Input("scope-step", "value"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose(rank: str | None, step: str | None, search: str) -> Any:
        query = parsed(search)
        served = named(recordings, query)
        now = (served.rank_of(query.get("rank")), chosen_step(served, query))
        if (rank or "", step or "") == tuple("" if one is None else str(one) for one in now):
            return dash.no_update
        kept = {name: value for name, value in query.items() if name not in _OF_A_MOMENT | {"view", "recording"}}
        values = kept | {"rank": rank or None, "step": step or None}
        return address(query.get("view", "overview"), query, **values)


def _choice(id: str, name: str, numbers: list[str], chosen: int | None) -> html.Div:
    options = [{"label": f"{name} {number}", "value": number} for number in numbers]
    dropdown = dcc.Dropdown(
        id=id,
        options=options,
        value=None if chosen is None else str(chosen),
        placeholder=f"every {name}",
        searchable=len(numbers) > 12,
        className="choice",
    )
    return html.Div(dropdown, className="chooser" if len(numbers) > 1 else "chooser absent", title=name)
