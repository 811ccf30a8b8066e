"""Stalls: why the devices waited, by root cause and by line. A row opens the timeline at its longest stall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash
import pandas as pd
from dash import dcc, html

from ...analysis.causes import CAUSES
from ...analysis.slice_facts import longest_stall
from ...analysis.stall_groups import By, stall_groups
from ...analysis.timeline import memoized
from ..addresses import address
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_ranks, chosen_step
from ..served import Served
from ..timeline_meta import device_label
from ..wording import duration, place, share
from .parts import count_column, duration_column, grid, section, share_column, swatch, table
from .row_jump import Row, open_chosen_row

_COLUMNS: Sequence[dict[str, Any]] = (
    {"field": "rank", "headerName": "rank", "width": 75},
    {"field": "device", "headerName": "device", "width": 125},
    {"field": "state_words", "headerName": "state", "width": 125},
    {"field": "cause_words", "headerName": "root cause", "width": 150},
    duration_column("dur", "time"),
    share_column("stall_frac", "of state"),
    count_column("count", "times"),
    duration_column("longest_ns", "longest"),
    {"field": "place", "headerName": "line", "flex": 1, "minWidth": 240, "cellClass": "mono", "tooltipField": "place"},
)


_OWN = "overhead"
"""The root cause of the recorder's own pauses."""


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address; ``rank``, ``step`` and ``cause`` limit it."""
    ranks, step = chosen_ranks(served, query), chosen_step(served, query)
    cause = query.get("cause") if query.get("cause") in CAUSES else None
    rows = _line_rows(_groups(served, "line", ranks, step), cause)
    chosen = [html.Span([swatch(cause), ": ", CAUSES[cause], " "])] if cause else []
    every = [dcc.Link("all causes", href=address("stalls", query), className="chip")] if cause else []
    return html.Div(
        [
            html.Div(html.H1("Why the devices waited"), className="verdict"),
            html.Div([_causes(served, query, ranks, step)], className="columns one"),
            section(
                "By root cause and line",
                html.Div([*chosen, *every], className="chips"),
                grid("stall-grid", _COLUMNS, rows, height="calc(100vh - 480px)"),
                note="Choose a row to open its longest stall on the timeline. “in f (file:line)” is the line of the "
                "function’s def: the recording does not say which line of it ran.",
            ),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Opens the timeline at the longest stall of the row that was chosen."""
    open_chosen_row(app, recordings, "stall-grid", "stall", _longest)


def _longest(served: Served, query: Query, row: Row) -> int | None:
    return longest_stall(
        served.recording,
        int(row["rank"]),
        root_cause=str(row["root_cause"]),
        state=str(row["state"]),
        step=chosen_step(served, query),
        place=(str(row["file"]), int(row["line"])),
    )


def _groups(served: Served, by: By, ranks: tuple[int, ...], step: int | None) -> pd.DataFrame:
    """The groups of some ranks; those of the whole recording are kept, as every choice of ranks is a part of them."""
    with served.lock:
        if step is not None:
            return stall_groups(served.recording, by=by, ranks=ranks, step=step)
        frame = memoized(served.recording, ("ui_stalls", by), lambda: stall_groups(served.recording, by=by))
    return frame[frame["rank"].isin(ranks)]


def _causes(served: Served, query: Query, ranks: tuple[int, ...], step: int | None) -> html.Section:
    frame = _groups(served, "root_cause", ranks, step)
    if not len(frame):
        return section("By root cause", html.P("No stall: the devices were never without work.", className="note"))
    sums = frame.groupby(["state", "root_cause"], sort=False, observed=True)[["dur", "count"]].sum().reset_index()
    sums = _own_pauses_last(sums)
    own = int(sums["dur"][sums["root_cause"] == _OWN].sum())
    whole = int(sums["dur"].sum()) - own
    rows = [
        [
            dcc.Link(swatch(row["root_cause"]), href=address("stalls", query, cause=row["root_cause"])),
            "exposed copy" if row["state"] == "data_movement" else "stall",
            duration(row["dur"]),
            "" if row["root_cause"] == _OWN else _bar(row["dur"] / max(whole, 1)),
            "" if row["root_cause"] == _OWN else share(row["dur"] / max(whole, 1)),
            f"{row['count']:,}",
            CAUSES.get(row["root_cause"], ""),
        ]
        for row in sums.to_dict("records")
    ]
    head = ["root cause", "state", "time", "", "share", "times", "what it means"]
    of = ("all ranks together" if len(ranks) > 1 else f"rank {ranks[0]}") + ("" if step is None else f", step {step}")
    besides = f" The recorder’s own pauses, {duration(own)}, are in no share." if own else ""
    return section(
        "By root cause",
        html.Div(table(head, rows, numbers=(2, 4, 5)), className="short"),
        note=f"{duration(whole)} without computation or communication, {of}.{besides}",
    )


def _own_pauses_last(frame: pd.DataFrame) -> pd.DataFrame:
    """The longest first, but what the recorder itself did at the end: no change to the program gives it back."""
    if not len(frame):
        return frame
    return frame.assign(own=frame["root_cause"] == _OWN).sort_values(["own", "dur"], ascending=[True, False])


def _shares_of_the_rest(frame: pd.DataFrame) -> pd.DataFrame:
    """``stall_frac`` as shares of what is not the recorder's own; None for that."""
    if not len(frame):
        return frame
    rest = frame["dur"].where(frame["root_cause"] != _OWN, 0)
    keys = [frame[name] for name in ("rank", "device_type", "device_index", "state")]
    whole = rest.groupby(keys, dropna=False, observed=True).transform("sum")
    shares = [None if not mine else mine / of for mine, of in zip(rest.tolist(), whole.tolist(), strict=True)]
    return frame.assign(stall_frac=pd.Series(shares, index=frame.index, dtype=object))


def _bar(frac: float) -> html.Div:
    return html.Div(html.Div(style={"width": f"{100 * frac:.1f}%"}), className="bar")


def _line_rows(frame: pd.DataFrame, cause: str | None) -> list[dict[str, Any]]:
    frame = _shares_of_the_rest(frame)
    if cause is not None:
        frame = frame[frame["root_cause"] == cause]
    return [
        {
            "rank": row["rank"],
            "device": device_label(row["device_type"], None if pd.isna(row["device_index"]) else row["device_index"]),
            "state": row["state"],
            "state_words": "exposed copy" if row["state"] == "data_movement" else "stall",
            "root_cause": row["root_cause"],
            "cause_words": row["root_cause"].replace("_", " "),
            "dur": row["dur"],
            "stall_frac": row["stall_frac"],
            "count": row["count"],
            "longest_ns": row["longest_ns"],
            "file": "" if pd.isna(row["file"]) else row["file"],
            "line": 0 if pd.isna(row["line"]) else int(row["line"]),
            "place": place(row["file"], row["line"], row["function"], row["line_source"]),
        }
        for row in _own_pauses_last(frame).to_dict("records")
    ]
