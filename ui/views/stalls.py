"""Stalls: why the devices waited, by root cause and line, op or step. A row opens the timeline at its longest stall."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import dash
import pandas as pd
from dash import dcc, html

from ...analysis.causes import CAUSES
from ...analysis.slice_facts import longest_stall
from ...analysis.stall_groups import By, stall_groups
from ...analysis.stalls_by_work import Work, stalls_by_work
from ...analysis.timeline import memoized
from ...profiler.recording.short_names import short_name
from ..addresses import address
from ..open_recordings import OpenRecordings
from ..scope import Query, chosen_ranks, chosen_step
from ..served import Served
from ..timeline_meta import device_label
from ..wording import ABSENT, duration, place, share
from .parts import (
    count_column,
    duration_column,
    grid,
    name_column,
    section,
    share_column,
    swatch,
    table,
    ways_to_group,
)
from .row_jump import Row, open_chosen_row

_FIRST: Sequence[dict[str, Any]] = (
    {"field": "rank", "headerName": "rank", "width": 70},
    {"field": "device", "headerName": "device", "width": 100},
    {"field": "state_words", "headerName": "state", "width": 115},
    {"field": "cause_words", "headerName": "root cause", "width": 135},
    duration_column("dur", "time"),
    share_column("stall_frac", "of state"),
    count_column("count", "times"),
    duration_column("longest_ns", "longest"),
)
_LAST: dict[str, Sequence[dict[str, Any]]] = {
    "line": (name_column("place", "line", flex=1, minWidth=240),),
    "op": (
        name_column("op", "op", "whole", flex=1, minWidth=150),
        name_column("within", "within", flex=1, minWidth=120),
    ),
    "step": (count_column("step", "step", flex=1, minWidth=80),),
}
_WAYS = {"line": "line", "op": "op", "step": "step"}
_NOTES = {
    "line": "“in f (file:line)” is the line of the function’s def: the recording does not say which line of it ran.",
    "op": "The op whose device work ended the stall, as its launch came late, and the annotation that it stands in.",
    "step": "",
}
_NO_LINE = "The recording has no stacks, so no line is known: these are the ops whose device work came late."

_MOST_ROWS = 2_000
"""How many rows the table has, the most time first."""

_OWN = "overhead"
"""The root cause of the recorder's own pauses."""


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address; ``rank``, ``step`` and ``cause`` limit it, ``by`` says what is added up.

    That is lines where the recording knows some, else ops.
    """
    ranks, step = chosen_ranks(served, query), chosen_step(served, query)
    cause = query.get("cause") if query.get("cause") in CAUSES else None
    by, note = query.get("by", ""), ""
    if by not in _WAYS:
        lines = _groups(served, "line", ranks, step)
        by = "op" if len(lines) and lines["file"].isna().all() else "line"
        note = _NO_LINE if by == "op" else ""
    frame = _groups(served, "line", ranks, step) if by == "line" else _by_work(served, by, ranks, step)
    rows = _rows(frame, cause)
    chosen = [html.Span([swatch(cause), ": ", CAUSES[cause], " "])] if cause else []
    every = (
        [dcc.Link("all causes", href=address("stalls", query, by=query.get("by")), className="chip")] if cause else []
    )
    return html.Div(
        [
            html.Div(html.H1("Why the devices waited"), className="verdict"),
            html.Div([_causes(served, query, ranks, step)], className="columns one"),
            section(
                f"By root cause and {by}",
                html.Div([*chosen, *every, ways_to_group("stalls", query, _WAYS, by, cause=cause)], className="chips"),
                grid("stall-grid", [*_FIRST, *_LAST[by]], rows, height="max(200px, calc(100vh - 510px))"),
                note=f"Choose a row to open its longest stall on the timeline. {note or _NOTES[by]}",
            ),
        ],
        className="page",
    )


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Opens the timeline at the longest stall of the row that was chosen."""
    open_chosen_row(app, recordings, "stall-grid", "stall", _longest)


def _longest(served: Served, query: Query, row: Row) -> int | None:
    if row.get("longest") is not None:
        return int(row["longest"])
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


def _by_work(served: Served, by: str, ranks: tuple[int, ...], step: int | None) -> pd.DataFrame:
    work: Work = "op" if by == "op" else "step"
    with served.lock:
        return stalls_by_work(served.recording, by=work, ranks=ranks, step=step)


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
            dcc.Link(
                swatch(row["root_cause"]), href=address("stalls", query, cause=row["root_cause"], by=query.get("by"))
            ),
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


def _rows(frame: pd.DataFrame, cause: str | None) -> list[dict[str, Any]]:
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
        }
        | (_line_cells(row) if "file" in row else _work_cells(row))
        for row in _own_pauses_last(frame).head(_MOST_ROWS).to_dict("records")
    ]


def _line_cells(row: dict[Any, Any]) -> dict[str, Any]:
    return {
        "file": "" if pd.isna(row["file"]) else row["file"],
        "line": 0 if pd.isna(row["line"]) else int(row["line"]),
        "place": place(row["file"], row["line"], row["function"], row["line_source"]),
    }


def _work_cells(row: dict[Any, Any]) -> dict[str, Any]:
    longest = {"longest": int(row["longest"])}
    if "op" in row:
        name = row["op"] or ABSENT
        return longest | {"op": short_name(name) or name, "whole": name, "within": row["within"] or ABSENT}
    return longest | {"step": None if pd.isna(row["step"]) else int(row["step"])}
