"""Why the devices waited: by root cause, and by line."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analysis.causes import CAUSES
from ...analysis.stall_groups import stall_groups
from ...analysis.timeline import memoized
from ..served import Served
from ..wording import duration, place, share
from .markup import Markup, element, section, table
from .overview_sections import swatch

_MOST_LINES = 25


def by_cause(served: Served) -> Markup:
    """The time without work, and of exposed copies, by root cause over all ranks."""
    frame = memoized(served.recording, ("ui_stalls", "root_cause"), lambda: stall_groups(served.recording))
    if not len(frame):
        return section("Why the devices waited", element("p", "They were never without work.", class_="note"))
    sums = frame.groupby(["state", "root_cause"], sort=False, observed=True)[["dur", "count"]].sum().reset_index()
    sums = sums.sort_values("dur", ascending=False)
    whole = int(sums["dur"].sum())
    rows = [
        [
            swatch(row["root_cause"]),
            _state(row["state"]),
            duration(row["dur"]),
            share(row["dur"] / max(whole, 1)),
            f"{row['count']:,}",
            CAUSES.get(row["root_cause"], ""),
        ]
        for row in sums.to_dict("records")
    ]
    of = "of all ranks together" if frame["rank"].nunique() > 1 else f"of rank {frame['rank'].iloc[0]}"
    return section(
        "Why the devices waited",
        table(["root cause", "", "time", "share", "times", "what it means"], rows, numbers=(2, 3, 4)),
        note=f"{duration(whole)} without computation or communication, {of}.",
    )


def by_line(served: Served) -> Markup | None:
    """The lines of source with most of it; None where there are no stalls."""
    frame = memoized(served.recording, ("ui_stalls", "line"), lambda: stall_groups(served.recording, by="line"))
    if not len(frame):
        return None
    frame = frame.sort_values("dur", ascending=False)
    rows = [
        [
            row["rank"],
            swatch(row["root_cause"]),
            _state(row["state"]),
            duration(row["dur"]),
            f"{row['count']:,}",
            duration(row["longest_ns"]),
            element("span", place(row["file"], row["line"], row["function"], row["line_source"]), class_="mono"),
        ]
        for row in _records(frame.head(_MOST_LINES))
    ]
    more = f"The {_MOST_LINES} longest of {len(frame)}. " if len(frame) > _MOST_LINES else ""
    head = ["rank", "root cause", "", "time", "times", "longest", "line"]
    note = f"{more}“in f (file:line)” is the line of the function’s def: the recording does not say which line ran."
    return section("By root cause and line", table(head, rows, numbers=(0, 3, 4, 5)), note=note)


def _state(state: str) -> str:
    return "exposed copy" if state == "data_movement" else "stall"


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
