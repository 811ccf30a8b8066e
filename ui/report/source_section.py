"""The user's files as they were recorded, with what each line costs: only in a report that was asked for it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analysis.slice_facts import all_stalls
from ...analysis.source_lines import source_lines
from ..served import Served
from ..wording import duration
from .markup import Markup, element, section

_COSTS = ("host_ns", "device_ns", "stall_ns")
_MOST_FILES, _MOST_LINES = 20, 3000


def source_section(served: Served, rank: int) -> Markup:
    """The files that cost time, those first that cost most; says so where no text was recorded."""
    table = served.recording.table("sources", columns=["path", "text"]).to_pylist()
    texts = {row["path"]: row["text"] for row in table if row["text"]}
    everything = (served.extent[0], served.extent[1] + 1)
    stalls = all_stalls(served.recording, rank)
    frame = source_lines(served.recording, rank=rank, window=everything, stalls=stalls)
    known = frame[frame["file"].isin(list(texts))]
    if not len(known):
        words = "The recording does not hold the text of any file that costs time."
        return section("Source", element("p", words, class_="note"))
    cost = known.groupby("file", sort=False, observed=True)[list(_COSTS)].sum(min_count=1).fillna(0).sum(axis=1)
    files = [str(file) for file in cost.sort_values(ascending=False).head(_MOST_FILES).index]
    return section("Source", [_file(file, texts[file], known[known["file"] == file]) for file in files])


def _file(file: str, text: str, lines: pd.DataFrame) -> list[Markup]:
    costs: dict[int, dict[str, Any]] = {
        int(row["line"]): {str(name): value for name, value in row.items()}
        for row in lines[lines["line"].notna()].to_dict("records")
    }
    rows = [
        element(
            "tr",
            [element("td", _cost(costs.get(number), cost), class_="number") for cost in _COSTS],
            element("td", number, class_="number dim"),
            element("td", words, class_="words mono"),
        )
        for number, words in enumerate(text.splitlines()[:_MOST_LINES], 1)
    ]
    head = element("tr", [element("th", name, class_="number") for name in ("host", "device", "stall", "line")])
    return [element("h3", file, class_="mono"), element("table", head, rows, class_="source")]


def _cost(row: dict[str, Any] | None, cost: str) -> str:
    return duration(row[cost]) if row and not pd.isna(row[cost]) and row[cost] else ""
