"""What the timeline shows before any slice: the tree of ranks, devices and threads, steps, counters, and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..analysis.causes import CAUSE_NAMES
from ..analysis.counter_bins import CounterSeries
from ..analysis.device_bands import BAND_CODES, BandTrack
from ..analysis.steps import StepCut
from ..profiler.recording.categories import CATEGORIES
from .timeline_tracks import TimelineTracks

Node = dict[str, Any]

OPEN_RANKS = 2
"""Of more ranks than this the host's threads are closed at first."""


_MOST_OVERVIEW = 8
"""Of how many devices the strip above the timeline shows the states."""


def timeline_meta(tracks: TimelineTracks, rank: int | None = None) -> dict[str, Any]:
    """The answer to ``meta``.

    It has span (ns), origin, tree, categories, bands, bandLabels, overview, steps, losses and firstCounter. With a rank
    the tree, steps and overview are those of that rank alone; the numbers of tracks stay the same. Times are ns from
    the start of the recording, which ``origin`` gives in digits: ns on its clock. ui/timeline/src/rows.js says what a
    node of the tree is.
    """
    served = tracks.served
    steps: dict[str, list[dict[str, Any]]] = {}
    with served.lock:
        tree = [_rank(tracks, one, steps) for one in served.recording.ranks if rank in (None, one)]
        losses = _losses(tracks)
    if rank is not None:
        for node in (child for one in tree for child in one["children"]):
            node.pop("collapsed", None)
    bands = [number for number, band in enumerate(served.bands.devices) if rank in (None, band.rank)]
    return {
        "span": served.extent[1] - served.extent[0],
        "origin": str(served.origin),
        "tree": tree,
        "categories": list(CATEGORIES),
        "bands": list(BAND_CODES),
        "bandLabels": [band_label(code) for code in BAND_CODES],
        "overview": [tracks.first_band + number for number in bands[:_MOST_OVERVIEW]],
        "steps": steps,
        "losses": losses,
        "firstCounter": tracks.first_counter,
    }


def band_label(code: str) -> str:
    """What a piece of a band is called: the state, or what a stall waited for."""
    words = code.replace("_", " ")
    return f"{words} stall" if code in CAUSE_NAMES else words


def device_label(device_type: str, device_index: int | None) -> str:
    """``cuda:0``; threads in a device's place are ``training threads``."""
    if device_index is None:
        return "training threads" if device_type == "cpu" else device_type
    return f"{device_type or 'device'}:{device_index}"


def counter_label(series: CounterSeries) -> str:
    """The counter's name, behind the device that it is about."""
    device = f"{device_label(series.device_type, series.device_index)} " if series.device_type else ""
    return device + series.name


def _rank(tracks: TimelineTracks, rank: int, steps: dict[str, list[dict[str, Any]]]) -> Node:
    served = tracks.served
    rows = served.recording.table("tracks", ranks=(rank,)).to_pylist()
    children: list[Node] = []
    outline = served.outline
    for number in outline.devices_of(rank):
        device = outline.bands.devices[number]
        key = f"rank{rank}/{device.device_type}{device.device_index}"
        children += _step_node(tracks, key, "steps on the device", outline.device_steps[number], steps)
        children.append(_device(tracks, number, device, key, rows))
    host = _host(tracks, rank, rows, steps)
    shown = {node["track"] for child in [*children, host] for node in child.get("children", []) if "track" in node}
    rest = [_track_node(tracks, row) for row in rows if tracks.number_of_track.get(row["track_id"], -1) not in shown]
    children += [node for node in rest if node is not None]
    children += [host, *_counters(tracks, rank)]
    status = served.status(rank)
    return {
        "key": f"rank{rank}",
        "label": f"rank {rank}",
        "detail": "" if status == "completed" else status,
        "kind": "group",
        "children": [child for child in children if child.get("children") != []],
    }


def _device(tracks: TimelineTracks, number: int, device: BandTrack, key: str, rows: list[dict[str, Any]]) -> Node:
    label = device_label(device.device_type, device.device_index)
    band = {
        "key": f"{key}/band",
        "label": "state",
        "detail": "",
        "kind": "band",
        "track": tracks.first_band + number,
        "rows": 1,
    }
    mine = [
        row
        for row in rows
        if row["kind"] in ("stream", "engine", "queue")
        and ((row["device_type"] or ""), (row["device_index"] or 0)) == (device.device_type, device.device_index)
    ]
    streams = [node for node in (_track_node(tracks, row) for row in mine) if node is not None]
    return {"key": key, "label": label, "detail": "", "kind": "group", "children": [band, *streams]}


def _host(
    tracks: TimelineTracks, rank: int, rows: list[dict[str, Any]], steps: dict[str, list[dict[str, Any]]]
) -> Node:
    threads = [node for row in rows if row["kind"] == "thread" for node in [_track_node(tracks, row)] if node]
    sizes = tracks.served.index.tracks
    threads.sort(key=lambda node: -sizes[node["track"]].slices)
    cut = tracks.served.outline.host_steps[rank]
    ruler = _step_node(tracks, f"rank{rank}/host", "steps on the host", cut, steps)
    return {
        "key": f"rank{rank}/host",
        "label": "host",
        "detail": f"{len(threads)} threads" if len(threads) > 1 else "",
        "kind": "group",
        "children": [*ruler, *threads],
        "collapsed": len(tracks.served.recording.ranks) > OPEN_RANKS,
    }


def _track_node(tracks: TimelineTracks, row: dict[str, Any]) -> Node | None:
    number = tracks.number_of_track.get(row["track_id"])
    if number is None:
        return None
    detail = row["thread_id"] if row["kind"] == "thread" else row["engine"]
    return {
        "key": f"track{row['track_id']}",
        "label": row["name"] or row["kind"],
        "kind": row["kind"],
        "detail": "" if detail is None or str(detail) in str(row["name"]) else str(detail),
        "track": number,
        "rows": tracks.served.index.tracks[number].rows,
    }


def _step_node(
    tracks: TimelineTracks, key: str, label: str, cut: StepCut, steps: dict[str, list[dict[str, Any]]]
) -> list[Node]:
    if not len(cut):
        return []
    origin = tracks.served.origin
    steps[key] = [
        {"number": number, "start": start - origin, "end": end - origin, "phase": phase}
        for number, start, end, phase in zip(
            cut.numbers.tolist(), cut.starts.tolist(), cut.ends.tolist(), cut.phases, strict=True
        )
    ]
    return [{"key": f"{key}/steps", "label": label, "detail": "", "kind": "steps", "steps": key}]


def _counters(tracks: TimelineTracks, rank: int) -> list[Node]:
    nodes = []
    for number, series in enumerate(tracks.counters):
        if series.rank == rank:
            least, greatest = float(np.nanmin(series.value)), float(np.nanmax(series.value))
            nodes.append(
                {
                    "key": f"counter{number}",
                    "label": counter_label(series),
                    "detail": series.unit,
                    "unit": series.unit,
                    "kind": "counter",
                    "track": tracks.first_counter + number,
                    "least": min(0.0, least),
                    "most": greatest,
                }
            )
    group = {"key": f"rank{rank}/counters", "label": "counters", "detail": "", "kind": "group", "children": nodes}
    return [group]


def _losses(tracks: TimelineTracks) -> list[dict[str, Any]]:
    origin = tracks.served.origin
    rows = tracks.served.recording.table("losses", columns=["ts", "dur", "track_id", "kind"]).to_pylist()
    return [
        {
            "start": row["ts"] - origin,
            "end": row["ts"] + (row["dur"] or 0) - origin,
            "kind": row["kind"],
            "track": tracks.number_of_track.get(row["track_id"]),
        }
        for row in rows
        if row["ts"] is not None
    ]
