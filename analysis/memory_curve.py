"""What a device held over a stretch of time, in as few points as a picture of it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .columns import nullable_ints
from .memory import held_bytes, says_reserved
from .memory_blocks import memory_events
from .nesting import Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

BINS = 1200


def memory_curve(
    recording: Recording, *, rank: int, device: int, window: tuple[int, int] | None = None, bins: int = BINS
) -> pd.DataFrame:
    """The bytes that a device held over a window; drawn as steps, no pixel differs from a picture of every event.

    Of each of ``bins`` equal parts of the window only the first, last, least and greatest value are kept (the M4
    reduction of Jugel et al., 2014), so that no peak is lost.

    Args:
        recording: The recording.
        rank: The rank.
        device: The device's place in ``memory_peaks(recording, rank=rank)``.
        window: ``(start, end)`` in ns; from the first event to the last by default.
        bins: How many parts.

    Returns:
        At most ``4 * bins + 1`` rows by time: ts (ns), allocated_bytes and reserved_bytes (null: not in the trace) from
        then on. The first row is the window's start with what was held before it.
    """
    events, held = memory_events(recording, rank), held_bytes(recording, rank, device)
    stamps = events.ts[held.position]
    start, end = window or (int(stamps[0]), int(stamps[-1]) + 1)
    low, high = np.searchsorted(stamps, [start, end], side="left").tolist()
    chosen = low + _extremes((stamps[low:high] - start) * bins // max(end - start, 1), held.allocated[low:high])
    says = says_reserved(events)[held.position]
    reserved = np.where(says, events.reserved[held.position], 0)
    before = low - 1 if low else 0
    at = np.concatenate([[before], chosen]).astype(np.int64)
    allocated = held.allocated[at]
    allocated[0] = held.allocated[low - 1] if low else held.before
    known = says[at]
    known[0] &= low > 0
    ts = stamps[at]
    ts[0] = start
    return pd.DataFrame({"ts": ts, "allocated_bytes": allocated, "reserved_bytes": nullable_ints(reserved[at], known)})


def peak_within(recording: Recording, *, rank: int, device: int, window: tuple[int, int]) -> int:
    """When a device first held most within a window, ns; the window's start where nothing was allocated in it."""
    curve = memory_curve(recording, rank=rank, device=device, window=window, bins=1)
    return int(curve["ts"].to_numpy()[curve["allocated_bytes"].to_numpy().argmax()])


def _extremes(part: Ints, value: Ints) -> Ints:
    """The positions of the first, last, least and greatest value of each part; the parts rise."""
    if not len(part):
        return np.zeros(0, dtype=np.int64)
    starts = np.flatnonzero(np.diff(part, prepend=part[0] - 1))
    ends = np.append(starts[1:], len(part)) - 1
    up = np.lexsort((np.arange(len(part)), value, part))
    down = np.lexsort((np.arange(len(part)), -value, part))
    return np.unique(np.concatenate([starts, ends, up[starts], down[starts]])).astype(np.int64)
