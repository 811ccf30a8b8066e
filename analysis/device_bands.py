"""One band per device: what state it was in at each instant, in the form that tiles are drawn from.

The pieces of a band tile the window of its device, from its first operation to its last, without a gap or an overlap:
their lengths add up to what ``step_breakdown`` says of each state.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from . import intervals as iv
from .causes import CAUSE_NAMES
from .device_activity import DeviceActivity, rank_activity
from .stall_rows import stall_rows
from .tile_index import IndexedTrack, TileIndex
from .timeline import COMMUNICATION, COMPUTE, DATA_MOVEMENT, STALL, STATES, Ints, memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

BAND_CODES = (*STATES[:STALL], *CAUSE_NAMES)
"""What a piece can be: a state, or for a stall its root cause. ``TileIndex.category`` of a band indexes into this."""

NO_STALL = -1
"""The ``slice_id`` of a piece that is no row of ``stalls``."""


@dataclass(frozen=True, slots=True)
class BandTrack:
    """Whose band a track of the index is.

    Attributes:
        rank: The rank.
        device_type: As in ``step_breakdown``.
        device_index: As in ``step_breakdown``.
    """

    rank: int
    device_type: str
    device_index: int | None


@dataclass(frozen=True, eq=False)
class DeviceBands:
    """The bands of all devices.

    Attributes:
        devices: Whose band each track of ``index`` is, in its order.
        index: The pieces. ``category`` and ``name`` index into ``BAND_CODES``; ``slice_id`` is the id of the stall or
            exposed copy (``stalls``), NO_STALL for other pieces.
    """

    devices: tuple[BandTrack, ...]
    index: TileIndex

    def entry_of_stall(self, stall_id: int) -> int | None:
        """The piece that is this stall; None where no band has it."""
        found = np.flatnonzero(self.index.slice_id == stall_id)
        return int(found[0]) if len(found) else None


def device_bands(recording: Recording) -> DeviceBands:
    """The bands of every device of every rank, by rank and device; built once per recording."""
    return memoized(recording, "device_bands", lambda: _build(recording))


def _build(recording: Recording) -> DeviceBands:
    found = [one for rank in recording.ranks for one in device_pieces(recording, rank)]
    sizes = [len(pieces.start) for _, pieces in found]
    columns = [
        np.concatenate([np.zeros(0, dtype=np.int64), *(getattr(pieces, name) for _, pieces in found)])
        for name in ("start", "end", "busy", "stall", "code")
    ]
    start, end, busy, stall, code = columns
    index = TileIndex(
        tracks=tuple(
            IndexedTrack(NO_STALL, band.rank, n, 1, size)
            for n, ((band, _), size) in enumerate(zip(found, sizes, strict=True))
        ),
        row_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        start=start,
        end=end,
        busy=busy,
        slice_id=stall,
        name=code.astype(np.int32),
        category=code.astype(np.uint8),
        names=list(BAND_CODES),
    )
    return DeviceBands(tuple(band for band, _ in found), index)


@dataclass(frozen=True, eq=False)
class DevicePieces:
    """The pieces of one band in the order of time, as columns of equal length.

    Attributes:
        start: Starts, ns.
        end: Ends, ns.
        busy: Running sum of the lengths before this piece, ns.
        stall: Id of the stall or exposed copy; NO_STALL for other pieces.
        code: Index into ``BAND_CODES``.
    """

    start: Ints
    end: Ints
    busy: Ints
    stall: Ints
    code: Ints


def device_pieces(recording: Recording, rank: int) -> list[tuple[BandTrack, DevicePieces]]:
    """The bands of one rank's devices, in the order of ``rank_activity``."""
    found, first = [], rank << 40
    for device in rank_activity(recording, rank).devices:
        found.append((BandTrack(rank, device.device_type, device.device_index), _pieces(recording, device, first)))
        first += len(stall_rows(recording, rank, device))
    return found


def _pieces(recording: Recording, device: DeviceActivity, first: int) -> DevicePieces:
    """The pieces of one device, whose first stall has the id ``first``."""
    rows = stall_rows(recording, device.rank, device)
    low, high = device.window
    inside = np.flatnonzero((rows.end > low) & (rows.ts < high))
    chosen = rows.take(inside).clipped(low, high)
    working = [iv.clip(device.states[COMPUTE], low, high), iv.clip(device.exposed_communication, low, high)]
    spans = np.concatenate([*working, np.stack([chosen.ts, chosen.end], axis=1)])
    stall_code = np.where(chosen.state == DATA_MOVEMENT, DATA_MOVEMENT, STALL + chosen.root.astype(np.int64))
    code = np.concatenate(
        [np.full(len(working[0]), COMPUTE), np.full(len(working[1]), COMMUNICATION), stall_code]
    ).astype(np.int64)
    stall = np.concatenate([np.full(len(working[0]) + len(working[1]), NO_STALL, dtype=np.int64), first + inside])
    order = np.argsort(spans[:, 0], kind="stable")
    start, end = spans[order, 0], spans[order, 1]
    lengths = end - start
    return DevicePieces(start, end, np.cumsum(lengths) - lengths, stall[order], code[order])
