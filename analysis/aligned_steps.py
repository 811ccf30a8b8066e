"""Which steps of two recordings to lay side by side: the same number where both have it, else a typical one of each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .steps import StepCut
from .timeline_outline import timeline_outline
from .typical_step import typical_step

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording


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


def aligned_steps(
    base: Recording, new: Recording, *, rank: int | None = None, step: int | None = None
) -> tuple[AlignedStep, AlignedStep]:
    """A step of each recording: the same number where both have it, else a typical one of each.

    Args:
        base: One recording.
        new: The other.
        rank: The rank to look at; its first where a recording lacks it.
        step: The step to look at; the typical one of ``new`` by default.
    """
    ranks = [rank if rank in one.ranks else one.ranks[0] for one in (base, new)]
    cuts = [_cut(one, which) for one, which in zip((base, new), ranks, strict=True)]
    if step is None or step not in cuts[1].numbers.tolist():
        typical = typical_step(new, ranks[1])
        step = None if typical is None else typical.step
    second = _step(new, ranks[1], cuts[1], step)
    return _step(base, ranks[0], cuts[0], second.step), second


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
