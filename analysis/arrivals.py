"""Which rank came when to one collective: how long each waited there for the last."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .collectives import collectives
from .timeline import memoized

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


@dataclass(frozen=True, slots=True)
class Arrival:
    """One rank's part in a collective.

    Attributes:
        rank: The rank.
        slice_id: Its part on the device, else the host's call.
        wait_ns: How long it waited for the last rank; None where that cannot be told.
        is_last: Whether it is known to be the last.
        withheld: Why ``wait_ns`` is None; "" where it is not.
    """

    rank: int
    slice_id: int
    wait_ns: int | None
    is_last: bool
    withheld: str


def arrivals(recording: Recording, slice_id: int) -> tuple[Arrival, ...]:
    """The parts of the collective that a slice belongs to, the longest wait first; none where it belongs to none.

    Args:
        recording: The recording.
        slice_id: A part of a collective: the device's, or the host's call.
    """
    frame: pd.DataFrame = memoized(recording, "collectives_frame", lambda: collectives(recording))
    mine = np.zeros(len(frame), dtype=np.bool_)
    for column in ("device_slice_id", "slice_id"):
        mine |= frame[column].fillna(-1).to_numpy(dtype=np.int64) == slice_id
    if not mine.any():
        return ()
    number = frame["collective"].to_numpy()[mine][0]
    found = [_arrival(row) for row in frame[frame["collective"] == number].to_dict("records")]
    return tuple(sorted(found, key=lambda one: (one.is_last, -(one.wait_ns or 0), one.rank)))


def _arrival(row: dict[Any, Any]) -> Arrival:
    own, call, wait, last = (
        None if pd.isna(row[name]) else int(row[name])
        for name in ("device_slice_id", "slice_id", "wait_for_peer_ns", "last_rank")
    )
    rank = int(row["rank"])
    why = "" if wait is not None or pd.isna(row["withheld"]) else str(row["withheld"])
    return Arrival(rank, own if own is not None else call if call is not None else -1, wait, last == rank, why)
