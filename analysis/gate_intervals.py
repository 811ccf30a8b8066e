"""How well the figure is known that a budget is about: the interval that must lie over the limit to break it.

Times and shares differ from run to run of the same code, so their interval comes from the spread between runs (see
``run_statistics``): of both sides, of the one side that has enough runs, or one that was supplied. Counts and sizes are
exact: their interval is from the least that a run has to the most, and the baseline is the most that it ever had.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .run_statistics import MINIMUM_RUNS, half_width, quantile

Basis = Literal["runs of both sides", "baseline runs", "new runs", "supplied spread", "every run", "none"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure of the new runs, and how well it is known in comparison with the baseline.

    Attributes:
        value: The figure, in the unit of its measure.
        low: Lower end of its 95 % interval, which takes in the uncertainty of the baseline; None: not known.
        high: Upper end.
        base: The baseline's figure; None without one.
        basis: What the interval is from.
        run_sd_frac: The spread from run to run that it rests on, as a share of the figure; None for exact ones.
    """

    value: float
    low: float | None
    high: float | None
    base: float | None
    basis: Basis
    run_sd_frac: float | None = None


def exact_interval(new: Sequence[float], base: Sequence[float]) -> Interval:
    """From the least of the new runs to the most; the baseline is the most of its runs."""
    return Interval(max(new), min(new), max(new), max(base) if base else None, "every run")


def timed_interval(
    new: Sequence[float],
    base: Sequence[float],
    *,
    ratio: bool,
    relative: bool,
    factor: float,
    run_sd_frac: float | None,
) -> Interval:
    """The figure of the new runs, with the interval that it must be judged by.

    A ratio is of figures averaged as logs; shares, and figures of which a run has 0, are averaged as they are.

    Args:
        new: A figure a run.
        base: The baseline's; may be empty.
        ratio: Whether sides are compared by their ratio, as times are.
        relative: Whether the limit comes from the baseline, whose uncertainty then counts.
        factor: What the limit multiplies the baseline's figure with.
        run_sd_frac: A supplied spread from run to run; used where no side has enough runs.
    """
    logs = ratio and min(*new, *base, math.inf) > 0
    sides = [np.log(side) if logs and len(side) else np.asarray(side, dtype=np.float64) for side in (new, base)]
    value = float(sides[0].mean())
    scale = 1.0 if logs else factor
    sd, freedom, basis = _spread(sides, logs, run_sd_frac)
    if relative and len(base):
        half, used, _ = half_width(scale * sides[1], sides[0], sd, freedom=freedom)
        enough = min(len(new), len(base)) >= MINIMUM_RUNS
        basis = "runs of both sides" if enough else basis
    else:
        half, used, basis = _one_sided(sides[0], sd, freedom, basis)
    base_value = _back(float(sides[1].mean()), logs) if len(base) else None
    if half is None:
        return Interval(_back(value, logs), None, None, base_value, "none")
    spread = used if logs else used / abs(value) if value else None
    low = max(_back(value - half, logs), 0.0)  # no time and no share is less than nothing
    return Interval(_back(value, logs), low, _back(value + half, logs), base_value, basis, spread)


def _spread(
    sides: list[NDArray[np.float64]], logs: bool, supplied: float | None
) -> tuple[float | None, int | None, Basis]:
    """The spread of single runs for where not both sides show it, its degrees of freedom, and what it is from."""
    names: tuple[Basis, Basis] = ("new runs", "baseline runs")
    order = sorted((0, 1), key=lambda place: -sides[place].size)
    most = sides[order[0]]
    if most.size >= MINIMUM_RUNS:
        return float(most.std(ddof=1)), most.size - 1, names[order[0]]
    if supplied is None:
        return None, None, "none"
    return (supplied if logs else supplied * abs(float(sides[0].mean()))), None, "supplied spread"


def _one_sided(
    new: NDArray[np.float64], sd: float | None, freedom: int | None, basis: Basis
) -> tuple[float | None, float, Basis]:
    """Half the interval of the new side's mean alone, for a limit that no baseline takes part in."""
    if new.size >= MINIMUM_RUNS:
        sd, freedom, basis = float(new.std(ddof=1)), new.size - 1, "new runs"
    if sd is None:
        return None, 0.0, "none"
    return quantile(freedom) * sd / math.sqrt(new.size), sd, basis


def _back(value: float, logs: bool) -> float:
    return math.exp(value) if logs else value
