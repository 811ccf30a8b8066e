"""Whether memory grows from step to step, and by how much.

What is compared is the least that a device held within each step: activations come and go, what stays at the low point
is kept. Steady steps only, since the first ones build up optimizer state and caches.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pandas as pd

from .columns import nullable_ints, texts
from .memory import held_bytes
from .memory_blocks import memory_events
from .nesting import Ints
from .steps import StepCut, host_steps

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

GrowthVerdict = Literal["grows", "shrinks", "steady", "cannot tell"]

STEPS_NEEDED = 6
"""Steady steps from which there is a verdict: five changes of one sign happen by chance once in 32 times."""

CHANCE = 0.05

WORTH_FRAC = 1e-4
"""The least change of a step that is called growth: of the most that was held, so that it would take 10,000 steps to
double it, and of what a step allocates. Below it are counters, logs and the allocator's own rounding."""


@dataclass(frozen=True, slots=True)
class MemoryGrowth:
    """Whether what a device holds changes from step to step.

    Attributes:
        rank: The rank.
        device_type: As in the table ``memory``.
        device_index: As in the table ``memory``; None for the host.
        steps: Steady steps with a known level.
        bytes_per_step: The median change of the least held bytes from one steady step to the next.
        total_bytes: From the first to the last steady step.
        grew: Changes upwards.
        shrank: Changes downwards.
        verdict: "grows" or "shrinks" if so many changes of one sign would come about by chance less than once in twenty
            times, the whole goes that way, and its mean per step is at least ``WORTH_FRAC`` of the most held and of
            what a step allocates; "steady" if nothing changes at all, the changes have no direction, or they are less;
            "cannot tell" with fewer than ``STEPS_NEEDED`` steps.
        note: The verdict in words, with the numbers that it rests on.
    """

    rank: int
    device_type: str
    device_index: int | None
    steps: int
    bytes_per_step: int
    total_bytes: int
    grew: int
    shrank: int
    verdict: GrowthVerdict
    note: str


def memory_steps(recording: Recording, *, rank: int | None = None) -> pd.DataFrame:
    """What each device held in each step, by the host's steps.

    Args:
        recording: The recording.
        rank: One rank; all by default.

    Returns:
        One row a rank, device and step: rank, device_type, device_index (null: the host), step, phase, least_bytes,
        most_bytes, end_bytes (held when the step ended), change_bytes (of least_bytes against the step before; null for
        the first), basis ("allocator" or "seen", see ``memory.DeviceMemory``).
    """
    columns: dict[str, list[object]] = {}
    names = ("rank", "device_type", "index", "step", "phase", "least", "most", "end", "change", "basis")
    for name in names:
        columns[name] = []
    for one in recording.ranks if rank is None else (rank,):
        cut = host_steps(recording, one)
        for device, (kind, index) in enumerate(memory_events(recording, one).devices):
            least, most, end = _levels(recording, one, device, cut)
            columns["rank"] += [one] * len(cut)
            columns["device_type"] += [kind] * len(cut)
            columns["index"] += [-1 if index is None else index] * len(cut)
            columns["step"] += cut.numbers.tolist()
            columns["phase"] += cut.phases
            columns["least"] += least.tolist()
            columns["most"] += most.tolist()
            columns["end"] += end.tolist()
            columns["change"] += np.diff(least, prepend=least[:1]).tolist()
            columns["basis"] += [held_bytes(recording, one, device).basis] * len(cut)
    index_column, change = (np.array(columns[c], dtype=np.int64) for c in ("index", "change"))
    rows = np.arange(len(index_column))
    frame = pd.DataFrame(
        {
            "rank": np.array(columns["rank"], dtype=np.int64),
            "device_type": texts([str(v) for v in columns["device_type"]], rows),
            "device_index": nullable_ints(index_column, index_column >= 0),
            "step": np.array(columns["step"], dtype=np.int64),
            "phase": texts([str(v) for v in columns["phase"]], rows),
            "least_bytes": np.array(columns["least"], dtype=np.int64),
            "most_bytes": np.array(columns["most"], dtype=np.int64),
            "end_bytes": np.array(columns["end"], dtype=np.int64),
        }
    )
    first = ~frame.duplicated(["rank", "device_type", "device_index"]).to_numpy()
    frame["change_bytes"] = nullable_ints(change, ~first)
    frame["basis"] = texts([str(v) for v in columns["basis"]], rows)
    return frame


def memory_growth(recording: Recording, *, rank: int | None = None) -> tuple[MemoryGrowth, ...]:
    """Whether what each device holds grows over the steady steps; empty without memory events or steps."""
    found = []
    for one in recording.ranks if rank is None else (rank,):
        cut = host_steps(recording, one)
        if not len(cut):
            continue
        steady = np.array(cut.steady, dtype=np.bool_)
        for device, (kind, index) in enumerate(memory_events(recording, one).devices):
            least, most, _ = _levels(recording, one, device, cut)
            allocated = _allocated(recording, one, device, cut)[steady]
            floor = max(int(most.max()), _typical(allocated)) * WORTH_FRAC
            found.append(_verdict(one, kind, index, least[steady], floor))
    return tuple(found)


def _levels(recording: Recording, rank: int, device: int, cut: StepCut) -> tuple[Ints, Ints, Ints]:
    """The least and most bytes held in each step, and those held at its end.

    The level with which a step begins counts for it too, so a step without an event has one.
    """
    held, ts = held_bytes(recording, rank, device), memory_events(recording, rank).ts
    levels = np.append(held.before, held.allocated)
    stamps = ts[held.position]
    low = np.searchsorted(stamps, cut.starts, side="left")
    high = np.searchsorted(stamps, np.maximum(cut.ends, cut.starts), side="left")
    least = np.array([levels[a : b + 1].min() for a, b in zip(low, high, strict=True)], dtype=np.int64)
    most = np.array([levels[a : b + 1].max() for a, b in zip(low, high, strict=True)], dtype=np.int64)
    return least, most, levels[high]


def _allocated(recording: Recording, rank: int, device: int, cut: StepCut) -> Ints:
    """The bytes of all allocations in each step."""
    events, at = memory_events(recording, rank), held_bytes(recording, rank, device).position
    sums = np.append(0, np.cumsum(np.maximum(events.bytes[at], 0)))
    low = np.searchsorted(events.ts[at], cut.starts, side="left")
    high = np.searchsorted(events.ts[at], np.maximum(cut.ends, cut.starts), side="left")
    allocated: Ints = sums[high] - sums[low]
    return allocated


def _typical(values: Ints) -> int:
    """The lower median; 0 of nothing."""
    return int(np.sort(values)[(len(values) - 1) // 2]) if len(values) else 0


def _verdict(rank: int, device_type: str, index: int | None, least: Ints, floor: float) -> MemoryGrowth:
    changes = np.diff(least)
    grew, shrank = int((changes > 0).sum()), int((changes < 0).sum())
    total = int(least[-1] - least[0]) if len(least) else 0
    verdict: GrowthVerdict = "steady"
    if len(least) < STEPS_NEEDED:
        verdict = "cannot tell"
        note = f"too few steady steps: {len(least)}, and it takes {STEPS_NEEDED}"
    elif not grew and not shrank:
        note = f"the least held is the same in all {len(least)} steady steps"
    else:
        by_chance = _at_least(max(grew, shrank), grew + shrank)
        note = f"up in {grew} and down in {shrank} of {len(changes)} changes, {total:+d} bytes in all"
        note += f"; by chance so one-sided in {by_chance:.1%} of cases"
        if by_chance < CHANCE and (total > 0) == (grew > shrank) and total:
            if abs(total) < floor * len(changes):
                note += "; too little beside what is held and what a step allocates to be growth"
            else:
                verdict = "grows" if total > 0 else "shrinks"
    return MemoryGrowth(rank, device_type, index, len(least), _typical(changes), total, grew, shrank, verdict, note)


def _at_least(successes: int, trials: int) -> float:
    """The chance of at least so many heads among fair coins (sign test, one-sided; normal above 500 coins)."""
    if trials > 500:
        return math.erfc((successes - 0.5 - trials / 2) / math.sqrt(trials / 2)) / 2
    ways = sum(math.comb(trials, k) for k in range(successes, trials + 1))
    return float(ways / 2**trials)
