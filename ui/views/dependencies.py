"""Dependencies: what led to a slice and what it led to, as a graph to walk and as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dash
from dash import Input, State, dcc, html

from ...analysis.dependency_chain import ChainArrow, ChainSlice, DependencyChain, dependency_chain
from ...analysis.slice_facts import longest_stall, stall_facts
from ...profiler.recording.ids import rank_of
from ...profiler.recording.short_names import short_name
from ..addresses import address, parsed
from ..graph_component import StallscopeGraph
from ..scope import Query, chosen_rank, chosen_step
from ..served import Served
from ..wording import duration
from .parts import leads, section, table

KINDS = {
    "launch": "launched by",
    "call": "called by",
    "within": "part of",
    "stream_order": "next on its stream",
    "thread_order": "next on its thread",
    "stream_wait": "waited for another stream",
    "event_sync": "waited for an event",
    "device_sync": "waited for the device",
    "collective": "waited for its collective",
    "data": "waited for data",
    "forward_backward": "backward of",
    "user": "arrow in the trace",
}
"""What each kind of arrow says of the slice that it leads to."""


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``slice``, else what ended the longest stall of the chosen rank and step."""
    text = query.get("slice", "")
    slice_id = (
        int(text) if text.isascii() and text.isdecimal() and len(text) < 19 else _after_longest_stall(served, query)
    )
    chain = None
    if slice_id is not None and rank_of(slice_id) in served.recording.ranks:
        with served.lock:
            chain = dependency_chain(served.recording, rank_of(slice_id), slice_id)
    if chain is None or slice_id is None:
        words = "Pick a slice on the timeline, then “Dependencies” beside its name."
        body: list[Any] = [section("Nothing to show", html.P(words, className="note"))]
        return html.Div([_head("What a slice waited for"), *body], className="page")
    picked = next(one for one in chain.slices if one.slice_id == slice_id)
    note = (
        "Left: what led to it; right: what it let go. Bright arrows decided when the slice that they lead to could "
        "start. Arrow keys walk, Enter moves the graph to a slice."
    )
    if chain.left_out:
        note += f" {chain.left_out:,} more neighbours are not shown."
    links = [
        dcc.Link("Show on the timeline", href=address("timeline", query, slice=slice_id), className="chip"),
        *([] if text else [html.Span("the operation that ended the longest stall", className="dim")]),
    ]
    return html.Div(
        [
            _head(_short(picked.name), *links),
            section("Chain", _graph(chain, slice_id), note=note),
            html.Div(section("The same as a table", _table(chain, slice_id, query)), className="below"),
        ],
        className="page",
    )


def register(app: dash.Dash) -> None:
    """Moves the graph to the slice that was chosen in it."""

    @app.callback(
        leads(),
        Input("chain", "chosen"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def move(chosen: str | None, search: str) -> Any:
        return address("dependencies", parsed(search), slice=chosen) if chosen else dash.no_update


def _head(title: str, *more: Any) -> html.Div:
    return html.Div([html.H1(title, className="mono"), *more], className="verdict")


def _after_longest_stall(served: Served, query: Query) -> int | None:
    rank = chosen_rank(served, query)
    with served.lock:
        stall_id = longest_stall(served.recording, rank, step=chosen_step(served, query))
        row: Mapping[str, Any] = (stall_facts(served.recording, rank, stall_id) if stall_id is not None else None) or {}
    ended_by = row.get("ended_by")
    return None if ended_by is None else int(ended_by)


def _short(name: str) -> str:
    return short_name(name) or name


def _graph(chain: DependencyChain, picked: int) -> StallscopeGraph:
    nodes = [
        {
            "key": str(one.slice_id),
            "hop": one.hop,
            "main": one.on_chain,
            "title": _short(one.name),
            "detail": f"{duration(one.dur)} · {one.track}",
            "category": one.category,
        }
        for one in chain.slices
    ]
    arrows = [
        {
            "from": str(one.from_slice_id),
            "to": str(one.to_slice_id),
            "decided": one.decided,
            "label": f"{KINDS.get(one.kind, one.kind)}, {_wait(one)}",
        }
        for one in chain.arrows
    ]
    return StallscopeGraph("chain", nodes=nodes, arrows=arrows, picked=str(picked))


def _wait(arrow: ChainArrow) -> str:
    if arrow.wait_ns < 0:
        return f"began {duration(-arrow.wait_ns)} before"
    return f"{duration(arrow.wait_ns)} after"


def _table(chain: DependencyChain, picked: int, query: Query) -> html.Table:
    by_id = {one.slice_id: one for one in chain.slices}
    start = by_id[picked].ts
    arrows = sorted(chain.arrows, key=lambda one: (by_id[one.to_slice_id].hop, not one.decided, one.wait_ns))
    rows = [
        [
            "●" if arrow.decided else "",
            _name(by_id[arrow.from_slice_id], picked, query),
            KINDS.get(arrow.kind, arrow.kind),
            _name(by_id[arrow.to_slice_id], picked, query),
            _wait(arrow),
            _relative(by_id[arrow.to_slice_id].ts - start),
            duration(by_id[arrow.to_slice_id].dur),
        ]
        for arrow in arrows
    ]
    head = ["decided", "first", "how the second hangs on it", "second", "it started", "from the picked", "length"]
    return table(head, rows, numbers=(4, 5, 6))


def _name(one: ChainSlice, picked: int, query: Query) -> Any:
    words = html.Span(_short(one.name), className="mono", title=one.name)
    if one.slice_id == picked:
        return html.B(words)
    return dcc.Link(words, href=address("dependencies", query, slice=one.slice_id))


def _relative(ns: int) -> str:
    return "0" if ns == 0 else f"{'−' if ns < 0 else '+'}{duration(abs(ns))}"
