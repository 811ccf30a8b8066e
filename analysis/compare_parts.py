"""Means in whole nanoseconds that still add up: why one mean step is longer than another, part by part.

A mean of integers is rarely an integer, and means that are rounded one by one do not add up. So the whole is rounded to
the nearest nanosecond and the parts are rounded down, and what is left goes to the parts with the largest remainders:
no part is off by a nanosecond or more, and the parts of a mean step, and the differences of two, add up exactly.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from .run_facts import RunMeasures

K = TypeVar("K", bound=Hashable)


def nearest(total: int, count: int) -> int:
    """The quotient to the nearest integer, halves up; exact for any size."""
    return (2 * total + count) // (2 * count)


def mean_parts(sums: Mapping[K, int], count: int) -> dict[K, int]:
    """Each sum over ``count`` as an integer, such that they add up to the mean of the whole to the nearest integer.

    >>> mean_parts({"compute": 10, "stall": 11, "copy": 12}, 10)
    {'compute': 1, 'stall': 1, 'copy': 1}
    >>> mean_parts({"compute": 15, "stall": 14}, 10)
    {'compute': 2, 'stall': 1}

    Raises:
        ValueError: The count is not positive.
    """
    if count < 1:
        raise ValueError(f"a mean over {count} has no meaning")
    whole = nearest(sum(sums.values()), count)
    means = {key: value // count for key, value in sums.items()}
    by_remainder = sorted(sums, key=lambda key: -(sums[key] % count))
    for key in by_remainder[: whole - sum(means.values())]:
        means[key] += 1
    return means


def mean_over_runs(runs: Sequence[Mapping[K, int]]) -> dict[K, int]:
    """The mean of several runs' parts, a part that a run lacks being 0 there; adds up as in ``mean_parts``."""
    sums: dict[K, int] = {}
    for run in runs:
        for key, value in run.items():
            sums[key] = sums.get(key, 0) + value
    return mean_parts(sums, len(runs))


def mean_step(runs: Sequence[RunMeasures]) -> dict[tuple[str, str], int]:
    """The mean step of a side by (state, root cause), ns: the mean of its runs' mean steps, each run counting once."""
    return mean_over_runs([mean_parts(run.parts, run.device_steps) for run in runs if run.device_steps])


@dataclass(frozen=True, slots=True)
class PartDifference:
    """One state, or one root cause of it, in the mean step of both sides.

    Attributes:
        state: compute, communication, data_movement or stall.
        cause: Root cause; "" for a state as a whole.
        base_ns: In the base side's mean step.
        new_ns: In the new side's.
        difference_ns: New minus base.
    """

    state: str
    cause: str
    base_ns: int
    new_ns: int
    difference_ns: int


def by_cause(spots: Mapping[tuple[str, str, K], int]) -> dict[tuple[str, str], int]:
    """Sums by state and root cause of what is known more finely."""
    sums: dict[tuple[str, str], int] = {}
    for (state, cause, _), ns in spots.items():
        sums[state, cause] = sums.get((state, cause), 0) + ns
    return sums


def part_differences(
    base: Mapping[tuple[str, str], int], new: Mapping[tuple[str, str], int]
) -> tuple[PartDifference, ...]:
    """Every (state, root cause) of either side, the largest difference first; they add up to that of the wholes."""
    rows = [
        PartDifference(state, cause, base.get((state, cause), 0), new.get((state, cause), 0), 0)
        for state, cause in sorted(base.keys() | new.keys())
    ]
    rows = [replace(row, difference_ns=row.new_ns - row.base_ns) for row in rows]
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_ns)))


def state_differences(parts: Sequence[PartDifference], states: Sequence[str]) -> tuple[PartDifference, ...]:
    """The same, state by state in the order given."""
    found = []
    for state in states:
        mine = [part for part in parts if part.state == state]
        base, new = sum(part.base_ns for part in mine), sum(part.new_ns for part in mine)
        found.append(PartDifference(state, "", base, new, new - base))
    return tuple(found)
