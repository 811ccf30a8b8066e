"""What was picked on the timeline: fields, stack and arguments of a slice; cause, line and evidence of a stall."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dash import dcc, html

from ...analysis.arrivals import arrivals
from ...analysis.causes import CAUSES
from ...analysis.slice_facts import SliceFacts, slice_facts, stall_facts, stalls_resting_on
from ...analysis.slice_search import entry_of_slice
from ...analysis.source_position import SourceLine
from ..addresses import address
from ..served import Served
from ..wording import duration, editor_address, place, size
from .counter_details import counter_details
from .parts import facts, swatch, table

Query = Mapping[str, str]


def nothing_picked(served: Served) -> list[Any]:
    """What the pane says while nothing is picked: what to do, and what the colours of the state bands mean."""
    legend = [html.Span(swatch(code), title=CAUSES.get(code, "")) for code in served.band_codes]
    return [
        html.H2("Slice"),
        html.P("Click a slice, or a piece of a state band, to see everything about it.", className="note"),
        *([html.H3("State bands: what a device did, or what it waited for")] if legend else []),
        html.Div(legend, className="legend"),
        html.P("Hatched: something was lost there, or the recorder paused; the Overview says what.", className="note"),
    ]


def details_of(served: Served, picked: dict[str, Any], query: Query) -> list[Any]:
    """What the pane says of a picked slice or piece of a band, as the route ``slice`` described it.

    Args:
        served: The recording.
        picked: The answer of the route; or the number of a counter and a moment.
        query: The query of the page's address, which links stand on.
    """
    if picked.get("counter") is not None:
        return counter_details(served, picked, query) or nothing_picked(served)
    rank = served.rank_of(picked.get("rank"))
    if rank is None:
        return nothing_picked(served)
    with served.lock:
        if picked.get("band"):
            return _stall_details(served, picked, rank, query)
        return _slice_details(served, picked, rank, query)


def _slice_details(served: Served, picked: dict[str, Any], rank: int, query: Query) -> list[Any]:
    slice_id, ts = int(picked["slice_id"]), int(picked["start"]) + served.origin
    known = slice_facts(served.recording, rank, slice_id, ts)
    if known is None:
        return nothing_picked(served)
    fields = known.fields
    words: list[tuple[str, Any]] = [
        ("length", duration(fields.get("dur"))),
        ("starts at", duration(picked["start"])),
        ("category", fields["category"]),
        *((name.replace("_", " "), _field(name, value)) for name, value in fields.items() if name not in _SAID),
    ]
    stalls = stalls_resting_on(served.recording, rank, slice_id)
    chain = dcc.Link("Dependencies", href=address("dependencies", query, slice=slice_id), className="chip")
    parts: list[Any] = [html.H2(fields["name"], className="mono"), html.P(chain)]
    for row in stalls.head(3).to_dict("records"):
        entry = served.bands.entry_of_stall(int(row["stall_id"]))
        if entry is not None:
            words_of_stall = f"{row['root_cause'].replace('_', ' ')}, {duration(row['dur'])}"
            parts.append(_jump(f"Stall: {words_of_stall}", entry, band=True))
    if fields["category"] == "collective":
        parts += _ranks(served, slice_id, rank)
    parts.append(facts(words))
    parts += _arrows(served, known, slice_id)
    return [*parts, *_stack(known.stack, rank, query), *_arguments(fields.get("args"))]


def _ranks(served: Served, slice_id: int, rank: int) -> list[Any]:
    """Which rank came when to the collective that a slice is part of; nothing where there is only one."""
    found = arrivals(served.recording, slice_id)
    if len(found) < 2:
        return []
    rows = []
    for one in found:
        entry = entry_of_slice(served.index, one.slice_id)
        label = f"rank {one.rank}" + (" (this one)" if one.rank == rank else "")
        place = label if entry is None else _jump(label, entry, band=False, stay=True)
        rows.append([place, duration(one.wait_ns), "arrived last" if one.is_last else one.withheld])
    return [html.H3("Waited for the last rank in this collective"), table(["", "waited", ""], rows, numbers=(1,))]


_MOST_ARROWS = 8

_ARROW_WORDS = {
    ("launch", True): "launched",
    ("launch", False): "launched by",
    ("forward_backward", True): "its backward op",
    ("forward_backward", False): "its forward op",
    ("collective", True): "on another rank",
}
"""What the other end of an arrow is to the slice at its beginning (True) or end (False); else the arrow's kind."""


def _arrows(served: Served, known: SliceFacts, slice_id: int) -> list[Any]:
    """What the slice's arrows lead to and come from, to go to."""
    jumps = []
    for arrow in known.arrows[:_MOST_ARROWS]:
        begins = arrow.from_slice_id == slice_id
        entry = entry_of_slice(served.index, arrow.to_slice_id if begins else arrow.from_slice_id)
        if entry is not None:
            words = _ARROW_WORDS.get(
                (arrow.kind, begins), f"{'to' if begins else 'from'}, {arrow.kind.replace('_', ' ')}"
            )
            name = served.index.names[int(served.index.name[entry])]
            jumps.append(_jump(f"{words}: {name[:90]}", entry, band=False))
    if not jumps:
        return []
    more = f" of {known.arrow_count}" if known.arrow_count > len(jumps) else ""
    return [html.H3(f"Arrows: {len(jumps)}{more}; [ and ] follow them"), html.Div(jumps, className="jumps")]


_SAID = frozenset({"name", "dur", "ts", "category", "args", "track_id", "kind", "lane", "depth", "segment_id"})


def _field(name: str, value: Any) -> str:
    return size(value) if name == "bytes" else str(value)


def _stack(stack: Sequence[SourceLine], rank: int, query: Query) -> list[Any]:
    if not stack:
        return []
    rows = []
    for frame in reversed(stack):
        target = address("source", query, rank=rank, file=frame.file, line=frame.line)
        opener = editor_address(frame.file, frame.line)
        edit = [html.A("open", href=opener, className="dim")] if opener else []
        words = f"{frame.function or '?'}  {frame.file}:{frame.line}"
        rows.append(
            html.Li(
                [dcc.Link(words, href=target) if frame.origin == "user" else words, " ", *edit],
                className=f"mono {frame.origin}",
            )
        )
    return [html.H3("Stack, innermost first"), html.Ol(rows, className="stack")]


def _arguments(text: str | None) -> list[Any]:
    return [html.H3("Arguments"), html.Pre(text[:4000], className="arguments")] if text else []


def _stall_details(served: Served, picked: dict[str, Any], rank: int, query: Query) -> list[Any]:
    length = ("length", duration(picked["end"] - picked["start"]))
    if picked.get("stall_id") is None:
        return [html.H2(picked["name"]), facts([length, ("rank", rank)])]
    row = stall_facts(served.recording, rank, int(picked["stall_id"]))
    if row is None:
        return [html.H2(picked["name"]), facts([length])]
    where = place(row.get("file"), row.get("line"), row.get("function"), row.get("line_source"))
    line: Any = html.Code(where)
    if row.get("file"):
        line = dcc.Link(
            line, href=address("source", query, rank=rank, file=row["file"], line=int(row.get("line") or 1))
        )
    words: list[tuple[str, Any]] = [
        ("length", duration(row["dur"])),
        ("root cause", html.Span([swatch(row["root_cause"]), f": {CAUSES.get(row['root_cause'], '')}"])),
        ("meanwhile", html.Span([swatch(row["cause"]), f": {CAUSES.get(row['cause'], '')}"])),
        ("line", line),
        ("confidence", row["confidence"]),
    ]
    if row.get("step") is not None:
        words.append(("step", int(row["step"])))
    if row.get("co_cause"):
        words.append(("second cause", str(row["co_cause"]).replace("_", " ")))
    if row.get("peer_rank") is not None:
        words.append(("waited for", f"rank {int(row['peer_rank'])}"))
    if row.get("reason"):
        words.append(("reason", row["reason"]))
    title = "Exposed copy" if row["state"] == "data_movement" else "Stall"
    return [html.H2(f"{title}: {row['root_cause'].replace('_', ' ')}"), facts(words), *_evidence(served, row)]


def _evidence(served: Served, row: dict[str, Any]) -> list[Any]:
    roles = {row.get("root_slice_id"): "root", row.get("host_slice_id"): "host", row.get("ended_by"): "ended by"}
    jumps = []
    for slice_id in row["evidence"]:
        entry = entry_of_slice(served.index, int(slice_id))
        if entry is not None:
            name = served.index.names[int(served.index.name[entry])]
            jumps.append(_jump(f"{roles.get(slice_id, 'launch')}: {name[:90]}", entry, band=False))
    return [html.H3("Rests on"), html.Div(jumps, className="jumps")] if jumps else []


def _jump(label: str, entry: int, *, band: bool, stay: bool = False) -> html.Button:
    """A button that picks an entry of the tile index or of the bands; ``stay``: without zooming in on it."""
    return html.Button(label, id={"jump": entry, "band": int(band), "stay": int(stay)}, className="button jump")
