"""Why each device waited: every stall and every exposed copy, with its cause, root cause and line.

The rows of a device tile all time in which it neither computed nor communicated. ``cause`` is what the host or the
device did just then; ``root_cause`` is why the queue was empty, which may be a wait long before (see ``run_ahead``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .causes import CAUSE_CODE, CAUSE_NAMES, CAUSES, Codes
from .collective_parts import collective_parts
from .collectives import peer_waits
from .columns import nullable_ints, texts
from .device_activity import DeviceActivity, rank_activity
from .selection import device_selection
from .source_position import SourceLine
from .spells import ALL_REASONS
from .stall_lines import LINE_SOURCES, stall_lines
from .stall_rows import ANALYSIS_VERSION, CONFIDENCE, StallRows, stall_rows
from .steps import device_steps
from .timeline import STATES, Ints, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

__all__ = ["CAUSES", "stalls", "stalls_of_device"]

Window = tuple[int, int]


def stalls(
    recording: Recording,
    *,
    ranks: tuple[int, ...] | None = None,
    step: int | None = None,
    window: Window | None = None,
) -> pd.DataFrame:
    """Every stall and exposed copy.

    Args:
        recording: The recording.
        ranks: Which ranks; all if None.
        step: Only this step, as each device ran it.
        window: Only ``(start, end)`` in ns, rows cut at its edges; by default each device's whole window, from its
            first operation to its last. Time before or after everything that was recorded of a rank is in no row.

    Returns:
        One row per piece with one cause, by rank, device and time: stall_id (unique in the recording, the same for
        every choice of step and window), rank, device_type, device_index (NA: threads in a device's place), step (NA:
        outside all steps), ts and dur (ns), state (stall or data_movement), cause and root_cause (see ``CAUSES``),
        co_cause (a second cause without which the stall would also be gone; ``reason`` says where it is one of several
        waits that would have to go together), ended_by (the operation that ended it, or the copy), host_slice_id and
        root_slice_id (the slices behind the two causes; NA for unrecorded time), stack_id,
        file, line, function, line_source (``function``: the line of its def; ``stack``, ``source``, ``sample``: the
        line that ran, from a stack taken there, the text of the source, the sampler),
        evidence (slice ids), peer_rank (the rank that a blocking collective waited for; NA otherwise), confidence (low,
        medium, high), reason (why it is not known, or not certain; "" otherwise), analysis_version.

    Raises:
        UsageError: Both a step and a window are given, or a rank does not have the step.
    """
    frames = []
    for rank in recording.ranks if ranks is None else ranks:
        first = rank << 40
        for device in rank_activity(recording, rank).devices:
            numbers, rows = _chosen(recording, rank, device, step, window)
            frames.append(_frame(recording, rank, device, first + numbers, rows))
            first += len(stall_rows(recording, rank, device))
    return pd.concat(frames, ignore_index=True) if frames else _empty()


def stalls_of_device(
    recording: Recording, rank: int, device: DeviceActivity, *, step: int | None = None, window: Window | None = None
) -> StallRows:
    """The same rows for one device as plain columns: what sums and groups are made from."""
    return _chosen(recording, rank, device, step, window)[1]


def _chosen(
    recording: Recording, rank: int, device: DeviceActivity, step: int | None, window: Window | None
) -> tuple[Ints, StallRows]:
    """The rows of a step, a window, or the device's whole window, with the number of each among all of its rows."""
    rows = stall_rows(recording, rank, device)
    keep = np.ones(len(rows), dtype=bool)
    if step is not None:
        device_selection(recording, rank, device, step=step, window=window)
        keep = np.append(device_steps(recording, rank, device).numbers == step, False)[rows.step]
    start, end = window or (device.window if step is None else (np.iinfo(np.int64).min, np.iinfo(np.int64).max))
    keep &= (rows.end > start) & (rows.ts < end)
    return np.flatnonzero(keep), rows.take(keep).clipped(start, end)


def _frame(recording: Recording, rank: int, device: DeviceActivity, ids: Ints, rows: StallRows) -> pd.DataFrame:
    t = rank_activity(recording, rank).timeline
    cut = device_steps(recording, rank, device)
    places, line, source = stall_lines(recording, rank, rows)
    stack = np.append(t.stack, -1)[rows.root_row]
    peers = _peers(recording, rank, t, rows)
    slices = {name: np.append(t.slice_id, -1)[getattr(rows, name)] for name in ("op", "host", "root_row")}
    count = len(rows)
    return pd.DataFrame(
        {
            "stall_id": ids,
            "rank": np.full(count, rank, dtype=np.int64),
            "device_type": texts([device.device_type], np.zeros(count, dtype=np.int64)),
            "device_index": nullable_ints(
                np.full(count, device.device_index or 0), [device.device_index is not None] * count
            ),
            "step": nullable_ints(np.append(cut.numbers, -1)[rows.step], rows.step >= 0),
            "ts": rows.ts,
            "dur": rows.dur,
            "state": texts(STATES, rows.state),
            "cause": texts(CAUSE_NAMES, rows.cause),
            "root_cause": texts(CAUSE_NAMES, rows.root),
            "co_cause": texts(CAUSE_NAMES, rows.co_cause),
            "ended_by": nullable_ints(slices["op"], rows.op >= 0),
            "host_slice_id": nullable_ints(slices["host"], rows.host >= 0),
            "root_slice_id": nullable_ints(slices["root_row"], rows.root_row >= 0),
            "stack_id": nullable_ints(stack, stack >= 0),
            **line_columns(places, line, source),
            "evidence": _evidence(t, rows),
            "peer_rank": nullable_ints(peers, peers >= 0),
            "confidence": texts(CONFIDENCE, rows.confidence),
            "reason": texts(ALL_REASONS, rows.told),
            "analysis_version": np.full(count, ANALYSIS_VERSION, dtype=np.int64),
        }
    )


def device_columns(device: DeviceActivity, count: int) -> dict[str, pd.Series[Any]]:
    """The columns device_type and device_index of ``count`` rows of one device."""
    known = np.full(count, device.device_index is not None)
    return {
        "device_type": texts([device.device_type], np.zeros(count, dtype=np.int64)),
        "device_index": nullable_ints(np.full(count, device.device_index or 0), known),
    }


def line_columns(places: tuple[SourceLine, ...], line: Ints, source: Codes) -> dict[str, pd.Series[Any]]:
    """The columns file, line, function and line_source of rows whose lines are known by number (-1: not known)."""
    numbers = np.array([*(place.line or -1 for place in places), -1], dtype=np.int64)[line]
    return {
        "file": texts([place.file for place in places], line),
        "line": nullable_ints(numbers, numbers >= 0),
        "function": texts([place.function for place in places], line),
        "line_source": texts(LINE_SOURCES, source),
    }


def _peers(recording: Recording, rank: int, t: Timeline, rows: StallRows) -> Ints:
    """Per row the rank that its host was waiting for in a collective; -1 for none, or where it cannot be told."""
    result = np.full(len(rows), -1, dtype=np.int64)
    waiting = np.flatnonzero((rows.root == CAUSE_CODE["wait_for_peer"]) & (rows.root_row >= 0))
    if not len(waiting):
        return result
    parts, waits = collective_parts(recording), peer_waits(recording)
    certain = (parts.rank == rank) & waits.told & waits.last_is_certain & (waits.last_rank != rank)
    last = np.full(len(t) + 1, -1, dtype=np.int64)
    call = t.rows_of(parts.slice_id[certain])
    last[call[call >= 0]] = waits.last_rank[certain][call >= 0]
    result[waiting] = last[rows.root_row[waiting]]
    return result


def _evidence(t: Timeline, rows: StallRows) -> pd.Series[Any]:
    """Per row the ids of the slices that it rests on: the root's, the host's, the launch and the operation."""
    ids = np.append(t.slice_id, -1)
    call = np.append(t.launch, -1)[rows.op]
    columns = zip(*(ids[column].tolist() for column in (rows.root_row, rows.host, call, rows.op)), strict=True)
    return pd.Series([[i for i in dict.fromkeys(row) if i >= 0] for row in columns], dtype=object)


def _empty() -> pd.DataFrame:
    integers = ("stall_id", "rank", "ts", "dur", "analysis_version")
    nullable = (
        "device_index", "step", "ended_by", "host_slice_id", "root_slice_id", "stack_id", "line", "peer_rank",
    )  # fmt: skip
    order = (
        "stall_id", "rank", "device_type", "device_index", "step", "ts", "dur", "state", "cause", "root_cause",
        "co_cause", "ended_by", "host_slice_id", "root_slice_id", "stack_id", "file", "line", "function",
        "line_source", "evidence", "peer_rank", "confidence", "reason", "analysis_version",
    )  # fmt: skip
    kinds = dict.fromkeys(integers, "int64") | dict.fromkeys(nullable, "Int64") | {"evidence": "object"}
    return pd.DataFrame({name: pd.Series([], dtype=kinds.get(name, "string")) for name in order})
