"""Which steps of two recordings to lay side by side: one that is typical of both, else a typical one of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .steps import StepCut
from .timeline_outline import timeline_outline
from .typical_step import typical_step

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

MOST_OFF_FRAC = 0.25
"""A step whose length is further than this from the median no longer stands for the others."""

_NO_COMMON = "The two have no step number in common: each shows a typical step of its own."
_NONE_TYPICAL = "No step that both have is typical of both: each shows a typical step of its own."
_ONE_LACKS = "Only one of the two has step {}: the other shows a typical step of its own."


@dataclass(frozen=True, slots=True)
class AlignedStep:
    """A step of one of the two.

    Attributes:
        rank: Whose it is.
        step: Its number; None where the rank has no steps, and the step is all that it did.
        start: Where its first device (or its host, without a device) begins it, ns.
        end: Where that ends it, ns.
    """

    rank: int
    step: int | None
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class AlignedSteps:
    """The two steps.

    Attributes:
        base: That of one recording.
        new: That of the other.
        note: Why their numbers differ, in a sentence; "" where they are the same, or where one has no steps.
    """

    base: AlignedStep
    new: AlignedStep
    note: str


def aligned_steps(base: Recording, new: Recording, *, rank: int | None = None, step: int | None = None) -> AlignedSteps:
    """A step of each recording: of the same number where one is typical of both, else a typical one of each.

    Typical is a steady step whose length lies within ``MOST_OFF_FRAC`` of the median of the rank's steady steps. Of
    those that are it in both, the one that is furthest from its median in neither is taken.

    Args:
        base: One recording.
        new: The other.
        rank: The rank to look at; its first where a recording lacks it.
        step: The step to look at, typical or not; one that is typical by default, and where none has that number.
    """
    ranks = [rank if rank in one.ranks else one.ranks[0] for one in (base, new)]
    cuts = [_cut(one, which) for one, which in zip((base, new), ranks, strict=True)]
    known = [set(cut.numbers.tolist()) for cut in cuts]
    note, chosen = "", step
    if step is None or not any(step in numbers for numbers in known):
        chosen = _typical_of_both(*cuts)
        if chosen is None and all(known):
            note = _NONE_TYPICAL if known[0] & known[1] else _NO_COMMON
    elif all(known) and not all(step in numbers for numbers in known):
        note = _ONE_LACKS.format(step)
    return AlignedSteps(_step(base, ranks[0], cuts[0], chosen), _step(new, ranks[1], cuts[1], chosen), note)


def _typical_of_both(base: StepCut, new: StepCut) -> int | None:
    offs = [_off_median(cut) for cut in (base, new)]
    common = sorted(offs[0].keys() & offs[1].keys())
    worst = {number: max(off[number] for off in offs) for number in common}
    best = min(common, key=lambda number: worst[number], default=None)
    return best if best is not None and worst[best] <= MOST_OFF_FRAC else None


def _off_median(cut: StepCut) -> dict[int, float]:
    """How far the length of each steady step (of each, where none is steady) is from their median, by number."""
    steady = np.flatnonzero(np.array(cut.steady, dtype=np.bool_))
    among = steady if len(steady) else np.arange(len(cut))
    if not len(among):
        return {}
    dur = (cut.ends - cut.starts)[among]
    median = max(int(np.sort(dur)[(len(dur) - 1) // 2]), 1)
    return dict(zip(cut.numbers[among].tolist(), (np.abs(dur - median) / median).tolist(), strict=True))


def _cut(recording: Recording, rank: int) -> StepCut:
    outline = timeline_outline(recording)
    devices = outline.devices_of(rank)
    return outline.device_steps[devices[0]] if devices else outline.host_steps[rank]


def _step(recording: Recording, rank: int, cut: StepCut, step: int | None) -> AlignedStep:
    numbers = cut.numbers.tolist()
    if numbers and step not in numbers:
        typical = typical_step(recording, rank)
        step = typical.step if typical is not None else numbers[0]
    if step in numbers:
        at = numbers.index(step)
        return AlignedStep(rank, step, int(cut.starts[at]), int(cut.ends[at]))
    bands = timeline_outline(recording).bands.index
    rows = [n for n, track in enumerate(bands.tracks) if track.rank == rank]
    starts = [int(bands.start[bands.row_start[n]]) for n in rows]
    ends = [int(bands.end[bands.row_start[n + 1] - 1]) for n in rows]
    return AlignedStep(rank, None, min(starts, default=0), max(ends, default=0))
