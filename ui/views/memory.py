"""Memory: what each device held over time, who held it at a moment, growth from step to step, bytes copied each way."""

from __future__ import annotations

from typing import Any, cast

import dash
import pandas as pd
from dash import Input, State, dcc, html

from ...analysis.copies import copies
from ...analysis.memory import DeviceMemory, memory_peaks
from ...analysis.memory_curve import memory_curve, peak_within
from ...analysis.memory_growth import memory_growth, memory_steps
from ...analysis.memory_holders import BEFORE, HolderKind, holder_of, live_blocks, memory_holders
from ..addresses import address, parsed
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_rank, chosen_step, step_window
from ..served import Served
from ..timeline_meta import device_label
from ..wording import duration, place, share, size
from .memory_figures import curve_figure, steps_figure
from .parts import (
    count_column,
    duration_column,
    grid,
    leads,
    one_rank_only,
    records,
    section,
    share_column,
    size_column,
    table,
)

HOLDERS = {"op": "op", "root_op": "outermost op", "module": "module", "line": "line"}
"""By what the holders are grouped, by the name that addresses use."""

_MOST_BLOCKS = 500
_AROUND_NS = 2_000_000
"""How much of the timeline is shown on either side of a moment."""

_HOLDER_COLUMNS = (
    {"field": "holder", "headerName": "who", "flex": 1, "minWidth": 200, "cellClass": "mono", "tooltipField": "holder"},
    size_column("bytes", "bytes"),
    share_column("share_frac", "share"),
    count_column("blocks", "blocks", width=80),
)
_BLOCK_COLUMNS = (
    size_column("bytes", "bytes"),
    duration_column("age_ns", "age"),
    {"field": "op", "headerName": "op", "width": 170, "cellClass": "mono", "tooltipField": "op"},
    {"field": "place", "headerName": "line", "flex": 1, "minWidth": 180, "cellClass": "mono", "tooltipField": "whole"},
)


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``rank``, ``step``, ``device``, ``at`` (ns from the start), ``by`` and ``holder``."""
    rank, step = chosen_rank(served, query), chosen_step(served, query)
    with served.lock:
        devices = memory_peaks(served.recording, rank=rank)
        moved = _copies(served, rank, step, query)
        if not devices:
            head = html.Div(html.H1("No allocation is recorded."), className="verdict")
            return html.Div([head, html.Div([_nothing(), moved], className="columns")], className="page")
        number = _device(query, len(devices))
        window = step_window(served, query)
        at = _moment(served, query, devices[number], number, window)
        verdict = html.H1(_verdict(served, rank, number, devices[number], window, step))
        parts = [
            html.Div([verdict, _choices(devices, number, query), *one_rank_only(served, query)], className="verdict"),
            html.Div(_curve(served, rank, number, devices[number], window, at), className="columns one"),
            _moment_parts(served, query, rank, number, at),
            html.Div([_growth(served, rank, devices[number]), moved], className="columns"),
        ]
    return html.Div(parts, className="page")


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """A click on the curve chooses the moment, a row of the holders their blocks, a block its place on the timeline."""

    def go(search: str, view: str, **values: Any) -> str:
        query = parsed(search)
        kept = {name: query.get(name) for name in ("device", "at", "by")} if view == "memory" else {}
        return address(view, query, **(kept | values))

    @app.callback(
        leads(),
        Input("memory-curve", "clickData"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose_moment(clicked: dict[str, Any] | None, search: str) -> Any:
        point = next((p for p in (clicked or {}).get("points", []) if p.get("customdata") is not None), None)
        return dash.no_update if point is None else go(search, "memory", at=int(point["customdata"]))

    @app.callback(
        leads(),
        Input("holder-grid", "selectedRows"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def choose_holder(selected: list[dict[str, Any]] | None, search: str) -> Any:
        return go(search, "memory", holder=selected[0]["holder"]) if selected else dash.no_update

    @app.callback(
        leads(),
        Input("block-grid", "selectedRows"),
        State("url", "search"),
        prevent_initial_call=True,
    )
    def show_allocation(selected: list[dict[str, Any]] | None, search: str) -> Any:
        slice_id = selected[0].get("slice_id") if selected else None
        return dash.no_update if slice_id is None else go(search, "timeline", slice=int(slice_id))


def _counter(served: Served, rank: int, number: int) -> int | None:
    """The number of the timeline's counter of what the device holds; None where it has none."""
    device = memory_peaks(served.recording, rank=rank)[number]
    for place_, series in enumerate(served.tracks.counters):
        same = (series.rank, series.device_type, series.device_index) == (rank, device.device_type, device.device_index)
        if same and series.is_memory and "allocated" in series.name:
            return place_
    return None


def _device(query: Query, count: int) -> int:
    text = query.get("device", "0")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 6 and int(text) < count else 0


def _moment(served: Served, query: Query, device: DeviceMemory, number: int, window: tuple[int, int] | None) -> int:
    """The instant that the tables are about: what the address says, else the peak, ns on the recording's clock."""
    text = query.get("at", "")
    if text.isascii() and text.isdecimal() and len(text) < 19:
        return int(text) + served.origin
    if window is None:
        return device.peak_ts
    return peak_within(served.recording, rank=device.rank, device=number, window=window)


def _name(device: DeviceMemory) -> str:
    return "The host" if device.device_index is None else device_label(device.device_type, device.device_index)


def _verdict(
    served: Served, rank: int, number: int, device: DeviceMemory, window: tuple[int, int] | None, step: int | None
) -> str:
    """The peak of what is shown, when it was, and who held most of it."""
    at = device.peak_ts
    if window is not None:
        at = peak_within(served.recording, rank=rank, device=number, window=window)
    holders = memory_holders(served.recording, rank=rank, device=number, at=at)
    when = "at its peak" if step is None else f"at most in step {step}"
    words = f"{_name(device)} held {size(int(holders['bytes'].sum()))} {when}"
    words += f", {duration(at - served.origin)} after the start"
    if not len(holders):
        return f"{words}."
    first = holders.iloc[0]
    who = "memory from before the recording" if first["holder"] == BEFORE else f"{first['holder'][:60]}"
    return f"{words}: {share(first['share_frac'])} of it is {who}{'' if first['holder'] == BEFORE else '’s'}."


def _choices(devices: tuple[DeviceMemory, ...], chosen: int, query: Query) -> html.Nav | None:
    if len(devices) < 2:
        return None
    links = [
        dcc.Link(
            _name(device),
            href=address("memory", query, device=number, by=query.get("by")),
            className="chip chosen" if number == chosen else "chip",
        )
        for number, device in enumerate(devices)
    ]
    return html.Nav([html.Span("memory of", className="dim"), *links], className="chips")


def _curve(
    served: Served, rank: int, number: int, device: DeviceMemory, window: tuple[int, int] | None, at: int
) -> html.Section:
    frame = memory_curve(served.recording, rank=rank, device=number, window=window)
    basis = (
        "The totals are the allocator’s own."
        if device.basis == "allocator"
        else "The trace has no totals: these are the blocks that it saw, and more may have been held all along."
    )
    reserved = f" At most {size(device.peak_reserved_bytes)} reserved." if device.peak_reserved_bytes else ""
    graph = dcc.Graph(
        id="memory-curve",
        figure=curve_figure(frame, served, rank, window, at),
        config={"displayModeBar": False, "responsive": True},
        className="chart",
    )
    return section("Held over time", graph, note=f"{basis}{reserved} Click the curve to see what is held then.")


def _moment_parts(served: Served, query: Query, rank: int, number: int, at: int) -> html.Div:
    by = cast("HolderKind", query["by"] if query.get("by") in HOLDERS else "op")
    holders = memory_holders(served.recording, rank=rank, device=number, at=at, by=by)
    blocks = live_blocks(served.recording, rank=rank, device=number, at=at)
    chosen = query.get("holder")
    if chosen is not None:
        blocks = blocks[(holder_of(blocks, by) == chosen).to_numpy(dtype=bool)]
    when = f"{duration(at - served.origin)} after the start"
    since = max(0, at - served.origin)
    around: dict[str, int | None] = {"start": max(0, since - _AROUND_NS), "end": since + _AROUND_NS, "at": since}
    around["counter"] = _counter(served, rank, number)
    held = {"device": query.get("device"), "at": query.get("at")}
    ways = [
        dcc.Link(
            words, href=address("memory", query, by=name, **held), className="chip chosen" if name == by else "chip"
        )
        for name, words in HOLDERS.items()
    ]
    timeline = dcc.Link("Show on the timeline", href=address("timeline", query, **around), className="button")
    who = section(
        f"Who holds {size(int(holders['bytes'].sum()))}, {when}",
        html.Div([html.Span("by", className="dim"), *ways, timeline], className="chips"),
        grid("holder-grid", _HOLDER_COLUMNS, records(holders), height="300px"),
    )
    every = [dcc.Link("all", href=address("memory", query, by=by, **held), className="chip")] if chosen else []
    of = f" of {chosen[:80]}" if chosen else ""
    most = f", the {_MOST_BLOCKS} largest" if len(blocks) > _MOST_BLOCKS else ""
    head = html.Div([html.Span("Choose one to see its allocation on the timeline.", className="dim"), *every],
                    className="chips")  # fmt: skip
    alive = section(
        f"{len(blocks):,} blocks alive{of}{most}",
        head,
        grid("block-grid", _BLOCK_COLUMNS, _block_rows(blocks.head(_MOST_BLOCKS)), height="300px"),
    )
    return html.Div([who, alive], className="columns")


def _block_rows(blocks: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "bytes": row["bytes"],
            "age_ns": None if pd.isna(row["age_ns"]) else int(row["age_ns"]),
            "op": "" if pd.isna(row["op"]) else row["op"],
            "place": place(_file_name(row["file"]), row["line"], row["function"]),
            "whole": place(row["file"], row["line"], row["function"]),
            "slice_id": None if pd.isna(row["slice_id"]) else int(row["slice_id"]),
        }
        for row in records(blocks)
    ]


def _file_name(file: Any) -> Any:
    """A path without its folders, as the column is narrow; the whole of it shows when the pointer rests there."""
    return None if pd.isna(file) else str(file).rpartition("/")[2]


def _growth(served: Served, rank: int, device: DeviceMemory) -> html.Section:
    def mine(kind: str, index: int | None) -> bool:
        return (kind, index) == (device.device_type, device.device_index)

    found = next((g for g in memory_growth(served.recording, rank=rank) if mine(g.device_type, g.device_index)), None)
    if found is None:
        return section("From step to step", html.P("The recording marks no steps.", className="note"))
    frame = memory_steps(served.recording, rank=rank)
    keep = [
        mine(kind, None if pd.isna(index) else int(index))
        for kind, index in zip(frame["device_type"], frame["device_index"], strict=True)
    ]
    words = {"grows": f"It grows, typically by {size(found.bytes_per_step)} a step",
             "shrinks": f"It shrinks, typically by {size(-found.bytes_per_step)} a step",
             "steady": "It does not grow", "cannot tell": "Whether it grows cannot be told"}  # fmt: skip
    graph = dcc.Graph(
        figure=steps_figure(frame[keep]), config={"displayModeBar": False, "responsive": True}, className="chart"
    )
    return section("From step to step", graph, note=f"{words[found.verdict]}: {found.note}.")


def _copies(served: Served, rank: int, step: int | None, query: Query) -> html.Section:
    frame = copies(served.recording, rank=rank, step=step)
    if not len(frame):
        return section("Bytes copied", html.P("No copy ran on a device.", className="note"))
    rows = [
        [
            row["direction"].replace("_", " "),
            "" if pd.isna(row["memory"]) else row["memory"],
            f"{row['count']:,}",
            size(row["bytes"]) if row["bytes"] else "–",
            duration(row["total_ns"]),
            "–" if pd.isna(row["bytes_per_s"]) else f"{size(row['bytes_per_s'])}/s",
        ]
        for row in records(frame)
    ]
    head = ["way", "memory", "times", "bytes", "time", "rate"]
    slow = any("Pageable" in str(row[1]) for row in rows)
    pageable = " A copy from or to pageable memory holds the host up: pin it." if slow else ""
    note = f"In {frame.attrs['selection']}.{pageable}"
    each = dcc.Link("Show them among the kernels", href=address("kernels", query, filter="mem"), className="button")
    shown = html.Div(table(head, rows, numbers=(2, 3, 4, 5)), className="short")
    return section("Bytes copied", shown, html.Div(each, className="links"), note=note)


def _nothing() -> html.Section:
    words = "Record with stallscope at detail normal, or with torch.profiler and profile_memory=True, to see memory."
    return section("Memory", html.P(words, className="note"))
