"""Which steady steps of a run count: whole ones, and in a comparison those that all of its runs have.

A recording's last step ends on a device with its last operation, so that the wait before the next one is missing: where
enough other steps remain, it is left out. Only over the same steps is a difference of means a difference: batches, and
with them shapes, often follow the number.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .device_activity import rank_activity
from .run_facts import RunMeasures
from .steps import device_steps, host_steps, only_steps
from .timeline import pass_on

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

LEAST_STEPS = 3
"""So many steps must remain where one is left out."""

_KNOWN_OF_ANY_STEPS = frozenset(
    {
        "timeline", "activity", "row_lines", "stack_lines", "executing_lines", "sampled_lines", "stall_rows",
        "line_finder",
    }
)  # fmt: skip
"""What does not depend on which steps count, and takes long to work out."""


@dataclass(frozen=True, slots=True)
class SteadySteps:
    """The steady steps of one run that may count.

    Attributes:
        numbers: Those that every device with steady steps has.
        others: Those that only some have.
        left_out: The last step, where the recording cuts it off and enough others remain.
        fixed: Whether the run is a summary, of which no step can be taken out.
    """

    numbers: frozenset[int]
    others: frozenset[int] = frozenset()
    left_out: frozenset[int] = frozenset()
    fixed: bool = False


def steady_steps(recording: Recording, ranks: Sequence[int]) -> SteadySteps:
    """The steady steps of some ranks of a recording."""
    numbers: list[frozenset[int]] = []
    cut_off: set[int] = set()
    for rank in ranks:
        host = host_steps(recording, rank)
        last = int(host.numbers[-1]) if len(host) else None
        for device in rank_activity(recording, rank).devices:
            cut = device_steps(recording, rank, device)
            chosen = [at for at, steady in enumerate(cut.steady) if steady and cut.ends[at] > cut.starts[at]]
            if not chosen:
                continue
            numbers.append(frozenset(int(cut.numbers[at]) for at in chosen))
            if cut.basis == "device" and int(cut.numbers[chosen[-1]]) == last:
                cut_off.add(last)
    common = frozenset.intersection(*numbers) if numbers else frozenset()
    left_out = frozenset(cut_off) if len(common - cut_off) >= LEAST_STEPS else frozenset()
    return SteadySteps(common - left_out, frozenset().union(*numbers) - common, left_out)


def steps_of_summary(measures: RunMeasures) -> SteadySteps:
    """The steady steps that a summary is about."""
    return SteadySteps(frozenset(measures.step_numbers if measures.unit == "step" else ()), fixed=True)


def shared_steps(runs: Sequence[SteadySteps]) -> frozenset[int] | None:
    """The numbers to compare all runs over; None where each is compared over its own.

    That is so where they have the same steps to begin with, or share fewer than ``LEAST_STEPS``, or where a summary has
    others, of which none can be taken out.
    """
    common = frozenset.intersection(*(run.numbers for run in runs)) if runs else frozenset()
    if len(common) < LEAST_STEPS or any(run.fixed and run.numbers != common for run in runs):
        return None
    return None if all(run.numbers == common and not run.others for run in runs) else common


def counted(recording: Recording, ranks: Sequence[int], numbers: frozenset[int] | None) -> Recording:
    """The recording with only those steady steps that are to count: these, or all but one that is cut off."""
    steps = steady_steps(recording, ranks)
    if numbers is None and steps.left_out:
        numbers = (steps.numbers | steps.others) - steps.left_out
    return recording if numbers is None else of_steps(recording, numbers)


def of_steps(recording: Recording, numbers: frozenset[int]) -> Recording:
    """The recording as if only steady steps of these numbers counted."""
    view = copy.copy(recording)
    pass_on(recording, view, _KNOWN_OF_ANY_STEPS)
    only_steps(view, numbers)
    return view
