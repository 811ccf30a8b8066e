"""Source: what each line costs on the host, on the device beneath it, and in stalls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
from dash import dcc, html

from ...analysis.executing_lines import executing_lines
from ...analysis.slice_facts import all_stalls, longest_stall
from ...analysis.source_lines import source_lines
from ...analysis.stalls import stalls
from ...analysis.timeline import memoized
from ..addresses import address
from ..scope import Query, chosen_rank, chosen_step
from ..served import Served
from ..wording import duration, editor_address
from .parts import one_rank_only, records, section, table

_COSTS = ("host_ns", "device_ns", "stall_ns")
_MOST_FILES = 200
_MOST_LINES = 5000
_LONGEST_PATH = 32


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``rank`` (the first by default), ``step``, ``file`` and ``line``."""
    rank, step = chosen_rank(served, query), chosen_step(served, query)
    frame = _lines(served, rank, step)
    known = frame[frame["file"].notna()]
    named = served.rank_of(query.get("rank")) is not None and len(served.recording.ranks) > 1
    words = "What each line costs" + (f", rank {rank}" if named else "")
    title = html.H1(words if step is None else f"{words}, step {step}")
    head = html.Div([title, *one_rank_only(served, query)], className="verdict")
    if not len(known):
        return html.Div([head, _no_lines(query)], className="page")
    files = known.groupby("file", sort=False, observed=True)[list(_COSTS)].sum(min_count=1).fillna(0)
    files = files.assign(cost=files.sum(axis=1)).sort_values("cost", ascending=False)
    asked = executing_lines(served.recording, rank).path(query.get("file", ""))
    chosen = asked if asked in files.index else str(files.index[0])
    unknown = frame[frame["file"].isna()]
    return html.Div(
        [
            head,
            html.Div(
                [_files(files, chosen, rank, query, unknown), _file(served, rank, known, chosen, query)],
                className="columns narrow-first",
            ),
        ],
        className="page",
    )


def _no_lines(query: Query) -> html.Section:
    """What to do about it, and where the same is shown by op."""
    words = (
        "The recording has no stacks, so no line is known. Record with stallscope, or with torch.profiler and "
        "with_stack=True, to see lines. Until then:"
    )
    links = [
        dcc.Link("Stalls by op", href=address("stalls", query, by="op"), className="chip"),
        dcc.Link("Time by call", href=address("hierarchy", query), className="chip"),
        dcc.Link("Ops", href=address("ops", query), className="chip"),
    ]
    return section("No lines", html.P(words, className="note"), html.Div(links, className="chips"))


def _lines(served: Served, rank: int, step: int | None) -> pd.DataFrame:
    def build() -> pd.DataFrame:
        if step is not None:
            of_step = stalls(served.recording, ranks=(rank,), step=step)
            return source_lines(served.recording, rank=rank, step=step, stalls=of_step)
        everything = (served.extent[0], served.extent[1] + 1)
        found = all_stalls(served.recording, rank)
        return source_lines(served.recording, rank=rank, window=everything, stalls=found)

    with served.lock:
        return memoized(served.recording, ("ui_lines", rank, step), build)


def _files(files: pd.DataFrame, chosen: str, rank: int, query: Query, unknown: pd.DataFrame) -> html.Section:
    rows: list[list[Any]] = [
        [
            dcc.Link(
                _tail(str(file)),
                title=str(file),
                href=address("source", query, rank=rank, file=file),
                className="mono chosen" if file == chosen else "mono",
            ),
            *(duration(row[cost]) for cost in _COSTS),
        ]
        for file, row in files[(files["cost"] > 0) | (files.index == chosen)].head(_MOST_FILES).iterrows()
    ]
    if len(unknown):
        rows.append(["no line known", *(duration(unknown[cost].sum()) for cost in _COSTS)])
    return section(
        "Files", html.Div(table(["file", "host", "device", "stall"], rows, numbers=(1, 2, 3)), className="scroll")
    )


def _tail(path: str) -> str:
    """The end of a path, which tells files apart; whole where it is short."""
    parts = path.split("/")
    return path if len(path) <= _LONGEST_PATH else "…/" + "/".join(parts[-3:])


def _file(served: Served, rank: int, frame: pd.DataFrame, file: str, query: Query) -> html.Section:
    lines = frame[frame["file"] == file]
    text = _text(served, file)
    costs = {int(row["line"]): row for row in records(lines[lines["line"].notna()])}
    most = {cost: max((_number(row[cost]) for row in costs.values()), default=0) for cost in _COSTS}
    if text is None:
        numbers: list[int] = sorted(costs)
        note = (
            "The recording does not hold this file’s text, so only the lines with a cost are shown, by their function."
        )
        shown = {number: f"in {costs[number]['function']}" for number in numbers}
    else:
        shown = dict(enumerate(text.splitlines()[:_MOST_LINES], 1))
        note = "The text is the one that was recorded."
    whole = "Time that no line is known for stands at the def of its function." if _by_function(lines) else ""
    wanted = int(query["line"]) if query.get("line", "").isdecimal() else None
    costliest = max(costs, key=lambda number: sum(_number(costs[number][cost]) for cost in _COSTS), default=None)
    marks = {costliest: "costliest"} | {wanted: "wanted"}
    rows = [
        _line(number, words, costs.get(number), most, marks.get(number, ""), served, rank, file, query)
        for number, words in shown.items()
    ]
    # The page brings the line that is marked into sight (``find_line`` in ui/assets/stallscope_page.js).
    head = html.Tr([html.Th(name, className="number") for name in ("host", "device", "stall", "line")] + [html.Th("")])
    body = html.Table([html.Thead(head), html.Tbody(rows)], className="code")
    return section(file, html.Div(body, className="scroll"), note=f"{note} {whole}".strip())


def _line(
    number: int,
    words: str,
    row: dict[str, Any] | None,
    most: Mapping[str, int],
    mark: str,
    served: Served,
    rank: int,
    file: str,
    query: Query,
) -> html.Tr:
    cells = []
    for cost in _COSTS:
        value = _number(row[cost]) if row else 0
        heat = (
            f"color-mix(in srgb, var(--heat) {round(70 * value / most[cost])}%, transparent)"
            if value
            else "transparent"
        )
        content: Any = duration(value) if value else ""
        if cost == "stall_ns" and value:
            content = dcc.Link(content, href=address("timeline", query, line=f"{rank}:{number}:{file}"))
        cells.append(html.Td(content, className="number", style={"background": heat}))
    opener = editor_address(file, number) if row else None
    label: Any = html.A(str(number), href=opener) if opener else str(number)
    return html.Tr(
        [*cells, html.Td(label, className="number dim"), html.Td(words, className="words")],
        className=mark,
        id=f"line-{number}",
    )


def longest_stall_of_line(served: Served, wanted: str) -> int | None:
    """The longest stall of ``rank:line:file``; None where the line has none."""
    rank_text, _, rest = wanted.partition(":")
    line_text, _, file = rest.partition(":")
    rank = served.rank_of(rank_text)
    if rank is None or not line_text.isdecimal():
        return None
    with served.lock:
        return longest_stall(served.recording, rank, place=(file, int(line_text)), state="stall")


def _text(served: Served, file: str) -> str | None:
    rows = served.recording.table("sources", columns=["path", "text"]).to_pylist()
    return next((row["text"] for row in rows if row["path"] == file and row["text"]), None)


def _by_function(lines: pd.DataFrame) -> bool:
    return bool((lines["line_source"] == "function").any())


def _number(value: Any) -> int:
    return 0 if pd.isna(value) else int(value)
