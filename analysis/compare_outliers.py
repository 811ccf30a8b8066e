"""Steps and runs far from the others: named, never dropped.

By the modified z-score of Iglewicz and Hoaglin (How to Detect and Handle Outliers, 1993): the distance from the median
in median absolute deviations. It works on small samples, where one value can move mean and standard deviation at will.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .run_facts import LaneMeasures, RunMeasures

LIMIT = 3.5
"""The score from which they call a value an outlier."""

NORMAL = 0.6745
"""The median absolute deviation of a standard normal distribution."""

FEWEST = 5
"""With fewer values there is no telling which of them are the usual ones."""

WORTH_FRAC = 0.1
"""What lies closer to the median than this is no outlier, however alike the others are."""

LAST = "the last step ends with its last operation: the wait before the next one is not in it"


@dataclass(frozen=True, slots=True)
class Outlier:
    """A step, or a whole run, far from the others.

    Attributes:
        side: ``base`` or ``new``.
        run: Name of the run.
        rank: The rank; None for a run.
        step: The step's number; None for a run.
        ns: How long it took; of a run, its median step.
        typical_ns: The median of those that it is among.
        note: What is known about it; "" for nothing.
    """

    side: Literal["base", "new"]
    run: str
    rank: int | None
    step: int | None
    ns: int
    typical_ns: int
    note: str


def outliers(side: Literal["base", "new"], runs: Sequence[RunMeasures]) -> tuple[Outlier, ...]:
    """The runs of a side that are far from its other runs, then the steps far from their run's, farthest first."""
    values = [(run, run.median_step_ns) for run in runs]
    known = [(run, value) for run, value in values if value is not None]
    found = [
        Outlier(side, known[place][0].name, None, None, known[place][1], typical, "")
        for place, typical in far_from_others([value for _, value in known])
    ]
    steps = [one for run in runs if run.unit == "step" for lane in run.lanes for one in _steps(side, run, lane)]
    return (*found, *sorted(steps, key=lambda one: -abs(one.ns - one.typical_ns)))


def _steps(side: Literal["base", "new"], run: RunMeasures, lane: LaneMeasures) -> list[Outlier]:
    last = len(lane.steps_ns) - 1
    ends_there = lane.basis == "device" and max(lane.numbers, default=0) > max(run.left_out, default=-1)
    return [
        Outlier(
            side, run.name, lane.rank, lane.numbers[place], lane.steps_ns[place], typical,
            LAST if place == last and ends_there and lane.steps_ns[place] < typical else "",
        )
        for place, typical in far_from_others(lane.steps_ns)
    ]  # fmt: skip


def far_from_others(values: Sequence[int]) -> list[tuple[int, int]]:
    """The places of the outliers among the values, each with the median of all; none among fewer than ``FEWEST``."""
    if len(values) < FEWEST:
        return []
    typical = _median(values)
    spread = _median([abs(value - typical) for value in values])
    return [
        (place, typical)
        for place, value in enumerate(values)
        if NORMAL * abs(value - typical) > LIMIT * spread and abs(value - typical) > WORTH_FRAC * typical
    ]


def _median(values: Sequence[int]) -> int:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) // 2
