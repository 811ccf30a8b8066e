"""What waited for what on a device: the arrows that CUPTI's synchronization records tell.

A record (category ``cuda_sync``) lies on the stream that waits and names the stream that it waits for and the call that
recorded the event. The arrow starts at the last operation on that stream that was launched before the event was
recorded. A context or device synchronization waits for the last operation of every stream; its arrow starts at the one
that ended last.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .launches import Links
from .names import DEVICE
from .slices import Slices

Ints = npt.NDArray[np.int64]

_KINDS = (
    (re.compile(r"stream wait", re.IGNORECASE), "stream_wait"),
    (re.compile(r"event sync", re.IGNORECASE), "event_sync"),
    (re.compile(r"(?:context|device|stream) sync", re.IGNORECASE), "device_sync"),
)


@dataclass(frozen=True, slots=True)
class _Work:
    """Device operations in the order of their launches: row, stream, launch time, end."""

    row: Ints
    stream: Ints
    launched: Ints
    end: Ints


def synchronizations(slices: Slices, launched: Links) -> dict[str, Links]:
    """Arrows by kind (stream_wait, event_sync, device_sync): (rows waited for, rows of the waits)."""
    kinds = [_kind_of(name) for name in slices.pairs.names]
    of_pair = [
        kinds[int(name)] if side == DEVICE and wait else None
        for name, side, wait in zip(
            slices.pairs.name, slices.pairs.side, slices.pairs.in_categories("synchronization"), strict=True
        )
    ]
    is_wait = np.array([kind is not None for kind in of_pair], np.bool_)
    rows = np.flatnonzero(is_wait[slices.pair]) if len(slices) and is_wait.any() else np.empty(0, np.int64)
    found: dict[str, tuple[list[int], list[int]]] = {}
    if rows.size:
        work, calls = _work(slices, launched), _calls_by_correlation(slices)
        own_call, has_call = slices.some_ints("correlation", rows)
        for n, row in enumerate(rows.tolist()):
            kind = of_pair[int(slices.pair[row])] or ""
            asked = calls.get(int(own_call[n])) if has_call[n] else None
            source = _waited_for(slices, work, calls, row, asked)
            if source >= 0:
                sources, targets = found.setdefault(kind, ([], []))
                sources.append(source)
                targets.append(row)
    return {kind: (np.array(a, np.int32), np.array(b, np.int32)) for kind, (a, b) in found.items()}


def _kind_of(name: str) -> str | None:
    return next((kind for pattern, kind in _KINDS if pattern.search(name)), None)


def _work(slices: Slices, launched: Links) -> _Work:
    call, operation = launched
    chosen = slices.pairs.device_work()[slices.pair[operation]]
    call, operation = call[chosen].astype(np.int64), operation[chosen].astype(np.int64)
    at = slices.ts[call]
    order = np.argsort(at, kind="stable")
    stream, known = slices.some_ints("stream", operation)
    stream = np.where(known, stream, -1)[order]
    operation, at = operation[order], at[order]
    return _Work(operation, stream, at, slices.ts[operation] + slices.dur[operation])


def _calls_by_correlation(slices: Slices) -> dict[int, int]:
    """The start of the host call of each correlation id, ns."""
    rows, correlation = slices.rows_with("correlation")
    host = slices.pairs.side[slices.pair[rows]] != DEVICE
    return dict(zip(correlation[host].tolist(), slices.ts[rows[host]].tolist(), strict=True))


def _waited_for(slices: Slices, work: _Work, calls: dict[int, int], row: int, asked: int | None) -> int:
    """The row of the operation that a wait waited for; -1 where that is not known."""
    text = slices.texts("args", np.array([row])).to_pylist()[0]
    try:
        args = json.loads(text or "{}")
    except ValueError:
        return -1
    event, stream = args.get("wait_on_cuda_event_record_corr_id"), args.get("wait_on_stream")
    before = calls.get(event) if isinstance(event, int) else None
    before = before if before is not None else asked
    if before is None:
        before = int(slices.ts[row] + slices.dur[row])
    queued = work.launched < before
    if isinstance(stream, int) and stream >= 0:
        candidates = np.flatnonzero(queued & (work.stream == stream))
        return int(work.row[candidates[-1]]) if candidates.size else -1
    if isinstance(stream, int) or "wait_on_cuda_event_id" in args:
        return -1
    candidates = np.flatnonzero(queued)
    return int(work.row[candidates[np.argmax(work.end[candidates])]]) if candidates.size else -1
