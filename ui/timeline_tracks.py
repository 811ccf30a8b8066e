"""How tracks are numbered for the browser: first those of the tile index, then the devices' bands, then counters."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ..analysis.counter_bins import CounterSeries, counter_series

if TYPE_CHECKING:
    from .served import Served


@dataclass(frozen=True, eq=False)
class TimelineTracks:
    """Which number means what."""

    served: Served

    @property
    def first_band(self) -> int:
        """The number of the first band."""
        return len(self.served.index.tracks)

    @property
    def first_counter(self) -> int:
        """The number of the first counter."""
        return self.first_band + len(self.served.bands.devices)

    @cached_property
    def counters(self) -> tuple[CounterSeries, ...]:
        """The counters, in the order of their numbers."""
        with self.served.lock:
            return counter_series(self.served.recording)

    @cached_property
    def number_of_track(self) -> dict[int, int]:
        """The number of each ``track_id``."""
        return {track.track_id: number for number, track in enumerate(self.served.index.tracks)}
