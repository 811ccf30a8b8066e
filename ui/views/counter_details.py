"""What was picked on a counter of the timeline: its value at that moment, and the memory page of the same moment."""

from __future__ import annotations

from typing import Any

import numpy as np
from dash import dcc, html

from ...analysis.counter_bins import CounterSeries
from ...analysis.memory import memory_peaks
from ..addresses import address
from ..scope import Query
from ..served import Served
from ..timeline_meta import counter_label
from ..wording import duration, quantity
from .parts import facts


def counter_of(served: Served, number: Any) -> CounterSeries | None:
    """The counter with this number in the recording; None where there is none."""
    text = str(number)
    if not (text.isascii() and text.isdecimal() and len(text) < 9):
        return None
    known = served.tracks.counters
    return known[int(text)] if int(text) < len(known) else None


def counter_details(served: Served, picked: dict[str, Any], query: Query) -> list[Any]:
    """The pane for a moment on a counter.

    Args:
        served: The recording.
        picked: ``counter``, its number, and ``at``, ns from the start of the recording.
        query: The query of the page's address, which links stand on.
    """
    series = counter_of(served, picked.get("counter"))
    if series is None:
        return []
    at = int(picked["at"])
    words = [
        ("value", quantity(series.value_at(at + served.origin), series.unit)),
        ("at", duration(at)),
        ("least, most", f"{_shown(series, np.nanmin)}, {_shown(series, np.nanmax)}"),
        ("rank", series.rank),
    ]
    links = [html.P(_memory_link(served, series, at, query))] if series.is_memory else []
    return [html.H2(counter_label(series)), *links, facts(words)]


def _shown(series: CounterSeries, pick: Any) -> str:
    return quantity(pick(series.value), series.unit)


def _memory_link(served: Served, series: CounterSeries, at: int, query: Query) -> dcc.Link:
    """To the memory page at the same moment, of the same device where it knows that."""
    with served.lock:
        known = [(one.device_type, one.device_index) for one in memory_peaks(served.recording, rank=series.rank)]
    device = (series.device_type or "cpu", series.device_index)
    number = known.index(device) if device in known else None
    target = address("memory", query, rank=series.rank, step=None, at=at, device=number)
    return dcc.Link("Who holds memory at this moment", href=target, className="chip")
