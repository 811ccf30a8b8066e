"""What the device itself says of a run: the engine log, cut to the steps that are measured."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from ..simulated_accelerator import EngineLog

DEVICE = 0
WORK = "kernel"


@dataclass(frozen=True, slots=True)
class Truth:
    """Times in ns.

    Attributes:
        start_ns: Start of the first operation that was launched in a measured step or later.
        end_ns: The same for the first step after them.
        steps: Steps in between.
        idle_ns: How long no kernel ran: the device was idle, or only copied or communicated.
        operations: Operations that started in the window.
    """

    start_ns: int
    end_ns: int
    steps: int
    idle_ns: int
    operations: int

    @property
    def window_ns(self) -> int:
        """How long the steps took on the device."""
        return self.end_ns - self.start_ns

    def as_dict(self) -> dict[str, int]:
        """For JSON."""
        return asdict(self)


def truth(log: EngineLog, first_ns: int, after_ns: int, steps: int) -> Truth:
    """The truth of the steps that the host ran in [first_ns, after_ns).

    Raises:
        ValueError: The log lost operations, or nothing was launched after the steps.
    """
    if log.dropped:
        raise ValueError(f"the engine log lost {log.dropped} operations")
    mine = log.device == DEVICE
    starts = []
    for bound in (first_ns, after_ns):
        later = mine & (log.launch_ns >= bound)
        if not later.any():
            raise ValueError("the device got nothing to do after the measured steps")
        starts.append(int(log.start_ns[later].min()))
    start, end = starts
    work = mine & (log.kind == log.kinds.index(WORK))
    inside = mine & (log.start_ns >= start) & (log.start_ns < end)
    busy = _union(log.start_ns[work].clip(start, end), log.end_ns[work].clip(start, end))
    return Truth(start, end, steps, end - start - busy, int(inside.sum()))


def _union(starts: np.ndarray, ends: np.ndarray) -> int:
    order = np.argsort(starts, kind="stable")
    total, covered = 0, np.iinfo(np.int64).min
    for start, end in zip(starts[order].tolist(), ends[order].tolist(), strict=True):
        total += max(0, end - max(start, covered))
        covered = max(covered, end)
    return total
