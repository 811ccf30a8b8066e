"""The engine log: when each queue of the device was busy, and why it was not.

It is written by the device itself, on the clock of torch.profiler, and is no part of any trace: whoever checks an
analysis of a trace against it has the truth from another source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

IDLE_REASONS = ("none", "first", "empty", "blocked", "event")
"""Why a queue did nothing before an operation: it was busy until then (none); nothing had run on it (first); nothing
had been launched (empty); the stream was still busy on another queue (blocked); it waited for an event (event).
"""


@dataclass(frozen=True, slots=True)
class EngineLog:
    """One row per operation, sorted by device, queue and start; every array has that length. Times are ns since 1970.

    Attributes:
        device: Index of the device.
        queue: Position in ``QUEUES``.
        kind: Position in ``kinds``: kernel, memcpy, memset, collective.
        name: Position in ``names``.
        stream: Id of the stream; 0 is the default stream.
        start_ns: First instant on the queue.
        end_ns: First instant after it.
        launch_ns: When the host had queued it.
        arrival_ns: When the device could know of it: launch plus the launch latency.
        stream_ready_ns: End of its predecessor in the stream; 0: none.
        event_ready_ns: When the last event that it waits for was over; 0: none.
        peers_ready_ns: Collectives: start of the last rank; otherwise 0.
        compute_ns: CPU time that computing the result took. Above the simulated time it made the operation longer.
        late_ns: How long after ``end_ns`` the result was there: a host that waits for it waits that much longer.
        bytes: Read and written.
        flops: Floating-point operations, for the tensor queue.
        correlation: As on the runtime call and the operation in a trace.
        idle_before_ns: Since the previous operation of the queue ended.
        idle_reason: Position in ``IDLE_REASONS``: what ended last before the operation started.
        names: Texts for ``name``.
        kinds: Texts for ``kind``.
        dropped: Operations that are missing because the log was full.
    """

    device: Integers
    queue: Integers
    kind: Integers
    name: Integers
    stream: Integers
    start_ns: Integers
    end_ns: Integers
    launch_ns: Integers
    arrival_ns: Integers
    stream_ready_ns: Integers
    event_ready_ns: Integers
    peers_ready_ns: Integers
    compute_ns: Integers
    late_ns: Integers
    bytes: Integers
    flops: Integers
    correlation: Integers
    idle_before_ns: Integers
    idle_reason: Integers
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    dropped: int

    def __len__(self) -> int:
        return len(self.start_ns)

    def busy_ns(self, device: int, start_ns: int, end_ns: int) -> int:
        """How much of [start_ns, end_ns) at least one queue of the device was busy."""
        mine = self.device == device
        order = np.argsort(self.start_ns[mine], kind="stable")
        starts = np.clip(self.start_ns[mine][order], start_ns, end_ns)
        ends = np.clip(self.end_ns[mine][order], start_ns, end_ns)
        # What ended latest among the earlier ones; an operation adds only what lies beyond that.
        covered = np.maximum.accumulate(np.concatenate(([start_ns], ends)))[:-1] if len(ends) else ends
        return int(np.maximum(0, ends - np.maximum(starts, covered)).sum())


_PLAIN = (
    "device", "queue", "kind", "name", "stream", "start_ns", "end_ns", "launch_ns", "arrival_ns", "stream_ready_ns",
    "event_ready_ns", "peers_ready_ns", "compute_ns", "late_ns", "bytes", "flops", "correlation",
)  # fmt: skip


def from_columns(columns: dict[str, Any], *, dropped: int) -> EngineLog:
    """Sorts the log as the device wrote it (in order of completion) and tells why each queue was idle."""
    raw: dict[str, Integers] = {name: np.asarray(columns[name], dtype=np.int64) for name in _PLAIN}
    order = np.lexsort((raw["end_ns"], raw["start_ns"], raw["queue"], raw["device"]))
    rows = {name: values[order] for name, values in raw.items()}
    first = np.ones(len(order), dtype=bool)
    first[1:] = (rows["queue"][1:] != rows["queue"][:-1]) | (rows["device"][1:] != rows["device"][:-1])
    idle = np.zeros(len(order), dtype=np.int64)
    idle[1:] = rows["start_ns"][1:] - rows["end_ns"][:-1]
    idle[first] = 0
    return EngineLog(
        **rows,
        idle_before_ns=idle,
        idle_reason=_idle_reasons(rows, first, idle),
        names=tuple(columns["names"]),
        kinds=("kernel", "memcpy", "memset", "collective"),
        dropped=dropped,
    )


def _idle_reasons(rows: dict[str, Integers], first: NDArray[np.bool_], idle: Integers) -> Integers:
    # On a tie the host is not to blame: the operation would not have started earlier had it been launched earlier.
    ends = np.stack([rows["event_ready_ns"], rows["stream_ready_ns"], rows["arrival_ns"]])
    names = np.array([IDLE_REASONS.index(name) for name in ("event", "blocked", "empty")], dtype=np.int64)
    reasons: Integers = names[np.argmax(ends, axis=0)]
    reasons[idle <= 0] = IDLE_REASONS.index("none")
    reasons[first] = IDLE_REASONS.index("first")
    return reasons
