"""What lies in a marked area of the timeline: time by name, with the spread of the single values.

A slice belongs to the area where it overlaps it, and counts with its own whole length; ``inside_ns`` is how much of it
lies in the area. Pieces of a device's band count with what lies inside only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import pandas as pd

from .columns import texts
from .device_bands import BAND_CODES, DeviceBands
from .group_statistics import group_statistics, group_sum
from .tile_index import TileIndex
from .timeline import CATEGORY_CODE, Ints


def entries_within(index: TileIndex, tracks: Sequence[int], start: int, end: int) -> Ints:
    """The entries of some tracks that overlap ``[start, end)``; an instant belongs to it where it lies inside.

    Raises:
        ValueError: The index has no such track.
    """
    found = [np.zeros(0, dtype=np.int64)]
    for number in tracks:
        if not 0 <= number < len(index.tracks):
            raise ValueError(f"there is no track {number}")
        track = index.tracks[number]
        for row in range(track.first_row, track.first_row + track.rows):
            first, last = int(index.row_start[row]), int(index.row_start[row + 1])
            low = first + int(np.searchsorted(index.start[first:last], start))
            high = first + int(np.searchsorted(index.start[first:last], end))
            # Slices of a row do not overlap, so at most one that began before the area reaches into it.
            low -= int(low > first and index.end[low - 1] > start)
            found.append(np.arange(low, high, dtype=np.int64))
    return np.concatenate(found)


def area_statistics(
    index: TileIndex, tracks: Sequence[int], start: int, end: int, *, by: Literal["name", "category"] = "name"
) -> pd.DataFrame:
    """The slices of an area by name, or by category.

    Args:
        index: The index of the recording.
        tracks: Numbers of tracks in ``index.tracks``.
        start: Where the area begins, ns.
        end: Where it ends, ns.
        by: What makes a row: a name with its category, or a category alone.

    Returns:
        One row per name and category, the most time inside first: name ("" by category), category, count, total_ns (of
        whole slices), inside_ns, mean_ns (float), p50_ns, p99_ns, min_ns, max_ns, longest (the entry of the longest
        slice).
    """
    entries = entries_within(index, tracks, start, end)
    categories = list(CATEGORY_CODE)
    starts, ends = np.asarray(index.start[entries]), np.asarray(index.end[entries])
    name = index.name[entries].astype(np.int64) if by == "name" else np.zeros(len(entries), dtype=np.int64)
    key = name * len(categories) + index.category[entries]
    groups, group = np.unique(key, return_inverse=True)
    dur = ends - starts
    inside = np.minimum(ends, end) - np.maximum(starts, start)
    statistics = group_statistics(group, dur, len(groups))
    order = np.lexsort((-dur, group))
    longest = entries[order][np.searchsorted(group[order], np.arange(len(groups)))]
    codes = (groups // len(categories)).tolist()
    frame = pd.DataFrame(
        {
            "name": [index.names[code] if by == "name" else "" for code in codes],
            "category": texts(categories, groups % len(categories)),
            "count": statistics.count,
            "total_ns": statistics.total,
            "inside_ns": group_sum(group, np.maximum(inside, 0), len(groups)),
            "mean_ns": statistics.mean,
            "p50_ns": statistics.p50,
            "p99_ns": statistics.p99,
            "min_ns": statistics.low,
            "max_ns": statistics.high,
            "longest": longest,
        }
    )
    return frame.sort_values("inside_ns", ascending=False, kind="stable", ignore_index=True)


def area_histogram(index: TileIndex, tracks: Sequence[int], start: int, end: int) -> pd.DataFrame:
    """How many slices of an area are how long.

    Args:
        index: The index of the recording.
        tracks: Numbers of tracks in ``index.tracks``.
        start: Where the area begins, ns.
        end: Where it ends, ns.

    Returns:
        One row per doubling of the length, from that of the shortest slice to that of the longest, empty ones between
        them included: low_ns (from), high_ns (to, exclusive), count, total_ns (of whole slices). Slices without length
        are the row from 0 to 1.
    """
    entries = entries_within(index, tracks, start, end)
    dur = np.asarray(index.end[entries]) - np.asarray(index.start[entries])
    # A length's number of binary digits: exact, where a logarithm would round at the powers of two.
    octave = np.frexp(dur.astype(np.float64))[1].astype(np.int64)
    octave -= (np.left_shift(1, np.maximum(octave - 1, 0)) > dur) & (dur > 0)
    first, last = (int(octave.min()), int(octave.max())) if len(octave) else (0, -1)
    size = last - first + 1
    numbers = np.arange(first, last + 1)
    return pd.DataFrame(
        {
            "low_ns": np.where(numbers > 0, np.left_shift(1, np.maximum(numbers - 1, 0)), 0),
            "high_ns": np.left_shift(1, numbers),
            "count": np.bincount(octave - first, minlength=size)[:size] if size else np.zeros(0, dtype=np.int64),
            "total_ns": group_sum(octave - first, dur, size),
        }
    )


def area_states(bands: DeviceBands, start: int, end: int, tracks: Sequence[int] | None = None) -> pd.DataFrame:
    """The states of the devices in an area.

    Args:
        bands: The bands.
        start: Where the area begins, ns.
        end: Where it ends, ns.
        tracks: Which bands; all if None.

    Returns:
        One row per state or root cause that occurs (``BAND_CODES``), the most time first: state, count, inside_ns.
    """
    index = bands.index
    entries = entries_within(index, range(len(index.tracks)) if tracks is None else tracks, start, end)
    group = index.category[entries].astype(np.int64)
    inside = np.minimum(index.end[entries], end) - np.maximum(index.start[entries], start)
    sums = group_sum(group, inside, len(BAND_CODES))
    count = np.bincount(group, minlength=len(BAND_CODES))
    frame = pd.DataFrame({"state": list(BAND_CODES), "count": count, "inside_ns": sums})
    return frame[frame["count"] > 0].sort_values("inside_ns", ascending=False, kind="stable", ignore_index=True)
