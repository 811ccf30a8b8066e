"""Which part of a recording a table is about: steady steps, one step, a window, or everything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..profiler.recording.errors import UsageError
from .device_activity import DeviceActivity
from .nesting import Ints, Mask
from .steps import StepCut, device_steps, host_steps

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

Window = tuple[int, int]

EVERYTHING = "the whole recording"


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """A set of disjoint half-open windows, rising; what starts inside one belongs to it as a whole.

    Attributes:
        starts: Where each begins, ns.
        ends: Where each ends, ns.
        text: What was chosen and why, in words.
        steps: How many steps it holds; 0 where steps played no part.
    """

    starts: Ints
    ends: Ints
    text: str
    steps: int

    def holds(self, ts: Ints) -> Mask:
        """Which instants lie inside."""
        if not len(self.starts):
            return np.zeros(len(ts), dtype=np.bool_)
        place = np.searchsorted(self.starts, ts, side="right") - 1
        inside: Mask = (place >= 0) & (ts < self.ends[np.maximum(place, 0)])
        return inside


def host_selection(
    recording: Recording, rank: int, *, step: int | None = None, window: Window | None = None, everything: bool = False
) -> Selection:
    """The chosen part of a rank by its host's steps; see ``select``."""
    return select(host_steps(recording, rank), rank, step=step, window=window, everything=everything)


def device_selection(
    recording: Recording,
    rank: int,
    device: DeviceActivity,
    *,
    step: int | None = None,
    window: Window | None = None,
    everything: bool = False,
) -> Selection:
    """The chosen part of a rank by the steps as a device ran them; see ``select``."""
    return select(device_steps(recording, rank, device), rank, step=step, window=window, everything=everything)


def select(
    cut: StepCut, rank: int, *, step: int | None = None, window: Window | None = None, everything: bool = False
) -> Selection:
    """A window if one is given, else a step if one is given, else the steady steps, else everything.

    Steady steps are those that are neither preparation nor warm-up. Without steps, or where none is steady, it is the
    whole recording.

    Raises:
        UsageError: Both a step and a window are given, the window ends before it starts, or the rank lacks the step.
    """
    if step is not None and window is not None:
        raise UsageError("a step and a window exclude each other.", hint="Give one of the two.")
    if window is not None:
        if window[1] < window[0]:
            raise UsageError(f"the window {window} ends before it starts.")
        return _windows([window[0]], [window[1]], f"the window {window[0]}..{window[1]} ns", 0)
    if step is not None:
        chosen = np.flatnonzero(cut.numbers == step)
        if not len(chosen):
            known = ", ".join(str(n) for n in cut.numbers.tolist()) or "no steps"
            raise UsageError(f"rank {rank} has no step {step}; it has {known}.")
        return Selection(cut.starts[chosen], cut.ends[chosen], f"step {step}", 1)
    steady = np.flatnonzero(np.array(cut.steady, dtype=np.bool_))
    if everything or not len(steady):
        why = "" if everything else (": no step is steady" if len(cut) else ": it has no steps")
        far = np.iinfo(np.int64)
        return _windows([far.min], [far.max], EVERYTHING + why, 0)
    text = f"{len(steady)} steady steps" if len(steady) != 1 else "1 steady step"
    if len(steady) < len(cut):
        text += f" of {len(cut)}"
    return Selection(cut.starts[steady], cut.ends[steady], text, len(steady))


def _windows(starts: list[int], ends: list[int], text: str, steps: int) -> Selection:
    return Selection(np.array(starts, dtype=np.int64), np.array(ends, dtype=np.int64), text, steps)
