"""One window in which torch's profiler ran, as the program that recorded it knows it."""

from __future__ import annotations

from dataclasses import dataclass

RAW = "raw"
"""The folder of an attempt that holds what is not converted yet."""

SIDECAR = ".meta.json"
"""Behind the segment's name: the file that describes it."""

PRIVATE_BACKEND = "privateuse1_backend"
"""The key, on a trace's top level, under which a recording notes what PyTorch's PrivateUse1 device is called here."""

BYTES_PER_ID = 16
"""A segment gets an id for each of this many bytes: an event is longer than that."""


@dataclass(frozen=True, slots=True)
class Segment:
    """One segment.

    Attributes:
        name: segment-00000.
        rank: The rank that recorded it.
        attempt: Its attempt.
        segment_id: Its id in ``segments``.
        process_id: The process that recorded it.
        first_id: The first of the ids set aside for its rows.
        ts: When it began [ns].
        dur: How long it ran [ns]; None where it was never ended.
    """

    name: str
    rank: int
    attempt: int
    segment_id: int
    process_id: int
    first_id: int
    ts: int
    dur: int | None
