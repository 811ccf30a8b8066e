"""What the collectives of a run's steady steps cost: the waiting apart from the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from .collective_parts import CollectiveParts, collective_parts
from .collective_totals import collective_totals
from .device_activity import rank_activity
from .nesting import Mask
from .run_facts import CommunicationMeasures
from .selection import device_selection, host_selection

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


def communication(recording: Recording, ranks: tuple[int, ...], *, steady: bool) -> CommunicationMeasures | None:
    """The collectives of the ranks; None where they have none.

    Args:
        recording: The recording.
        ranks: Whose parts count; those of the others are used for matching all the same.
        steady: Only those that begin in a steady step; otherwise all.
    """
    parts = collective_parts(recording)
    chosen = np.zeros(len(parts), dtype=np.bool_)
    for rank in ranks:
        chosen |= _of_rank(recording, parts, rank, steady)
    if not chosen.any():
        return None
    row = collective_totals(recording, by="all", chosen=chosen).iloc[0]
    return CommunicationMeasures(
        parts=int(row["parts"]),
        total_ns=int(row["total_ns"]),
        wait_for_peer_ns=_known(row["wait_for_peer_ns"]),
        transfer_ns=_known(row["transfer_ns"]),
        unknown_ns=int(row["unknown_ns"]),
        error_ns=int(row["error_ns"]),
        in_bytes=_known(row["in_bytes"]),
        reason="" if pd.isna(row["reason"]) else str(row["reason"]),
    )


def _of_rank(recording: Recording, parts: CollectiveParts, rank: int, steady: bool) -> Mask:
    """The rank's parts that begin in its steady steps: on the device where they are the device's, else on the host."""
    mine: Mask = parts.rank == rank
    if not steady or not mine.any():
        return mine
    inside = host_selection(recording, rank).holds(parts.ts)
    devices = rank_activity(recording, rank).devices
    if devices:
        inside = np.where(parts.on_device, device_selection(recording, rank, devices[0]).holds(parts.ts), inside)
    return mine & inside


def _known(value: object) -> int | None:
    return None if pd.isna(value) else int(value)  # type: ignore[call-overload]
