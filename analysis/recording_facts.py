"""What a list of recordings says of each: when, how it ended, how long a step takes; cheap, as no slice is read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

STEADY = "execution"
_LEAST_STAMP_NS = 1_000_000_000_000_000_000
"""September 2001: clocks that stand below it do not count from 1970."""


@dataclass(frozen=True, slots=True)
class RecordingFacts:
    """A recording in a line.

    Attributes:
        started_ns: When its first step (or segment, or the recording itself) began, ns since 1970; None: not known.
        statuses: How many ranks have each status.
        ranks: How many ranks it holds.
        world_size: Ranks of the job; None where not known.
        steps: Steps of the rank that has most.
        step_median_ns: The median length of the host's steps of all ranks, those that are known as preparation or
            warm-up left out; None without steps.
        devices: The distinct names of its devices, or their types.
    """

    started_ns: int | None
    statuses: dict[str, int]
    ranks: int
    world_size: int | None
    steps: int
    step_median_ns: int | None
    devices: tuple[str, ...]


def recording_facts(recording: Recording) -> RecordingFacts:
    """The facts of one recording, worked out once."""
    return memoized(recording, "recording_facts", lambda: _facts(recording))


def _facts(recording: Recording) -> RecordingFacts:
    steps = recording.table("steps", columns=["rank", "ts", "dur", "phase", "basis"]).to_pylist()
    steps = [row for row in steps if row["basis"] == "host"]
    steady = [row["dur"] for row in steps if row["dur"] is not None and row["phase"] in (None, STEADY)]
    world_size = recording.info.get("world_size")
    return RecordingFacts(
        started_ns=_started(recording, [row["ts"] for row in steps]),
        statuses=dict(Counter(str(recording.rank_info(rank).get("status", "unknown")) for rank in recording.ranks)),
        ranks=len(recording.ranks),
        world_size=world_size if isinstance(world_size, int) else None,
        steps=max(Counter(row["rank"] for row in steps).values(), default=0),
        step_median_ns=int(np.median(steady)) if steady else None,
        devices=_devices(recording.table("devices", columns=["name", "device_type"]).to_pylist()),
    )


def _started(recording: Recording, stamps: list[int]) -> int | None:
    segments = recording.table("segments", columns=["ts"])["ts"].to_pylist()
    made: Any = recording.info.get("created_ns")
    known = stamps or [ts for ts in segments if ts is not None] or ([made] if isinstance(made, int) else [])
    first = min(known, default=0)
    return first if first >= _LEAST_STAMP_NS else None


def _devices(rows: list[dict[str, Any]]) -> tuple[str, ...]:
    named = {str(row["name"] or row["device_type"]) for row in rows if row["device_type"] != "cpu"}
    return tuple(sorted(named))
