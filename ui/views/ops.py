"""Ops: what the framework's operators cost on the host, on the device and in stalls; a row opens the timeline."""

from __future__ import annotations

from typing import cast

import dash
import pandas as pd
from dash import html

from ...analysis.longest_slice import longest_of_op
from ...analysis.ops import OpKey, ops
from ...analysis.slice_facts import all_stalls
from ...analysis.stalls import stalls
from ...analysis.timeline import memoized
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_rank, chosen_step
from ..served import Served
from ..wording import duration
from .parts import count_column, duration_column, filter_rows, name_column, one_rank_only, rows_section, ways_to_group
from .row_jump import Row, open_chosen_row

WAYS = {"name": "name", "name+shape": "name and input shapes"}
"""What makes a row, by the name that addresses use."""

_COLUMNS = (
    name_column("op", "op", flex=1, minWidth=240),
    duration_column(
        "device_self_ns", "device self", sort="desc", width=110, headerTooltip="Of the kernels it launched itself."
    ),
    duration_column("device_total_ns", "device total", headerTooltip="With the ops inside it."),
    duration_column("host_self_ns", "host self", headerTooltip="Without everything inside it."),
    duration_column("host_total_ns", "host total"),
    duration_column("stall_ns", "stall", headerTooltip="Of the stalls that it is the innermost op of."),
    count_column("count", "calls"),
    count_column("launched_count", "launches"),
    duration_column("host_p50_ns", "host p50", width=85),
    duration_column("host_p99_ns", "host p99", width=85),
    count_column("fallback_count", "on the CPU", width=95, headerTooltip="Calls that ran on the CPU instead."),
)
_SHAPE_COLUMN = name_column("shape", "input shapes", width=220)


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``rank`` (the first by default), ``step``, and ``by``."""
    rank, step = chosen_rank(served, query), chosen_step(served, query)
    by = cast("OpKey", query["by"] if query.get("by") in WAYS else "name")
    frame = _table(served, rank, step, by)
    columns = [_COLUMNS[0], _SHAPE_COLUMN, *_COLUMNS[1:]] if by == "name+shape" else list(_COLUMNS)
    where = f" of rank {rank}" if len(served.recording.ranks) > 1 else ""
    outside = frame.attrs["unattributed_device_ns"]
    left = f" {duration(outside)} of device work was launched outside any op." if outside else ""
    note = (
        f"Ops{where} that start in {frame.attrs['selection']}, with the device work that they launched.{left} "
        "Choose a row to open its longest call on the timeline."
    )
    return html.Div(
        [
            html.Div(
                [html.H1("What the ops cost"), ways_to_group("ops", query, WAYS, by), *one_rank_only(served, query)],
                className="verdict",
            ),
            rows_section(f"{len(frame):,} ops", "op-grid", columns, frame, query, note=note),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Opens the timeline at the longest call of the row that was chosen; filters the rows."""
    filter_rows(app, "op-grid")
    open_chosen_row(app, recordings, "op-grid", "slice", _longest)


def _longest(served: Served, query: Query, row: Row) -> int | None:
    return longest_of_op(
        served.recording,
        chosen_rank(served, query),
        str(row["op"]),
        shape=row["shape"] if query.get("by") == "name+shape" else None,
        step=chosen_step(served, query),
    )


def _table(served: Served, rank: int, step: int | None, by: OpKey) -> pd.DataFrame:
    def build() -> pd.DataFrame:
        recording = served.recording
        waits = all_stalls(recording, rank) if step is None else stalls(recording, ranks=(rank,), step=step)
        return ops(recording, rank=rank, step=step, by=by, stalls=waits)

    with served.lock:
        return memoized(served.recording, ("ui_ops", rank, step, by), build)
