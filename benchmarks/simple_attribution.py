"""Two simpler ways to explain idle devices, to compare with: written from the descriptions of what other tools do.

*Priority sweep*, as XProf explains steps: every instant belongs to the kind of event with the highest priority among
all events that overlap it, whatever thread they are on.

*Gap rules per stream*, as Holistic Trace Analysis explains idle time: a gap between two operations of one stream is the
host's where the second was launched after the first had ended, the device's where it is shorter than 30 us, and
unexplained otherwise.

Both get more help here than they have in their own tools: the slices of all our collectors, the causes that fit their
classes best, and the innermost line of the script where an event has a stack.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from stallscope.profiler.recording.reader import Recording

Key = tuple[str, str | None, int | None]
"""Cause, file name, line."""

WORK = ("kernel",)
MOVEMENT = ("memcpy", "memset")
CONSECUTIVE_NS = 30_000
UNRECORDED_PRIORITY, UNRECORDED = 10, "python"

# Category -> (XProf's priority for that kind of event, our word for it).
_SWEEP = {
    "op": (10, "dispatch"),
    "fallback": (10, "cpu_fallback"),
    "gc": (10, "gc"),
    "io": (10, "io"),
    "input": (110, "input"),
    "runtime": (90, "launch"),
    "synchronization": (50, "synchronization"),
    "allocation": (50, "allocation"),
    "compile": (60, "compile"),
    "memcpy": (120, "copy"),
    "memset": (120, "copy"),
    "collective": (100, "communication"),
}


@dataclass(frozen=True)
class RunSlices:
    """The slices of a run, and the window that is explained."""

    recording: Recording
    slices: pd.DataFrame
    start: int
    end: int

    def gaps(self) -> Iterator[tuple[int, int]]:
        """Where no kernel ran."""
        work = self.slices[self.slices.category.isin(WORK) & (self.slices.kind_of_track == "stream")].sort_values("ts")
        covered = self.start
        for ts, end in zip(work.ts.tolist(), work.end.tolist(), strict=True):
            if ts > covered:
                yield covered, min(ts, self.end)
            covered = max(covered, end)
            if covered >= self.end:
                return
        if covered < self.end:
            yield covered, self.end


def run_slices(recording: Recording, start: int, end: int, files: frozenset[str]) -> RunSlices:
    """What both methods look at, with the innermost line of the script where an event has a stack."""
    query = f"""
        select s.slice_id, s.ts, s.ts + s.dur as "end", s.category, s.stack_id, s.track_id, t.kind as kind_of_track
        from slices s join tracks t using (track_id)
        where s.ts < {int(end)} and s.ts + s.dur > {int(start)} and s.category not in ('python', 'module', 'annotation')
    """
    slices = recording.sql(query).to_pandas()
    lines = _lines(recording, files)
    slices["place"] = [lines.get(stack) for stack in slices.stack_id.tolist()]
    return RunSlices(recording, slices, start, end)


def _lines(recording: Recording, files: frozenset[str]) -> dict[Any, tuple[str, int]]:
    """Per stack the innermost line of the script."""
    frames = {
        frame: (file.rsplit("/", 1)[-1], line)
        for frame, file, line in recording.sql("select frame_id, file, line from frames")
        .to_pandas()
        .itertuples(index=False)
        if isinstance(file, str)
    }
    found = {}
    for stack, inner in recording.sql("select stack_id, frame_ids from stacks").to_pandas().itertuples(index=False):
        mine = [frames[frame] for frame in inner if frames.get(frame, ("",))[0] in files]
        if mine:
            found[stack] = mine[-1]
    return found


def priority_sweep(run: RunSlices) -> dict[Key, int]:
    """Idle time of the device in the window by cause and line, in ns."""
    known = run.slices[run.slices.category.isin(list(_SWEEP))]
    priority = np.array([_SWEEP[name][0] for name in known.category], dtype=np.int64)
    length = (known.end - known.ts).to_numpy()
    # Within a priority the shortest event is the innermost one.
    order = np.lexsort((length, -priority))
    ts, ends = known.ts.to_numpy()[order], known.end.to_numpy()[order]
    causes = [_SWEEP[name][1] for name in known.category.to_numpy()[order]]
    places = known.place.to_numpy()[order]
    result: dict[Key, int] = {}
    for gap_start, gap_end in run.gaps():
        over = np.flatnonzero((ts < gap_end) & (ends > gap_start))
        edges = np.unique(np.concatenate(([gap_start, gap_end], ts[over], ends[over])).clip(gap_start, gap_end))
        for left, right in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
            first = next((row for row in over if ts[row] <= left and ends[row] >= right), None)
            key = (UNRECORDED, None, None) if first is None else (causes[first], *(places[first] or (None, None)))
            result[key] = result.get(key, 0) + right - left
    return result


def stream_gaps(run: RunSlices) -> dict[Key, int]:
    """Idle time of each stream in the window by cause, in ns; it does not add up to the device's."""
    launches = run.recording.sql(
        "select f.to_slice_id as slice_id, min(s.ts) as launched from flows f join slices s "
        "on s.slice_id = f.from_slice_id where f.kind = 'launch' group by 1"
    ).to_pandas()
    device = run.slices[(run.slices.kind_of_track == "stream") & run.slices.category.isin([*WORK, *MOVEMENT])]
    device = device.merge(launches, on="slice_id", how="left").sort_values(["track_id", "ts"])
    result: dict[Key, int] = {}
    for _, stream in device.groupby("track_id"):
        rows = zip(stream.ts.tolist()[1:], stream.end.tolist()[:-1], stream.launched.tolist()[1:], strict=True)
        for ts, previous, launched in rows:
            if ts <= previous:
                continue
            host = launched == launched and launched > previous
            cause = "launch" if host else "kernel_gap" if ts - previous < CONSECUTIVE_NS else "unknown"
            result[cause, None, None] = result.get((cause, None, None), 0) + ts - previous
    return result
