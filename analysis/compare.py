"""What got slower between two sides, by how much, with what certainty, and why.

A side is one run or several. The run is the unit (see ``run_statistics``): with enough runs a side, or a known spread
from run to run, there is a verdict; with one run a side there is the difference between these two runs and no more.
Everything is worked out from ``RunMeasures``, so a summary file kept from last month compares like a recording.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from ..profiler.recording.errors import UsageError
from .compare_counts import (
    CompilationDifference,
    FallbackDifference,
    compilation_differences,
    fallback_differences,
    new_counts,
)
from .compare_environment import EnvironmentDifference, environment_differences
from .compare_lines import PlaceDifference, mean_places, place_differences, stall_line_map
from .compare_metrics import ENOUGH_STEPS, MetricDifference, metric, metric_differences
from .compare_outliers import Outlier, outliers
from .compare_parts import PartDifference, by_cause, nearest, part_differences, state_differences
from .compare_texts import headline, notes, why
from .compare_work import WorkDifference, line_differences, work_differences
from .run_facts import RunMeasures, Unit
from .run_statistics import Verdict, WithinRun, within_run
from .timeline import STATES

MARGIN_FRAC = 0.02
"""The difference that does not matter unless the user says otherwise."""

Statistic = Literal["median", "mean"]


@dataclass(frozen=True, slots=True)
class RunLine:
    """One run of a side, in a line.

    Attributes:
        name: Its name.
        status: As in ``RunMeasures``.
        steps: How many steady steps it has; 0 where the whole recording counts as one.
        steps_ns: How long those took, as in ``RunMeasures``.
        median_ns: Their median.
        mean_ns: Their mean over all devices.
        p95_ns: Their 95th percentile; None with fewer than ``ENOUGH_STEPS``, where it would be the longest one.
        within: How well the run's own median (or mean, as asked for) is known, by a block bootstrap over its steps;
            None with fewer than four steps.
    """

    name: str
    status: str
    steps: int
    steps_ns: tuple[int, ...]
    median_ns: int | None
    mean_ns: int | None
    p95_ns: int | None
    within: WithinRun | None


@dataclass(frozen=True, slots=True)
class RankDifference:
    """The mean steady step of one device of one rank on both sides.

    The devices of a rank are taken in order: a rank with one device is compared whatever that is called.

    Attributes:
        rank: The rank.
        base_device: Type and index of the device; "" where the base side has none there.
        new_device: The same on the new side.
        base_ns: The mean over the base side's runs; None where it has none.
        new_ns: The same on the new side.
        difference_ns: New minus base; None where one is not known.
    """

    rank: int
    base_device: str
    new_device: str
    base_ns: int | None
    new_ns: int | None
    difference_ns: int | None


@dataclass(frozen=True, slots=True)
class Compared:
    """Two sides, compared.

    Attributes:
        verdict: As in ``run_statistics.Comparison``, of the step time; ``no verdict`` where nothing can be compared.
        headline: The verdict as one sentence.
        why: The largest parts of the difference of the mean step, as one sentence.
        unit: ``step``, or ``recording`` where a side has no steady step.
        statistic: Which figure of a run the verdict is about.
        margin_frac: The difference that does not matter.
        base_runs: The base side's runs.
        new_runs: The new side's runs.
        median: The median step of the runs, the geometric mean over them.
        mean: The mean step of the runs; ``parts`` add up to it.
        parts: The mean step by state and root cause, the largest difference first.
        states: The same by state.
        places: Stalls and exposed copies by root cause and line; adds up to those two states.
        metrics: Single figures: memory, cold start, compilation and so on.
        kernels: Kernels by name and grid, the largest difference first.
        ops: Ops.
        lines: Lines of source.
        fallbacks: Ops that fell back to the CPU, whole runs.
        compilations: What torch.compile compiled again, and where it broke the graph, whole runs.
        ranks: The devices of each rank.
        environment: What else differs, what makes the sides unlike first.
        outliers: Runs and steps far from the others; they are in every figure.
        notes: What to know to read the rest.
    """

    verdict: Verdict
    headline: str
    why: str
    unit: Unit
    statistic: Statistic
    margin_frac: float
    base_runs: tuple[RunLine, ...]
    new_runs: tuple[RunLine, ...]
    median: MetricDifference
    mean: MetricDifference
    parts: tuple[PartDifference, ...]
    states: tuple[PartDifference, ...]
    places: tuple[PlaceDifference, ...]
    metrics: tuple[MetricDifference, ...]
    kernels: tuple[WorkDifference, ...]
    ops: tuple[WorkDifference, ...]
    lines: tuple[WorkDifference, ...]
    fallbacks: tuple[FallbackDifference, ...]
    compilations: tuple[CompilationDifference, ...]
    ranks: tuple[RankDifference, ...]
    environment: tuple[EnvironmentDifference, ...]
    outliers: tuple[Outlier, ...]
    notes: tuple[str, ...]


def compare(
    base: Sequence[RunMeasures],
    new: Sequence[RunMeasures],
    *,
    margin_frac: float = MARGIN_FRAC,
    run_sd_frac: float | None = None,
    statistic: Statistic = "median",
) -> Compared:
    """Two sides, compared over the steady steps of their runs.

    Args:
        base: The base side's runs.
        new: The new side's runs.
        margin_frac: The difference that does not matter.
        run_sd_frac: Standard deviation from run to run, as a share, where it is known from elsewhere.
        statistic: Which figure of a run the verdict is about; both are shown.

    Raises:
        UsageError: A side has no run, or no run in which anything was measured.
    """
    for side, runs in (("base", base), ("new", new)):
        if not any(run.device_steps for run in runs):
            what = "holds no work of a device or thread to compare" if runs else "has no run"
            raise UsageError(f"the {side} side {what}.", hint="`stallscope info` lists what a recording holds.")
    step = partial(metric, unit="ns", base=base, new=new, margin_frac=margin_frac, run_sd_frac=run_sd_frac)
    median = step("median_step_ns", "median step", value=lambda run: run.median_step_ns, geometric=True)
    mean = step("mean_step_ns", "mean step", value=lambda run: run.mean_step_ns)
    same = stall_line_map(base, new)
    before, after = mean_places(base, {}), mean_places(new, same)
    parts = part_differences(by_cause(before), by_cause(after))
    chosen = median if statistic == "median" else mean
    environment = environment_differences(base, new)
    unit: Unit = "step" if all(run.unit == "step" for run in (*base, *new)) else "recording"
    found = (*outliers("base", base), *outliers("new", new))
    fell_back, compiled = fallback_differences(base, new), compilation_differences(base, new)
    return Compared(
        verdict=chosen.comparison.verdict if chosen.comparison else "no verdict",
        headline=headline(chosen, unit),
        why=why(parts, mean.difference or 0, unit),
        unit=unit,
        statistic=statistic,
        margin_frac=margin_frac,
        base_runs=tuple(_line(run, statistic) for run in base),
        new_runs=tuple(_line(run, statistic) for run in new),
        median=median,
        mean=mean,
        parts=parts,
        states=state_differences(parts, STATES),
        places=place_differences(before, after, same),
        metrics=metric_differences(base, new, margin_frac=margin_frac),
        kernels=work_differences(base, new, lambda run: run.kernels),
        ops=work_differences(base, new, lambda run: run.ops),
        lines=line_differences(base, new),
        fallbacks=fell_back,
        compilations=compiled,
        ranks=_ranks(base, new),
        environment=environment,
        outliers=found,
        notes=(*new_counts(fell_back, compiled), *notes(base, new, median, mean, environment, len(found))),
    )


def _line(run: RunMeasures, statistic: Statistic) -> RunLine:
    within = within_run(run.steps_ns, statistic=statistic) if len(run.steps_ns) >= 4 else None
    steps = len(run.steps_ns) if run.unit == "step" else 0
    p95 = run.p95_step_ns if len(run.steps_ns) >= ENOUGH_STEPS else None
    figures = (run.median_step_ns, run.mean_step_ns, p95)
    return RunLine(run.name, run.status, steps, run.steps_ns, *figures, within)


def _ranks(base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> tuple[RankDifference, ...]:
    """By rank, then device; a side's figure is the mean over its runs."""
    sides = [_rank_means(runs) for runs in (base, new)]
    found = []
    for key in sorted(sides[0].keys() | sides[1].keys()):
        (before, old), (after, now) = (side.get(key, ("", None)) for side in sides)
        difference = now - old if old is not None and now is not None else None
        found.append(RankDifference(key[0], before, after, old, now, difference))
    return tuple(found)


def _rank_means(runs: Sequence[RunMeasures]) -> dict[tuple[int, int], tuple[str, int | None]]:
    """(rank, place of the device among its rank's) -> the device's name and mean step."""
    means: dict[tuple[int, int], list[int]] = {}
    names: dict[tuple[int, int], str] = {}
    for run in runs:
        places: Counter[int] = Counter()
        for lane in run.lanes:
            key = (lane.rank, places[lane.rank])
            places[lane.rank] += 1
            index = "" if lane.device_index is None else f" {lane.device_index}"
            names[key] = f"{lane.device_type}{index}"
            means.setdefault(key, []).append(nearest(sum(lane.steps_ns), len(lane.steps_ns)))
    return {key: (names[key], nearest(sum(values), len(values))) for key, values in means.items()}
