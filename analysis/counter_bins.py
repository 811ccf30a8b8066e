"""A counter's least and greatest value in each bin of a stretch of time: what its chart is drawn from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from .tiles import BINS, HIGHEST_LEVEL
from .timeline import Ints, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_TRACK_COLUMNS = ("track_id", "kind", "name", "unit", "device_type", "device_index")

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class CounterSeries:
    """The values of one counter in the order of time.

    Attributes:
        rank: The rank.
        name: What it counts.
        unit: Its unit; "" where there is none.
        ts: From when each value holds, ns.
        value: The values.
        device_type: Of the device that it is about, as in the table ``tracks``; None where it is about none.
        device_index: As in the table ``tracks``.
    """

    rank: int
    name: str
    unit: str
    ts: Ints
    value: Floats
    device_type: str | None = None
    device_index: int | None = None

    @property
    def is_memory(self) -> bool:
        """Whether it counts the bytes of a device's or the host's memory."""
        return self.unit == "bytes" and ("memory" in self.name or "allocated" in self.name)

    def value_at(self, ts: int) -> float | None:
        """The value that holds at a time; None before the first."""
        place = int(np.searchsorted(self.ts, ts, side="right")) - 1
        return float(self.value[place]) if place >= 0 else None


def counter_series(recording: Recording) -> tuple[CounterSeries, ...]:
    """Every counter of the recording by rank and name, and the device memory of its allocators; built once."""
    return memoized(recording, "counter_series", lambda: tuple(_build(recording)))


def counter_bins(series: CounterSeries, level: int, number: int, origin: int) -> tuple[Floats, Floats]:
    """Least and greatest value in each of the ``BINS`` bins of a tile; nan before the first value.

    Args:
        series: The counter.
        level: log2 of the length of a bin in ns.
        number: Which tile, as for ``tiles.tile``.
        origin: The time that tiles are counted from, ns.

    Raises:
        ValueError: The level or number is out of range.
    """
    if not 0 <= level <= HIGHEST_LEVEL or not 0 <= number < 1 << 53:
        raise ValueError(f"level {level} or tile {number} is out of range")
    base = origin + number * (BINS << level)
    edges = base + (np.arange(BINS + 1, dtype=np.int64) << level)
    place = np.searchsorted(series.ts, edges, side="left")
    held = np.searchsorted(series.ts, edges[:-1], side="right") - 1
    first = np.where(held >= 0, np.append(series.value, np.nan)[held], np.nan)
    least, greatest = first.copy(), first.copy()
    some = np.flatnonzero(place[1:] > place[:-1])
    if len(some):
        # Every bin between two filled ones is empty, so a run from one filled bin to the next is the bin itself.
        values = series.value[place[some[0]] : place[some[-1] + 1]]
        starts = place[some] - place[some[0]]
        least[some] = np.fmin(first[some], np.minimum.reduceat(values, starts))
        greatest[some] = np.fmax(first[some], np.maximum.reduceat(values, starts))
    return least, greatest


def _build(recording: Recording) -> list[CounterSeries]:
    found: list[CounterSeries] = []
    for rank in recording.ranks:
        series = _memory(recording, rank)
        tracks = recording.table("tracks", ranks=(rank,), columns=list(_TRACK_COLUMNS)).to_pylist()
        rows = recording.table("counters", ranks=(rank,), columns=["track_id", "ts", "value"])
        track, ts, value = (rows[name].to_numpy() for name in ("track_id", "ts", "value"))
        for one in (row for row in tracks if row["kind"] == "counter"):
            mine = np.flatnonzero(track == one["track_id"])
            if len(mine):
                mine = mine[np.argsort(ts[mine], kind="stable")]
                name, unit, values = one["name"] or "counter", one["unit"] or "", value[mine].astype(float)
                device = one["device_type"], one["device_index"]
                series.append(CounterSeries(rank, name, unit, ts[mine], values, *device))
        found += sorted(series, key=_place)
    return found


def _place(series: CounterSeries) -> tuple[str, int, str]:
    """Counters of a device beside each other, those of none first."""
    return series.device_type or "", series.device_index or 0, series.name


def _memory(recording: Recording, rank: int) -> list[CounterSeries]:
    columns = ["ts", "device_type", "device_index", "total_allocated"]
    frame = recording.table("memory", ranks=(rank,), columns=columns).to_pandas()
    frame = frame[frame["total_allocated"].notna()].sort_values("ts", kind="stable")
    return [
        CounterSeries(
            rank, "allocated, every event", "bytes", rows["ts"].to_numpy(dtype=np.int64),
            rows["total_allocated"].to_numpy(dtype=np.float64), str(kind), int(index),
        )
        for (kind, index), rows in frame.groupby(["device_type", "device_index"], observed=True)
        if kind != "cpu"
    ]  # fmt: skip
