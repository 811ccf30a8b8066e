"""One budget's verdict: kept, broken, or that it cannot be told."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from .budgets import Budget
from .gate_intervals import Basis, Interval, exact_interval, timed_interval
from .gate_values import NotKnown, budget_value
from .run_facts import FallbackMeasure, RunMeasures
from .run_statistics import MINIMUM_RUNS

Verdict = Literal["kept", "broken", "cannot_tell"]


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of one budget. Figures are in the unit of its measure: ns, bytes, a count, or a share in 0..1.

    Attributes:
        budget: The budget.
        verdict: ``broken`` only where the interval's lower end lies over the limit, ``kept`` where its upper end does
            not, ``cannot_tell`` in between and where a figure is not known.
        value: The new runs' figure; None where a run does not have it.
        low: Lower end of its interval.
        high: Upper end.
        base: The baseline's figure.
        limit: The most that is allowed.
        runs_new: New runs.
        runs_base: Runs of the baseline.
        basis: What the interval is from.
        run_sd_frac: The spread from run to run that it rests on.
        reason: Why it cannot be told, or what to know to believe it; "" where there is nothing to add.
        fallbacks: Of a budget for fallbacks: what ran on the CPU and is not accepted, most time first.
    """

    budget: Budget
    verdict: Verdict
    value: float | None
    low: float | None
    high: float | None
    base: float | None
    limit: float | None
    runs_new: int
    runs_base: int
    basis: Basis
    run_sd_frac: float | None
    reason: str
    fallbacks: tuple[FallbackMeasure, ...] = ()

    @property
    def change_frac(self) -> float | None:
        """How much more than the baseline, as a share of it; None where either is not known or it is 0."""
        return self.value / self.base - 1 if self.value is not None and self.base else None


def judged(
    budget: Budget,
    new: Sequence[RunMeasures],
    base: Sequence[RunMeasures],
    *,
    run_sd_frac: float | None = None,
    unlike: str = "",
) -> Judgement:
    """The verdict on one budget.

    Args:
        budget: The budget.
        new: The new runs; at least one.
        base: The baseline's; may be empty.
        run_sd_frac: A supplied spread from run to run.
        unlike: Why times of the two sides cannot be held against each other; "" if they can.
    """
    try:
        values = [budget_value(budget, run) for run in new]
    except NotKnown as why:
        return _unknown(budget, new, base, f"a new run does not say: {why}")
    relative = budget.value is None
    try:
        before = [budget_value(budget, run) for run in base]
    except NotKnown as why:
        if relative:
            return _unknown(budget, new, base, f"the baseline does not say: {why}", max(values))
        before = []
    if relative and not before:
        return _unknown(budget, new, base, "there is no baseline to hold it against", max(values))
    if budget.name == "fallbacks":
        return _of_fallbacks(budget, new, base, values, before)
    if budget.measure.timed:
        found = timed_interval(
            values, before, ratio=budget.measure.kind == "time", relative=relative, factor=1 + budget.margin_frac,
            run_sd_frac=run_sd_frac,
        )  # fmt: skip
    else:
        found = exact_interval(values, before)
    return _held_against(budget, found, len(new), len(base), unlike if relative and budget.measure.timed else "")


def _held_against(budget: Budget, found: Interval, runs_new: int, runs_base: int, unlike: str) -> Judgement:
    limit = budget.limit(found.base)
    assert limit is not None
    verdict: Verdict = "cannot_tell"
    if found.low is not None and found.high is not None and not unlike:
        verdict = "broken" if found.low > limit else "kept" if found.high <= limit else "cannot_tell"
    reason = unlike or _reason(budget, found, verdict, runs_new, runs_base)
    return Judgement(
        budget, verdict, found.value, found.low, found.high, found.base, limit, runs_new, runs_base, found.basis,
        found.run_sd_frac, reason,
    )  # fmt: skip


def _reason(budget: Budget, found: Interval, verdict: Verdict, runs_new: int, runs_base: int) -> str:
    sides = [runs_new] if budget.value is not None else [runs_new, runs_base]
    fewest = min(sides)
    if found.basis == "none":
        who = "This is a single run" if runs_new == 1 else f"These are {runs_new} runs"
        if budget.value is None:
            who += f" against {'another' if runs_base == runs_new == 1 else runs_base}"
        return (
            f"{who}: that does not say how much the next one would differ. {MINIMUM_RUNS} runs of the baseline, a "
            "history, or run_sd would."
        )
    if verdict == "cannot_tell":
        if found.basis == "every run":
            return "The runs disagree: one keeps it and another does not."
        return "The limit lies inside the 95 % interval: more runs would narrow it."
    if found.basis != "every run" and fewest == 1:
        spread = f" ({found.run_sd_frac:.1%} from run to run)" if found.run_sd_frac is not None else ""
        return f"A single run was judged by the spread of the {_BASIS_WORDS[found.basis]}{spread}."
    return ""


_BASIS_WORDS: dict[Basis, str] = {
    "baseline runs": "baseline's runs",
    "new runs": "new runs",
    "supplied spread": "same code that was supplied",
}


def _of_fallbacks(
    budget: Budget,
    new: Sequence[RunMeasures],
    base: Sequence[RunMeasures],
    values: Sequence[float],
    before: Sequence[float],
) -> Judgement:
    """Broken as soon as an op that is not accepted ran on the CPU in any new run."""
    accepted = {one.op for one in budget.allowed}
    if budget.value is None:
        accepted |= {one.op for run in base for one in run.fallbacks}
    found: dict[tuple[str, str | None, int | None], FallbackMeasure] = {}
    for run in new:
        for one in run.fallbacks:
            if one.op not in accepted and one.root_op not in accepted:
                found.setdefault((one.op, one.file, one.line), one)
    ops = tuple(sorted(found.values(), key=lambda one: -one.host_ns))
    verdict: Verdict = "broken" if ops else "kept"
    return Judgement(
        budget, verdict, max(values), min(values), max(values), max(before, default=None), budget.limit(0), len(new),
        len(base), "every run", None, "", ops,
    )  # fmt: skip


def _unknown(
    budget: Budget, new: Sequence[RunMeasures], base: Sequence[RunMeasures], reason: str, value: float | None = None
) -> Judgement:
    if value is not None and not math.isfinite(value):
        value = None
    return Judgement(
        budget, "cannot_tell", value, None, None, None, budget.limit(None), len(new), len(base), "none", None,
        reason[0].upper() + reason[1:] + ".",
    )  # fmt: skip
