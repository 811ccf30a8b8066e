"""Did the code get slower? Statistics in which the run, not the step, is the unit.

Steps of one run share a machine, a clock frequency, a memory layout and a page cache, and each step follows the one
before: a thousand steps of one run say little about the next run. So each run gives one number, and the spread between
runs gives the uncertainty. Within a run a moving-block bootstrap (Künsch 1989; blocks, since steps are autocorrelated)
says how well that one number is known.

With at least ``MINIMUM_RUNS`` runs a side the interval is Welch's (1947) for the difference of the means of log run
values, which reads as a ratio. Where only one side has as many, it is Student's, by that side's spread; with fewer it
needs a run-to-run variance from elsewhere; otherwise there is no verdict.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

MINIMUM_RUNS = 5
"""Runs a side from which the spread between runs is estimated: with fewer its own error swamps the answer."""

CONFIDENCE = 0.95
MOST_RUNS = 200
"""Beyond this many runs a side, ``runs_needed`` gives up: nobody would wait for them."""

SdSource = Literal["runs", "one side", "supplied", "none"]
Verdict = Literal["faster", "slower", "no difference beyond the margin", "cannot tell", "no verdict"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What two sets of runs say about each other.

    Attributes:
        verdict: ``no difference beyond the margin`` where the whole interval lies within the margin; ``faster`` or
            ``slower`` where it excludes no change and the ratio itself lies beyond the margin; ``cannot tell`` where it
            does neither; and ``no verdict`` where there are too few runs to know the spread between them.
        ratio: New over base, as the ratio of the geometric means of the runs' values.
        low: Lower end of the confidence interval of the ratio; null without one.
        high: Upper end; null without one.
        margin_frac: The difference that does not matter, as a share of base.
        runs_base: Runs of the base side.
        runs_new: Runs of the new side.
        run_sd_frac: Standard deviation from run to run, as a share; null where it is not known.
        sd_source: ``runs`` (from these), ``one side`` (from the runs of the side that has enough), ``supplied`` (by a
            history) or ``none``.
        runs_needed: Runs a side that would give a verdict if the figures stay; null where that is not the question.
        reason: The verdict in words.
    """

    verdict: Verdict
    ratio: float
    low: float | None
    high: float | None
    margin_frac: float
    runs_base: int
    runs_new: int
    run_sd_frac: float | None
    sd_source: SdSource
    runs_needed: int | None
    reason: str


def compare_runs(
    base: Sequence[float], new: Sequence[float], *, margin_frac: float = 0.02, run_sd_frac: float | None = None
) -> Comparison:
    """The verdict on two sets of runs, one positive value a run (the mean or median of its steady steps).

    Args:
        base: The base side's values.
        new: The new side's values, in the same unit.
        margin_frac: The difference that does not matter.
        run_sd_frac: Run-to-run standard deviation from a history, used where a side has too few runs to estimate it.
            Where none is given and one side has enough, the other's runs are taken to differ as much as that one's.

    Raises:
        ValueError: A side is empty, a value is not positive and finite, or the margin is negative.
    """
    logs_base, logs_new = _logs(base), _logs(new)
    if margin_frac < 0 or not math.isfinite(margin_frac):
        raise ValueError(f"the margin is {margin_frac}, expected a share of 0 or more")
    difference = float(logs_new.mean() - logs_base.mean())
    half, sd, source = _half_width(logs_base, logs_new, run_sd_frac)
    sizes = (margin_frac, len(base), len(new))
    ratio = math.exp(difference)
    if half is None:
        reason = (
            f"{len(base)} and {len(new)} runs: the spread between runs is not known. "
            f"{MINIMUM_RUNS} runs a side, or a history, would tell."
        )
        return Comparison("no verdict", ratio, None, None, *sizes, None, "none", MINIMUM_RUNS, reason)
    low, high = math.exp(difference - half), math.exp(difference + half)
    inner, outer = math.log1p(-min(margin_frac, 0.999)), math.log1p(margin_frac)
    verdict = _verdict(difference, half, inner, outer)
    needed = _runs_needed(difference, sd, inner, outer) if verdict == "cannot tell" else None
    reason = _reason(verdict, ratio, low, high, margin_frac, needed)
    return Comparison(verdict, ratio, low, high, *sizes, sd, source, needed, reason)


def _half_width(
    base: NDArray[np.float64], new: NDArray[np.float64], supplied: float | None
) -> tuple[float | None, float, SdSource]:
    """As ``half_width``, by the spread of the one side that has enough runs where no other is known."""
    few, many = sorted((base, new), key=lambda side: side.size)
    if supplied is None and few.size < MINIMUM_RUNS <= many.size:
        half, sd, _ = half_width(base, new, float(many.std(ddof=1)), freedom=many.size - 1)
        return half, sd, "one side"
    return half_width(base, new, supplied)


def _verdict(difference: float, half: float, inner: float, outer: float) -> Verdict:
    if inner <= difference - half and difference + half <= outer:
        return "no difference beyond the margin"
    if difference - half > 0 and difference > outer:
        return "slower"
    if difference + half < 0 and difference < inner:
        return "faster"
    return "cannot tell"


def _logs(values: Sequence[float]) -> NDArray[np.float64]:
    array = np.asarray(values, dtype=np.float64)
    if array.size == 0:
        raise ValueError("a side has no run")
    if not (np.isfinite(array).all() and (array > 0).all()):
        raise ValueError("a run's value is not positive and finite")
    return np.log(array)


def half_width(
    base: NDArray[np.float64], new: NDArray[np.float64], supplied: float | None, *, freedom: int | None = None
) -> tuple[float | None, float, Literal["runs", "supplied", "none"]]:
    """Half the confidence interval of the difference of two sides' means, the pooled spread, and where it is from.

    Args:
        base: A value a run; logs for a ratio.
        new: The new side's.
        supplied: Their standard deviation from run to run, for when there are too few runs to estimate it; None: not
            known.
        freedom: Degrees of freedom behind ``supplied``, where it was itself estimated from runs; None: it is known.
    """
    from scipy import stats

    if min(base.size, new.size) >= MINIMUM_RUNS:
        of_base, of_new = base.var(ddof=1) / base.size, new.var(ddof=1) / new.size
        error = math.sqrt(of_base + of_new)
        sd = math.sqrt((base.var(ddof=1) + new.var(ddof=1)) / 2)
        if error == 0:
            return 0.0, 0.0, "runs"
        # Welch-Satterthwaite degrees of freedom.
        degrees = error**4 / (of_base**2 / (base.size - 1) + of_new**2 / (new.size - 1))
        return float(stats.t.ppf((1 + CONFIDENCE) / 2, degrees)) * error, sd, "runs"
    if supplied is not None:
        return quantile(freedom) * supplied * math.sqrt(1 / base.size + 1 / new.size), supplied, "supplied"
    return None, 0.0, "none"


def quantile(freedom: int | None) -> float:
    """Student's t at the confidence level, two-sided; the normal distribution's where the spread is known."""
    from scipy import stats

    level = (1 + CONFIDENCE) / 2
    return float(stats.norm.ppf(level) if freedom is None else stats.t.ppf(level, freedom))


@lru_cache(maxsize=1)
def _quantiles() -> tuple[float, ...]:
    """Student's t at the confidence level, for MINIMUM_RUNS to MOST_RUNS runs a side."""
    from scipy import stats

    freedom = 2 * np.arange(MINIMUM_RUNS, MOST_RUNS + 1) - 2
    return tuple(np.asarray(stats.t.ppf((1 + CONFIDENCE) / 2, freedom)).tolist())


def _runs_needed(difference: float, sd: float, inner: float, outer: float) -> int | None:
    """The fewest runs a side at which an interval around this difference would give a verdict."""
    for runs, quantile in enumerate(_quantiles(), start=MINIMUM_RUNS):
        if _verdict(difference, quantile * sd * math.sqrt(2 / runs), inner, outer) != "cannot tell":
            return runs
    return None


def _reason(verdict: Verdict, ratio: float, low: float, high: float, margin: float, needed: int | None) -> str:
    figures = f"{ratio - 1:+.1%}, 95 % interval {low - 1:+.1%} to {high - 1:+.1%}, margin {margin:.1%}"
    if verdict != "cannot tell":
        return f"{verdict}: {figures}"
    more = f"about {needed} runs a side would tell" if needed else f"more than {MOST_RUNS} runs a side would be needed"
    return f"cannot tell: {figures}; {more}"


@dataclass(frozen=True, slots=True)
class WithinRun:
    """How well one run's own value is known: the value and its 95 % interval, in the steps' unit."""

    value: float
    low: float
    high: float
    block: int


def within_run(
    steps: Sequence[float], *, statistic: Literal["mean", "median"] = "mean", resamples: int = 1000, seed: int = 0
) -> WithinRun:
    """The mean or median of a run's steady steps, with a moving-block bootstrap interval.

    The block length is ``ceil(n ** (1/3))`` grown by the lag-one autocorrelation (as for an AR(1) process in Politis
    and White 2004), and at most a quarter of the run. It says nothing about other runs.

    Raises:
        ValueError: There is no step.
    """
    values = np.asarray(steps, dtype=np.float64)
    if values.size == 0:
        raise ValueError("the run has no steady step")
    of = np.mean if statistic == "mean" else np.median
    value = float(of(values))
    if values.size < 4:
        return WithinRun(value, float(values.min()), float(values.max()), 1)
    block = _block_length(values)
    rng = np.random.default_rng(seed)
    count = -(-values.size // block)
    starts = rng.integers(0, values.size - block + 1, size=(resamples, count))
    index = (starts[:, :, None] + np.arange(block)).reshape(resamples, -1)[:, : values.size]
    low, high = np.quantile(of(values[index], axis=1), [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return WithinRun(value, float(low), float(high), block)


def _block_length(values: NDArray[np.float64]) -> int:
    centred = values - values.mean()
    power = float(centred @ centred)
    rho = float(centred[:-1] @ centred[1:]) / power if power else 0.0
    rho = min(max(rho, 0.0), 0.97)
    length = (2 * rho / (1 - rho * rho)) ** (2 / 3) * values.size ** (1 / 3) if rho else 1.0
    return int(min(max(math.ceil(length), math.ceil(values.size ** (1 / 3))), max(values.size // 4, 1)))
