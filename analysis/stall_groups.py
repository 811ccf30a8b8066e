"""Stalls and exposed copies added up: by what the host did, by why the queue was empty, by line of source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from .causes import CAUSE_NAMES, Codes
from .columns import texts
from .device_activity import DeviceActivity, rank_activity
from .source_position import SourceLine
from .stall_lines import stall_lines
from .stall_rows import StallRows
from .stalls import Window, device_columns, line_columns, stalls_of_device
from .steps import device_steps
from .timeline import STATES, Ints

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

By = Literal["cause", "root_cause", "line"]


def stall_groups(
    recording: Recording,
    *,
    by: By = "root_cause",
    ranks: tuple[int, ...] | None = None,
    step: int | None = None,
    window: Window | None = None,
    steady: bool = False,
) -> pd.DataFrame:
    """Stalls and exposed copies added up.

    Args:
        recording: The recording.
        by: ``cause``; ``root_cause``; or ``line``, which groups by root cause and line.
        ranks: As for ``stalls``.
        step: As for ``stalls``.
        window: As for ``stalls``.
        steady: Only those of steady steps.

    Returns:
        One row per rank, device, state and group, the longest first within a device: rank, device_type, device_index,
        state, cause or root_cause, with ``line`` also file, line, function and line_source, and then dur (ns in all),
        count (rows), longest_ns, stall_frac (its share of all time of that state). dur adds up to that state's time.
    """
    frames = []
    for rank in recording.ranks if ranks is None else ranks:
        for device in rank_activity(recording, rank).devices:
            rows = stalls_of_device(recording, rank, device, step=step, window=window)
            if steady:
                rows = rows.take(np.array([*device_steps(recording, rank, device).steady, False], np.bool_)[rows.step])
            frames.append(_groups(recording, rank, device, rows, by))
    if not frames:
        return pd.DataFrame({name: [] for name in ("rank", "device_type", "device_index", "state", by, "dur", "count")})
    return pd.concat(frames, ignore_index=True)


def _groups(recording: Recording, rank: int, device: DeviceActivity, rows: StallRows, by: By) -> pd.DataFrame:
    cause = rows.cause if by == "cause" else rows.root
    places, line, source = _lines(recording, rank, rows, by)
    width = len(places) + 1 if places else 1
    key = (rows.state.astype(np.int64) * len(CAUSE_NAMES) + cause) * width + line + 1
    groups, first, member = np.unique(key, return_index=True, return_inverse=True)
    dur, longest = np.zeros(len(groups), dtype=np.int64), np.zeros(len(groups), dtype=np.int64)
    np.add.at(dur, member, rows.dur)
    np.maximum.at(longest, member, rows.dur)
    state = rows.state[first]
    whole = np.array([int(dur[state == code].sum()) for code in range(len(STATES))], dtype=np.int64)
    count = len(groups)
    columns: dict[str, object] = {
        "rank": np.full(count, rank, dtype=np.int64),
        **device_columns(device, count),
        "state": texts(STATES, state),
        "cause" if by == "cause" else "root_cause": texts(CAUSE_NAMES, cause[first]),
    }
    if places is not None:
        columns |= line_columns(places, line[first], source[first])
    columns |= {
        "dur": dur,
        "count": np.bincount(member, minlength=count).astype(np.int64),
        "longest_ns": longest,
        "stall_frac": dur / np.maximum(whole[state], 1),
    }
    return pd.DataFrame(columns).sort_values("dur", ascending=False, ignore_index=True)


def _lines(
    recording: Recording, rank: int, rows: StallRows, by: By
) -> tuple[tuple[SourceLine, ...] | None, Ints, Codes]:
    if by == "line":
        return stall_lines(recording, rank, rows)
    return None, np.full(len(rows), -1, dtype=np.int64), np.full(len(rows), -1, dtype=np.int8)
