"""The tables ``tracks`` and ``processes`` of one trace."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import numpy.typing as npt

from .names import ASYNC, DEVICE
from .tracks import COUNTER, Track, Tracks, integer_of

Ints = npt.NDArray[np.int64]

_GPU_LABEL = re.compile(r"^(?:GPU|MTIA|XPU|HPU)\s*\d+$", re.IGNORECASE)
_MAX_ID = 1 << 62


def track_rows(tracks: Tracks, track_ids: Ints, kind_of_device: str) -> dict[str, list[Any]]:
    """The rows of ``tracks``, in the order of the ids."""
    rows = [_row(tracks, track, kind_of_device) for track in tracks.all_in_order]
    names = (
        "kind", "name", "process_id", "thread_id", "device_type", "device_index", "stream_id", "sort_key", "context_id",
    )  # fmt: skip
    return {"track_id": track_ids.tolist()} | {name: [row.get(name) for row in rows] for name in names}


def _row(tracks: Tracks, track: Track, kind_of_device: str) -> dict[str, Any]:
    label = tracks.threads.get((track.process, track.thread))
    sort_key = label.sort_index if label else None
    if track.side == DEVICE:
        index = track.device if track.device is not None and 0 <= track.device < 1 << 31 else None
        return {
            "kind": "stream",
            "name": _stream_name(track, label.name if label else None),
            "device_type": kind_of_device,
            "device_index": index,
            "stream_id": track.stream,
            "context_id": track.context,
            "sort_key": sort_key,
        }
    process_id = _small(integer_of(track.process))
    if track.side in (COUNTER, ASYNC):
        kind = "counter" if track.side == COUNTER else "thread"
        name = track.thread if track.side == COUNTER else f"asynchronous {track.thread}".strip()
        return {"kind": kind, "name": name, "process_id": process_id}
    name = (label.name if label else None) or (f"thread {track.thread}" if track.thread else "events without a thread")
    return {
        "kind": "queue" if _is_queue(tracks, track, name) else "thread",
        "name": name.strip(),
        "process_id": process_id,
        "thread_id": _small(integer_of(track.thread)),
        "sort_key": sort_key,
    }


def _stream_name(track: Track, given: str | None) -> str:
    if given and given.strip():
        return given.strip()
    if track.stream is not None:
        return f"stream {track.stream}"
    return "waits of no stream" if track.thread.startswith("-") else f"stream {track.thread}".strip()


def _is_queue(tracks: Tracks, track: Track, name: str) -> bool:
    """Whether host rows lie in a device's process on what is called a queue, as MTIA writes its submissions."""
    label = tracks.processes.get(track.process)
    return bool(label and label.labels and _GPU_LABEL.match(label.labels) and "queue" in name.lower())


def _small(number: int | None) -> int | None:
    return number if number is not None and -_MAX_ID < number < _MAX_ID else None


def process_rows(tracks: Tracks, host: str | None) -> dict[str, list[Any]]:
    """The rows of ``processes``: those that have a track of a thread, by pid."""
    used = {track.process for track in tracks.all_in_order if track.side not in (DEVICE, COUNTER)}
    rows = []
    for text in used:
        label = tracks.processes.get(text)
        name = label.name if label else None
        rows.append((_small(integer_of(text)), name or (None if integer_of(text) is not None else text)))
    rows.sort(key=lambda row: (row[0] is None, row[0] or 0, row[1] or ""))
    return {
        "process_id": [row[0] for row in rows],
        "host": [host] * len(rows),
        "name": [row[1] for row in rows],
    }
