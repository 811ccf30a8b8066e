"""What to do, where the time goes, what was run, and what is missing of it."""

from __future__ import annotations

from typing import Any

import pandas as pd

from ...analysis.findings import Finding, Findings
from ...analysis.step_breakdown import STATE_COLUMNS
from ..colours import BAND_COLOURS
from ..served import Served
from ..timeline_meta import device_label
from ..wording import ABSENT, duration, place, share
from .markup import Markup, element, section, table

_STATES = tuple(column.removesuffix("_ns") for column in STATE_COLUMNS)
_MOST_RANKS, _MOST_STEPS, _MOST_LOSSES = 64, 24, 100


def findings_section(found: Findings) -> Markup:
    """The findings, the most time first."""
    cards = [_card(number, finding) for number, finding in enumerate(found.findings, 1)]
    empty = element("p", "No finding would give back 2 % of the step.", class_="note") if not cards else None
    cold = [
        element(
            "p",
            element("b", "Cold start. "),
            f"Rank {one.rank}: {one.steps} first steps took {duration(one.total_ns)} to prepare"
            + (f"; a steady step takes {duration(one.steady_step_ns)}." if one.steady_step_ns is not None else "."),
            class_="note",
        )
        for one in found.cold_starts[:8]
    ]
    return section("What to do", element("ol", cards) if cards else None, empty, cold)


def states_section(served: Served, focus: int) -> Markup:
    """The states of every device, and of the steps of one rank."""
    frame = served.breakdown
    head = ["", "device", "", "time", *(swatch(state) for state in _STATES)]
    numbers = tuple(range(3, 3 + 1 + len(_STATES)))
    whole = frame[frame["step"].isna() & (frame["device_type"] != "all")]
    steps = frame[frame["step"].notna() & (frame["rank"] == focus)]
    left = f" The first {_MOST_RANKS} of {len(whole)} devices." if len(whole) > _MOST_RANKS else ""
    parts: list[Markup] = [table(head, [_states(row, f"rank {row['rank']}") for row in _rows(whole, _MOST_RANKS)],
                                 numbers=numbers)]  # fmt: skip
    if len(steps):
        of = f" of rank {focus}" if len(served.recording.ranks) > 1 else ""
        more = f", the first {_MOST_STEPS} of {len(steps)}" if len(steps) > _MOST_STEPS else ""
        rows = [_states(row, f"step {row['step']}") for row in _rows(steps, _MOST_STEPS)]
        parts += [element("h3", f"Step by step{of}{more}"), table(head, rows, numbers=numbers)]
    note = f"From a device’s first operation to its last; the four states add up to the time exactly.{left}"
    return section("Where the time goes", *parts, note=note)


def identity_section(served: Served) -> Markup:
    """What was run, as far as the recording says."""
    recording = served.recording
    statuses = pd.Series([served.status(rank) for rank in recording.ranks]).value_counts()
    pairs: list[tuple[str, str]] = [
        ("recording", served.label),
        ("status", ", ".join(f"{status} ({count})" for status, count in statuses.items())),
        ("ranks", f"{len(recording.ranks)} of {recording.info.get('world_size') or len(recording.ranks)}"),
        ("slices", f"{len(served.index):,}"),
        ("length", duration(served.extent[1] - served.extent[0])),
    ]
    pairs += [(str(name).replace("_", " "), _words(value)) for name, value in recording.identity.items() if value]
    listed = [element(tag, text) for pair in pairs for tag, text in zip(("dt", "dd"), pair, strict=True)]
    return section("Recording", element("dl", listed, class_="facts"))


def losses_section(served: Served) -> Markup:
    """What was lost, repaired or paused."""
    columns = ["rank", "severity", "kind", "count", "detail"]
    rows = served.recording.table("losses", columns=columns).to_pylist()
    if not rows:
        return section("What is missing", element("p", "Nothing was lost, repaired or paused.", class_="note"))
    order = {"data_loss": 0, "warning": 1, "info": 2}
    rows.sort(key=lambda row: order.get(row["severity"], 3))
    cells = [
        [ABSENT if row[name] is None else str(row[name]).replace("_", " ") if name in ("severity", "kind")
         else str(row[name]) for name in columns]
        for row in rows[:_MOST_LOSSES]
    ]  # fmt: skip
    more = f"The first {_MOST_LOSSES} of {len(rows)}, the worst first." if len(rows) > _MOST_LOSSES else ""
    return section(
        "What is missing", table(["rank", "severity", "kind", "count", ""], cells, numbers=(0, 3)), note=more
    )


def swatch(code: str) -> Markup:
    """The colour of a state or cause, with its name beside it."""
    colour = BAND_COLOURS.get(code, "#808488")
    mark = element("span", class_="swatch", style=f"background:{colour}")
    return element("span", mark, code.replace("_", " "))


def _card(number: int, finding: Finding) -> Markup:
    gain = f"{duration(finding.gives_back_ns)} of each {finding.per} · {share(finding.share_frac)}"
    where = place(finding.file, finding.line, finding.function, finding.line_source)
    return element(
        "li",
        element(
            "div",
            element("h3", f"{number}. {finding.title}"),
            element("span", gain, class_="gain") if finding.gives_back_ns else None,
            class_="apart",
        ),
        element("p", finding.evidence),
        element("p", element("span", "line ", class_="dim"), element("code", where)) if where != ABSENT else None,
        element("p", element("b", "Try: "), finding.advice),
        element("span", f"{finding.confidence} confidence", class_="dim"),
    )


def _states(row: dict[str, Any], name: str) -> list[Any]:
    shares = [row[column] / row["dur"] if row["dur"] else 0.0 for column in STATE_COLUMNS]
    bar = [
        element("div", style=f"width:{100 * part:.2f}%;background:{BAND_COLOURS[state]}")
        for part, state in zip(shares, _STATES, strict=True)
    ]
    index = None if pd.isna(row["device_index"]) else int(row["device_index"])
    label = device_label(row["device_type"], index)
    return [name, label, element("div", bar, class_="stack"), duration(row["dur"]), *(share(part) for part in shares)]


def _rows(frame: pd.DataFrame, most: int) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in frame.head(most).to_dict("records")]


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_words(part)}" for name, part in value.items() if part)[:400]
    if isinstance(value, list):
        return " ".join(_words(part) for part in value)[:400]
    return str(value)[:400]
