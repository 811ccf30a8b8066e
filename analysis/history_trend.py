"""Since when is it slower? Where a series of runs changes its level, and whether it creeps.

Change points are found by binary segmentation with Pettitt's rank statistic (1979), whose significance is that among
random orders of the same runs: one slow run is no change, and no distribution is assumed. Creeping is Mann's test for
a trend (1945), with Theil's slope (1950), over the runs since the last change.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

LEAST_RUNS = 3
"""On either side of a change: two slow runs in a row are not yet one."""

SIGNIFICANCE = 0.01
ORDERS = 2000
"""Random orders that a series is held against."""


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """A run from which on the level is another.

    Attributes:
        index: The first run of the new level.
        before: Median of the level before.
        after: Median of the level from there on.
        p_value: How often a random order of the same runs changes as much.
    """

    index: int
    before: float
    after: float
    p_value: float

    @property
    def change_frac(self) -> float | None:
        """The change as a share of the level before; None where that is 0."""
        return self.after / self.before - 1 if self.before else None


@dataclass(frozen=True, slots=True)
class Trend:
    """Whether the runs since the last change creep.

    Attributes:
        runs: How many they are.
        per_run_frac: The typical change from one run to the next, as a share of their median; None with fewer than
            four runs or a median of 0.
        p_value: How likely a series without trend rises or falls as steadily; None in the same cases.
    """

    runs: int
    per_run_frac: float | None
    p_value: float | None

    @property
    def creeps(self) -> bool:
        """Whether it is more than chance."""
        return self.p_value is not None and self.p_value < SIGNIFICANCE


def change_points(values: Sequence[float], *, seed: int = 0) -> tuple[ChangePoint, ...]:
    """The runs at which a series changes its level, in order.

    Args:
        values: One a run, in the order of time.
        seed: Of the random orders.
    """
    series = np.asarray(values, dtype=np.float64)
    rng = np.random.default_rng(seed)
    found: dict[int, float] = {}
    open_parts = [(0, len(series))]
    while open_parts:
        start, end = open_parts.pop()
        place, p_value = _change(series[start:end], rng)
        if p_value < SIGNIFICANCE:
            found[start + place] = p_value
            open_parts += [(start, start + place), (start + place, end)]
    edges = [0, *sorted(found), len(series)]
    levels = [float(np.median(series[a:b])) for a, b in pairwise(edges) if b > a]
    return tuple(ChangePoint(at, levels[n], levels[n + 1], found[at]) for n, at in enumerate(edges[1:-1]))


def trend(values: Sequence[float]) -> Trend:
    """Whether a series of one level creeps."""
    series = np.asarray(values, dtype=np.float64)
    middle = float(np.median(series)) if len(series) else 0.0
    if len(series) < 4 or not middle:
        return Trend(len(series), None, None)
    from scipy import stats

    slope = float(stats.theilslopes(series)[0])
    p_value = float(stats.kendalltau(np.arange(len(series)), series).pvalue)
    return Trend(len(series), slope / middle, None if math.isnan(p_value) else p_value)


def spread_frac(values: Sequence[float], changes: Sequence[ChangePoint]) -> float | None:
    """How much runs of one level differ, as a share: the pooled standard deviation of their logs.

    None where no level has two runs, or a value is not positive.
    """
    series = np.asarray(values, dtype=np.float64)
    if not len(series) or series.min() <= 0:
        return None
    edges = [0, *(change.index for change in changes), len(series)]
    parts = [np.log(series[a:b]) for a, b in pairwise(edges) if b - a > 1]
    freedom = sum(len(part) - 1 for part in parts)
    return math.sqrt(sum(float(part.var(ddof=1)) * (len(part) - 1) for part in parts) / freedom) if freedom else None


def _change(series: NDArray[np.float64], rng: np.random.Generator) -> tuple[int, float]:
    """The likeliest change of a part, and its significance; 1.0 where there are too few runs to have one."""
    if len(series) < 2 * LEAST_RUNS:
        return 0, 1.0
    from scipy import stats

    ranks = np.asarray(stats.rankdata(series), dtype=np.float64) - (len(series) + 1) / 2
    score = _scores(ranks[None, :])[0]
    best = int(score.argmax())
    others = _scores(rng.permuted(np.broadcast_to(ranks, (ORDERS, len(ranks))), axis=1)).max(axis=1)
    as_much = int((others >= score[best] - 1e-9).sum())
    return best + LEAST_RUNS, (as_much + 1) / (ORDERS + 1)


def _scores(ranks: NDArray[np.float64]) -> NDArray[np.float64]:
    """Per row and place of a cut how far the ranks before it are from the middle, in its standard deviations."""
    count = ranks.shape[1]
    before = np.arange(LEAST_RUNS, count - LEAST_RUNS + 1)
    sums = np.cumsum(ranks, axis=1)[:, before - 1]
    scores: NDArray[np.float64] = np.abs(sums) / np.sqrt(before * (count - before) / count)
    return scores
