"""A recording as the application serves it: under which key, and what is worked out of it once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ..analysis.device_bands import BAND_CODES, DeviceBands
from ..analysis.findings import Findings, findings
from ..analysis.step_breakdown import step_breakdown
from ..analysis.tile_index import TileIndex, tile_index
from ..analysis.timeline import memoized
from ..analysis.timeline_outline import TimelineOutline, timeline_outline
from .timeline_tracks import TimelineTracks

if TYPE_CHECKING:
    import pandas as pd

    from ..profiler.recording.reader import Recording


_AT_ONCE = 1 << 20
"""How many pieces of the bands are looked at at once."""


@dataclass(eq=False)
class Served:
    """A recording with a label.

    Attributes:
        recording: The recording.
        label: What people call it.
        lock: Held while something is worked out, so that two requests do not do it at once.
        beside: The recordings that are served with it, itself among them, by their keys.
        family: The same for every state in which a recording that grows was opened.
        apart: Tells it from others that hold the same, as all do that have just begun; "" where they may be one.
    """

    recording: Recording
    label: str
    lock: threading.RLock = field(default_factory=threading.RLock)
    beside: Mapping[str, Served] = field(default_factory=dict, repr=False)
    family: str = ""
    apart: str = ""

    @cached_property
    def key(self) -> str:
        """Its name in addresses: the beginning of its fingerprint, so that no address means two recordings."""
        held = self.recording.fingerprint
        return hashlib.sha256(f"{held} {self.apart}".encode()).hexdigest()[:16] if self.apart else held[:16]

    @cached_property
    def index(self) -> TileIndex:
        """The tile index; built at the first use."""
        with self.lock:
            return tile_index(self.recording)

    @property
    def outline(self) -> TimelineOutline:
        """Its devices with their bands, and its steps; worked out at the first use."""
        with self.lock:
            return timeline_outline(self.recording)

    @property
    def bands(self) -> DeviceBands:
        """The bands of its devices."""
        return self.outline.bands

    @cached_property
    def band_codes(self) -> tuple[str, ...]:
        """What occurs in the bands: states and causes, in the order of ``BAND_CODES``."""
        there = np.zeros(len(BAND_CODES), dtype=np.bool_)
        category = self.bands.index.category
        for first in range(0, len(category), _AT_ONCE):
            there[np.unique(category[first : first + _AT_ONCE])] = True
        return tuple(code for code, found in zip(BAND_CODES, there.tolist(), strict=True) if found)

    @property
    def findings(self) -> Findings:
        """Its findings."""
        with self.lock:
            return memoized(self.recording, "ui_findings", lambda: findings(self.recording))

    def findings_of(self, rank: int) -> Findings:
        """The findings of one rank."""
        with self.lock:
            return memoized(self.recording, ("ui_findings", rank), lambda: findings(self.recording, ranks=(rank,)))

    @property
    def breakdown(self) -> pd.DataFrame:
        """Its ``step_breakdown``."""
        with self.lock:
            return memoized(self.recording, "ui_breakdown", lambda: step_breakdown(self.recording))

    @cached_property
    def tracks(self) -> TimelineTracks:
        """The numbers of its tracks in the browser."""
        return TimelineTracks(self)

    @cached_property
    def extent(self) -> tuple[int, int]:
        """The first start and the last end of all slices and steps, ns: what times in the browser count from."""
        index = self.index
        starts = [int(index.start[first]) for first in index.row_start[:-1].tolist()]
        # Slices of a row do not overlap, so the last one of a row ends last.
        ends = [int(index.end[last - 1]) for last in index.row_start[1:].tolist()]
        steps = self.recording.table("steps", columns=["ts", "dur"]).to_pylist()
        starts += [step["ts"] for step in steps]
        ends += [step["ts"] + max(step["dur"] or 0, 0) for step in steps]
        return (min(starts), max(ends)) if starts else (0, 1)

    @property
    def origin(self) -> int:
        """The instant that times in the browser count from, ns on the recording's clock."""
        return self.extent[0]

    def status(self, rank: int) -> str:
        """running, completed, failed, killed or unknown."""
        return str(self.recording.rank_info(rank).get("status", "unknown"))

    def rank_of(self, asked: Any) -> int | None:
        """The rank that an address asks for; None where it names none that the recording has."""
        return int(asked) if str(asked).isdecimal() and int(asked) in self.recording.ranks else None
