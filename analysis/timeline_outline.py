"""What a timeline shows besides slices: devices with their bands, and the steps of hosts and devices.

Working it out reads every slice of a rank. It is done once per recording and kept beside the tile index, in files that
open without being read; the second time, a recording of fifty million slices opens as fast as a small one.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from ..profiler.recording.cache_folder import cache_folder, evict, folder_drawn_up, mark_used
from .device_activity import rank_activity
from .device_bands import BAND_CODES, BandTrack, DeviceBands, device_pieces
from .mapped_files import mapped
from .stall_rows import ANALYSIS_VERSION
from .steps import StepCut, device_steps, host_steps
from .tile_index import IndexedTrack, TileIndex
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

VERSION = 1
"""Raised with every change of the files, so that those of an older version are not read."""

_FORGET_SLICES = 1_500_000
"""A recording with more slices than this is worked out rank by rank and forgotten: 350 bytes a slice while it is."""

_FILES = {"start": np.int64, "end": np.int64, "busy": np.int64, "slice_id": np.int64, "category": np.uint8}


@dataclass(frozen=True, eq=False)
class TimelineOutline:
    """The outline of a recording.

    Attributes:
        bands: The band of every device, by rank and device.
        device_steps: The steps on each device, in the order of ``bands.devices``.
        host_steps: The steps of each rank as its host saw them.
    """

    bands: DeviceBands
    device_steps: tuple[StepCut, ...]
    host_steps: dict[int, StepCut]

    def devices_of(self, rank: int) -> tuple[int, ...]:
        """The numbers in ``bands.devices`` of a rank's devices."""
        return tuple(number for number, band in enumerate(self.bands.devices) if band.rank == rank)


def timeline_outline(recording: Recording, *, progress: Callable[[float], None] | None = None) -> TimelineOutline:
    """The outline of a recording: opened from the cache, or worked out and kept there.

    Args:
        recording: The recording.
        progress: Told the share of ranks that are done, 0..1, while it is worked out.

    Raises:
        OSError: The cache cannot be written.
    """
    return memoized(recording, "timeline_outline", lambda: _opened(recording, progress or (lambda share: None)))


def _opened(recording: Recording, progress: Callable[[float], None]) -> TimelineOutline:
    folder = cache_folder() / "tiles" / f"{recording.fingerprint[:32]}-outline-{VERSION}-{ANALYSIS_VERSION}"
    if not (folder / "outline.json").exists():
        _build(recording, folder, progress)
        evict(cache_folder())
    mark_used(folder)
    return _open(folder)


def _open(folder: Path) -> TimelineOutline:
    described = json.loads((folder / "outline.json").read_text())
    columns: dict[str, Any] = {
        name: mapped(folder / name, kind) if described["pieces"] else np.zeros(0, dtype=kind)
        for name, kind in _FILES.items()
    }
    index = TileIndex(
        tracks=tuple(IndexedTrack(**track) for track in described["tracks"]),
        row_start=np.array(described["row_start"], dtype=np.int64),
        name=columns["category"],
        names=list(BAND_CODES),
        **columns,
    )
    return TimelineOutline(
        DeviceBands(tuple(BandTrack(**one) for one in described["devices"]), index),
        tuple(_cut(one) for one in described["device_steps"]),
        {int(rank): _cut(one) for rank, one in described["host_steps"].items()},
    )


def _build(recording: Recording, folder: Path, progress: Callable[[float], None]) -> None:
    large = sum(pq.read_metadata(path).num_rows for path in recording.files("slices")) > _FORGET_SLICES
    with folder_drawn_up(folder) as draft:
        writer = _Writer(draft)
        for done, rank in enumerate(recording.ranks, 1):
            # What is worked out is kept as long as its recording lives: a copy's goes with the copy.
            writer.add(copy.copy(recording) if large else recording, rank)
            progress(done / len(recording.ranks))
        writer.finish()


class _Writer:
    """Appends ranks to the outline's files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = {name: (folder / name).open("wb") for name in _FILES}
        self._described: dict[str, Any] = {
            "pieces": 0, "tracks": [], "row_start": [0], "devices": [], "device_steps": [], "host_steps": {},
        }  # fmt: skip

    def add(self, recording: Recording, rank: int) -> None:
        """Adds the devices and steps of one rank."""
        said = self._described
        for (band, pieces), device in zip(
            device_pieces(recording, rank), rank_activity(recording, rank).devices, strict=True
        ):
            columns = {"start": pieces.start, "end": pieces.end, "busy": pieces.busy, "slice_id": pieces.stall}
            for name, values in (columns | {"category": pieces.code}).items():
                values.astype(_FILES[name]).tofile(self._files[name])
            said["tracks"].append(asdict(IndexedTrack(-1, rank, len(said["tracks"]), 1, len(pieces.start))))
            said["pieces"] += len(pieces.start)
            said["row_start"].append(said["pieces"])
            said["devices"].append(asdict(band))
            said["device_steps"].append(_described(device_steps(recording, rank, device)))
        said["host_steps"][rank] = _described(host_steps(recording, rank))

    def finish(self) -> None:
        """Writes what the files hold; the outline counts as built once this file is there."""
        for file in self._files.values():
            file.close()
        (self.folder / "outline.json").write_text(json.dumps(self._described))


def _described(cut: StepCut) -> dict[str, Any]:
    arrays: dict[str, npt.NDArray[np.int64]] = {"numbers": cut.numbers, "starts": cut.starts, "ends": cut.ends}
    columns = {name: values.tolist() for name, values in arrays.items()}
    return columns | {"phases": list(cut.phases), "basis": cut.basis, "reason": cut.reason}


def _cut(described: dict[str, Any]) -> StepCut:
    numbers, starts, ends = (np.array(described[name], dtype=np.int64) for name in ("numbers", "starts", "ends"))
    return StepCut(numbers, starts, ends, tuple(described["phases"]), described["basis"], described["reason"])
