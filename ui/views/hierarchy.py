"""Hierarchy: where time goes by call path, call stack or module, as an icicle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import dash
import numpy as np
from dash import Input, Output, State, dcc, html

from ...analysis.hierarchy import MEASURES, WAYS, By, Hierarchy, Measure, hierarchy
from ...analysis.source_position import python_line
from ...analysis.timeline import memoized
from ...profiler.recording.short_names import short_name
from ..addresses import address, parsed
from ..icicle_component import StallscopeIcicle
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_rank, chosen_step, named
from ..served import Served
from ..wording import duration, share
from .parts import facts, one_rank_only, section, table

MOST_NODES = 8_000
"""How many nodes are drawn: smaller ones would be thinner than a pixel until one zooms far in."""

_WAY_WORDS: dict[By, str] = {"calls": "calls", "stack": "call stacks", "module": "modules"}
_MEASURE_WORDS: dict[Measure, str] = {
    "host": "time of the host",
    "device": "device work launched",
    "stall": "stalls caused",
}
_EXPLAINED: dict[Measure, str] = {
    "host": "How long the host was in it, all threads together.",
    "device": "How long the device work ran that was launched in it.",
    "stall": "How long a device waited because of it, by the stalls’ root cause, without the recorder’s own pauses.",
}


_KEYS = (
    "Click, or walk with the arrow keys; Enter or a double click opens a node, Esc closes it; shift + wheel scrolls."
)


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``rank`` (the first by default), ``step``, ``by`` and ``measure``."""
    by, measure = _choice(query)
    rank = chosen_rank(served, query)
    tree = _tree(served, query)
    drawn = tree.largest(MOST_NODES)
    left = len(tree) - len(drawn)
    note = f"{_EXPLAINED[measure]} {_KEYS}"
    if left:
        note += f" The {left:,} smallest nodes are not drawn."
    step = chosen_step(served, query)
    where = "" if len(served.recording.ranks) == 1 else f", rank {rank}"
    title = f"{duration(tree.whole_ns)} in {len(tree):,} nodes{where}{'' if step is None else f', step {step}'}"
    body = StallscopeIcicle("icicle", tree=_columns(drawn)) if len(drawn) else html.P("Nothing took any time.")
    return html.Div(
        [
            html.Div(
                [
                    html.H1("Where time goes"),
                    _links(query, "by", _WAY_WORDS, by),
                    _links(query, "measure", _MEASURE_WORDS, measure),
                    *one_rank_only(served, query),
                ],
                className="verdict",
            ),
            section(title, body, note=note),
            html.Div(_nothing_chosen(), id="node", className="section below"),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Says what is known of the node that was chosen."""

    @app.callback(
        Output("node", "children"), Input("icicle", "chosen"), State("url", "search"), prevent_initial_call=True
    )
    def show(chosen: int | None, search: str) -> Any:
        query = parsed(search)
        served = named(recordings, query)
        drawn = _tree(served, query).largest(MOST_NODES)
        return (
            _node(served, drawn, chosen, query)
            if chosen is not None and 0 <= chosen < len(drawn)
            else _nothing_chosen()
        )


def _choice(query: Query) -> tuple[By, Measure]:
    by = query["by"] if query.get("by") in WAYS else "calls"
    measure = query["measure"] if query.get("measure") in MEASURES else "host"
    return cast("By", by), cast("Measure", measure)


def _tree(served: Served, query: Query) -> Hierarchy:
    by, measure = _choice(query)
    rank, step = chosen_rank(served, query), chosen_step(served, query)
    key = ("ui_hierarchy", rank, by, measure, step)
    with served.lock:
        return memoized(
            served.recording, key, lambda: hierarchy(served.recording, rank, by=by, measure=measure, step=step)
        )


def _columns(tree: Hierarchy) -> dict[str, Any]:
    return {
        "names": [short_name(name) or name for name in tree.names],
        "categories": tree.categories,
        "parent": tree.parent.tolist(),
        "total": tree.total_ns.tolist(),
        "self": tree.self_ns.tolist(),
    }


def _links(query: Query, name: str, words: Mapping[Any, str], chosen: str) -> html.Nav:
    kept = {key: query.get(key) for key in ("by", "measure")}
    links = [
        dcc.Link(
            text,
            href=address("hierarchy", query, **(kept | {name: value})),
            className="chip chosen" if value == chosen else "chip",
        )
        for value, text in words.items()
    ]
    return html.Nav([html.Span(name, className="dim"), *links], className="chips")


def _nothing_chosen() -> list[Any]:
    return [html.P("Choose a node to see what it took and what is beneath it.", className="note")]


def _node(served: Served, tree: Hierarchy, node: int, query: Query) -> list[Any]:
    children = np.flatnonzero(tree.parent == node)
    children = children[np.argsort(-tree.total_ns[children], kind="stable")]
    total = int(tree.total_ns[node])
    links: list[Any] = []
    longest = int(tree.longest[node])
    if longest >= 0:
        stall = _choice(query)[1] == "stall"
        target = address("timeline", query, stall=longest) if stall else address("timeline", query, slice=longest)
        links.append(
            dcc.Link(f"Longest {'stall' if stall else 'slice'} on the timeline", href=target, className="chip")
        )
    line = python_line(tree.names[node])
    if line is not None:
        target = address("source", query, rank=chosen_rank(served, query), file=line.file, line=line.line)
        links.append(dcc.Link("Source", href=target, className="chip"))
    words: list[tuple[str, Any]] = [
        ("in all", f"{duration(total)}, {share(total / max(tree.whole_ns, 1))} of everything"),
        ("itself", f"{duration(int(tree.self_ns[node]))}, {int(tree.count[node]):,} times"),
    ]
    beneath = [
        [tree.names[n], duration(int(tree.total_ns[n])), share(int(tree.total_ns[n]) / max(total, 1))]
        for n in children[:8].tolist()
    ]
    below = [table(["beneath it", "time", "share"], beneath, numbers=(1, 2))] if beneath else []
    return [html.H2(tree.names[node], className="mono"), html.Div(links, className="chips"), facts(words), *below]
