"""A made-up job whose ranks meet in collectives, seen through clocks that differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tests.builders import MemoryRecording, TraceBuilder

START = 1_694_128_201_000_000_000


@dataclass
class Job:
    """What really happened, on one clock: a row a collective, a column a rank."""

    arrivals: np.ndarray
    ends: np.ndarray

    @property
    def waits(self) -> np.ndarray:
        """Per collective and rank the time until the last rank arrived."""
        return self.arrivals.max(axis=1, keepdims=True) - self.arrivals


def job(
    *, ranks: int = 4, collectives: int = 50, spread: int = 400_000, noise: int = 2_000, every: int = 2_000_000
) -> Job:
    """Ranks arrive up to ``spread`` ns apart, transfer for 50 us, and leave within ``noise`` ns of each other."""
    rng = np.random.default_rng(collectives + ranks)
    begin = START + np.arange(collectives)[:, None] * every
    arrivals = begin + rng.integers(0, spread, (collectives, ranks))
    ends = arrivals.max(axis=1, keepdims=True) + 50_000 + rng.integers(0, noise + 1, (collectives, ranks))
    return Job(arrivals, ends)


def seen(
    what: Job,
    clock: Callable[[int, np.ndarray], np.ndarray] = lambda rank, ts: ts,
    *,
    kind: str = "all_reduce",
    numbered: bool = False,
    present: tuple[int, ...] | None = None,
    device: bool = True,
) -> MemoryRecording:
    """The recording that the ranks' own clocks make of it: ``clock(rank, true stamps)``."""
    count = what.arrivals.shape[1]
    traces = []
    for rank in range(count) if present is None else present:
        trace = TraceBuilder(rank)
        track = trace.stream(7, device_index=rank) if device else trace.thread()
        group = trace.new_id()
        trace.row("groups", group_id=group, name="default", ranks=list(range(count)))
        starts, ends = clock(rank, what.arrivals[:, rank]), clock(rank, what.ends[:, rank])
        for number, (ts, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            part = trace.slice(track, "ncclDevKernel_AllReduce", "collective", ts, end - ts)
            place = {"device_slice_id": part} if device else {"slice_id": part}
            number_or_none = number if numbered else None
            trace.row("collectives", **place, group_id=group, kind=kind, sequence_number=number_or_none, in_bytes=1000)
        traces.append(trace)
    return traces[0].recording(*traces[1:])
