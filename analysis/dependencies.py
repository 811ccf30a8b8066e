"""What a device operation had to wait for on the device, where the recording says so explicitly.

The arrows of kind stream_wait, collective and data lead from what is waited for to what waits. Either end may be the
wait itself, recorded as a synchronization on the stream; it then stands for the next operation on its stream, and for
the one before it where something waits for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from .device_activity import DeviceActivity
from .timeline import Ints, Timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

KINDS = ("stream_wait", "collective", "data")


def explicit_waits(recording: Recording, t: Timeline) -> list[tuple[int, int, str]]:
    """Every recorded wait on the device between two operations: (row waited for, row that waited, kind)."""
    source, target, kinds = _ends(recording, t)
    return list(zip(source.tolist(), target.tolist(), kinds.tolist(), strict=True))


def waited_for(recording: Recording, t: Timeline, device: DeviceActivity) -> Ints:
    """Per row of the timeline the operation that it waited for longer than for its own stream; -1 for none.

    An operation that would have had to wait for its predecessor on the stream anyway did not wait for the other.
    """
    result = np.full(len(t) + 1, -1, dtype=np.int64)
    source, target, _ = _ends(recording, t)
    if not len(source) or not len(device.rows):
        return result
    before, _ = neighbours(t)
    previous = before[target]
    behind = np.where(previous >= 0, t.end[previous], np.iinfo(np.int64).min)
    binds = t.end[source] >= behind
    order = np.argsort(t.end[source[binds]], kind="stable")
    result[target[binds][order]] = source[binds][order]
    return result


def _ends(recording: Recording, t: Timeline) -> tuple[Ints, Ints, npt.NDArray[np.object_]]:
    """The rows of both ends of every recorded wait, moved from synchronizations to operations, and its kind."""
    table = recording.table("flows", ranks=(t.rank,), columns=["from_slice_id", "to_slice_id", "kind"])
    table = table.filter(pc.is_in(pc.cast(table["kind"], pa.string()), value_set=pa.array(KINDS)))
    kinds = np.array(table["kind"].to_pylist(), dtype=object)
    source = t.rows_of(table["from_slice_id"].to_numpy()).astype(np.int64)
    target = t.rows_of(table["to_slice_id"].to_numpy()).astype(np.int64)
    if not len(source):
        return source, target, kinds
    before, after = neighbours(t)
    known = (source >= 0) & (target >= 0)
    source, target, kinds = source[known], target[known], kinds[known]
    source = np.where(t.state[source] >= 0, source, before[source])
    target = np.where(t.state[target] >= 0, target, after[target])
    known = (source >= 0) & (target >= 0)
    return source[known], target[known], kinds[known]


def neighbours(t: Timeline) -> tuple[Ints, Ints]:
    """Per row the device operation before it and the one after it on its track; -1 for none."""
    number = np.arange(len(t), dtype=np.int64)
    work = t.state >= 0
    before = np.concatenate([[-1], np.maximum.accumulate(np.where(work, number, -1))[:-1]])
    after = np.append(np.minimum.accumulate(np.where(work, number, len(t))[::-1])[::-1][1:], len(t))
    before[(before >= 0) & (t.track[before] != t.track)] = -1
    far = after == len(t)
    after[far] = -1
    after[~far & (t.track[after] != t.track)] = -1
    return before, after
