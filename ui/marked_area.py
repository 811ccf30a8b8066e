"""The marked area of an address: ``area=START-END`` (ns from the start) on ``tracks=0-3.7`` (by their numbers)."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .scope import Query

_SPAN = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)
_TRACKS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def marked_area(query: Query, span: int, tracks: int) -> dict[str, Any] | None:
    """The area that an address names, as the timeline takes it; None for none, or for what is written wrongly.

    Args:
        query: The address's query.
        span: The recording's length, ns: an area lies inside.
        tracks: How many tracks the recording has, bands and counters included.

    Returns:
        {start, end, tracks}: ns from the start, half open; the numbers of the tracks, rising.
    """
    times = _SPAN.fullmatch(query.get("area", ""))
    ranges = [_TRACKS.fullmatch(part) for part in query.get("tracks", "").split(".")]
    if times is None or not all(ranges):
        return None
    start, end = int(times[1]), min(int(times[2]), span)
    named = np.zeros(tracks, dtype=np.bool_)
    for first, last in (found.groups() for found in ranges if found):
        named[int(first) : int(last or first) + 1] = True
    numbers: list[int] = np.flatnonzero(named).tolist()
    return {"start": start, "end": end, "tracks": numbers} if start < end and numbers else None
