"""Kernels: what ran on the devices, by name; a row opens the timeline at its longest piece."""

from __future__ import annotations

from typing import cast

import dash
import pandas as pd
from dash import html

from ...analysis.kernels import KernelKey, kernels
from ...analysis.longest_slice import longest_of_kernel
from ...analysis.timeline import memoized
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_rank, chosen_step
from ..served import Served
from ..wording import duration
from .parts import (
    count_column,
    duration_column,
    filter_rows,
    name_column,
    one_rank_only,
    rows_section,
    share_column,
    swatch_column,
    ways_to_group,
)
from .row_jump import Row, open_chosen_row

WAYS = {"name": "name", "name+grid": "name and grid"}
"""What makes a row, by the name that addresses use."""

_COLUMNS = (
    name_column("short_name", "kernel", "name", flex=3, minWidth=300),
    swatch_column("state", "state", width=125, suppressHeaderFilterButton=True),
    duration_column("total_ns", "time", sort="desc"),
    share_column("busy_frac", "of busy"),
    count_column("count", "count"),
    duration_column("mean_ns", "mean", width=85),
    duration_column("p99_ns", "p99", width=85),
    duration_column("max_ns", "max", width=85),
    duration_column(
        "launch_delay_p50_ns",
        "after launch",
        width=105,
        headerTooltip="Half start within this time of the end of their launching call; negative: before it ends.",
    ),
    name_column("op", "launched by", flex=1, minWidth=170),
    count_column("streams", "streams"),
    {"field": "category", "headerName": "category", "width": 105},
)
_GRID_COLUMN = {"field": "grid", "headerName": "grid and block", "width": 190, "cellClass": "mono"}


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``rank`` (the first by default), ``step``, and ``by``."""
    rank, step = chosen_rank(served, query), chosen_step(served, query)
    by = cast("KernelKey", query["by"] if query.get("by") in WAYS else "name")
    frame = _table(served, rank, step, by)
    columns = [_COLUMNS[0], _GRID_COLUMN, *_COLUMNS[1:]] if by == "name+grid" else list(_COLUMNS)
    busy, several = frame.attrs["busy_ns"], len(served.recording.ranks) > 1
    where = f" of rank {rank}" if several else ""
    title = f"{len(frame):,} kernels, collectives and copies"
    note = (
        f"The devices{where} did something for {duration(busy)} in {frame.attrs['selection']}. "
        "Choose a row to open its longest piece on the timeline."
    )
    return html.Div(
        [
            html.Div(
                [
                    html.H1("What ran on the devices"),
                    ways_to_group("kernels", query, WAYS, by),
                    *one_rank_only(served, query),
                ],
                className="verdict",
            ),
            rows_section(title, "kernel-grid", columns, frame, query, note=note),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Opens the timeline at the longest piece of the row that was chosen; filters the rows."""
    filter_rows(app, "kernel-grid")
    open_chosen_row(app, recordings, "kernel-grid", "slice", _longest)


def _longest(served: Served, query: Query, row: Row) -> int | None:
    return longest_of_kernel(
        served.recording,
        chosen_rank(served, query),
        str(row["name"]),
        str(row["category"]),
        grid=row["grid"] if query.get("by") == "name+grid" else None,
        step=chosen_step(served, query),
    )


def _table(served: Served, rank: int, step: int | None, by: KernelKey) -> pd.DataFrame:
    with served.lock:
        key = ("ui_kernels", rank, step, by)
        return memoized(served.recording, key, lambda: kernels(served.recording, rank=rank, step=step, by=by))
