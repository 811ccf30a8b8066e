"""The single figures of a run, side by side: memory, cold start, compilation, fallbacks, bytes moved, communication."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from .compare_parts import nearest
from .run_facts import CommunicationMeasures, RunMeasures
from .run_statistics import Comparison, compare_runs

MetricUnit = Literal["ns", "bytes", "count"]


@dataclass(frozen=True, slots=True)
class MetricDifference:
    """One figure on both sides.

    Attributes:
        key: Its name, stable.
        title: What it is, in words.
        unit: ns, bytes or count.
        base_values: Of each base run that has it, in the order of the runs.
        new_values: Of each new run that has it.
        base: Mean of those to the nearest integer, geometric where ``comparison`` is the verdict (whose ratio is that
            of geometric means); None without any.
        new: The same on the new side.
        difference: New minus base; None where one is not known.
        comparison: What the runs say about each other; None where a value is 0 or not known. Its verdict is not
            corrected for how many figures are looked at: the verdict of a comparison is that of its step time alone.
    """

    key: str
    title: str
    unit: MetricUnit
    base_values: tuple[int, ...]
    new_values: tuple[int, ...]
    base: int | None
    new: int | None
    difference: int | None
    comparison: Comparison | None


ENOUGH_STEPS = 20
"""Steps from which a 95th percentile is told."""

Value = Callable[[RunMeasures], "int | None"]


def metric_differences(
    base: Sequence[RunMeasures], new: Sequence[RunMeasures], *, margin_frac: float
) -> tuple[MetricDifference, ...]:
    """Every figure that a run of either side has, in a fixed order; the step time's are among them."""
    rows = [metric(key, title, unit, value, base, new, margin_frac=margin_frac) for key, title, unit, value in _METRICS]
    for direction in sorted({copy.direction for run in (*base, *new) for copy in run.copies}):
        words = direction.replace("_", " ") if direction != "set" else "memset"
        rows.append(
            metric(
                f"copied_{direction}_bytes", f"bytes a step, {words}", "bytes", _bytes_of(direction), base, new,
                margin_frac=margin_frac,
            )
        )  # fmt: skip
    return tuple(row for row in rows if row.base is not None or row.new is not None)


def metric(
    key: str,
    title: str,
    unit: MetricUnit,
    value: Value,
    base: Sequence[RunMeasures],
    new: Sequence[RunMeasures],
    *,
    margin_frac: float,
    run_sd_frac: float | None = None,
    geometric: bool = False,
) -> MetricDifference:
    """One figure of both sides; ``run_sd_frac`` as in ``compare_runs``, ``geometric``: which mean over the runs."""
    of_base, of_new = (tuple(v for v in map(value, runs) if v is not None) for runs in (base, new))
    means = [_mean(values, geometric) for values in (of_base, of_new)]
    comparison = None
    if of_base and of_new and min(*of_base, *of_new) > 0:
        comparison = compare_runs(of_base, of_new, margin_frac=margin_frac, run_sd_frac=run_sd_frac)
    difference = means[1] - means[0] if means[0] is not None and means[1] is not None else None
    return MetricDifference(key, title, unit, of_base, of_new, means[0], means[1], difference, comparison)


def _mean(values: Sequence[int], geometric: bool) -> int | None:
    if not values:
        return None
    if geometric and len(values) > 1 and min(values) > 0:
        return round(math.exp(math.fsum(math.log(value) for value in values) / len(values)))
    return nearest(sum(values), len(values))


def _per_step(total: int, run: RunMeasures) -> int | None:
    return nearest(total, run.device_steps) if run.device_steps else None


def _bytes_of(direction: str) -> Value:
    def value(run: RunMeasures) -> int | None:
        if not run.device_steps:
            return None
        return _per_step(sum(copy.bytes for copy in run.copies if copy.direction == direction), run)

    return value


def _of_communication(value: Callable[[CommunicationMeasures], int | None]) -> Value:
    def of_run(run: RunMeasures) -> int | None:
        found = None if run.communication is None else value(run.communication)
        return None if found is None else _per_step(found, run)

    return of_run


def _fallback_count(run: RunMeasures) -> int:
    return sum(one.count for one in run.fallbacks)


def _fallback_ns(run: RunMeasures) -> int:
    return sum(one.host_ns for one in run.fallbacks)


def _graph_breaks(run: RunMeasures) -> int | None:
    found = run.compilation.graph_breaks
    return None if found is None else sum(one.count for one in found)


def _p95(run: RunMeasures) -> int | None:
    """With fewer steps it would be the longest one."""
    return run.p95_step_ns if len(run.steps_ns) >= ENOUGH_STEPS else None


def _cold_start(run: RunMeasures) -> int | None:
    return run.cold_start_ns if run.preparation_steps else None


_METRICS: tuple[tuple[str, str, MetricUnit, Value], ...] = (
    ("p95_step_ns", "95th percentile of the step", "ns", _p95),
    ("peak_memory_bytes", "peak memory", "bytes", lambda run: run.peak_memory_bytes),
    ("cold_start_ns", "steps that prepare", "ns", _cold_start),
    ("preparation_ns", "preparation, to the first steady step", "ns", lambda run: run.preparation_ns),
    ("execution_ns", "execution, to the last step's end", "ns", lambda run: run.execution_ns),
    ("completion_ns", "completion, what comes after", "ns", lambda run: run.completion_ns),
    ("compile_count", "compilations", "count", lambda run: run.compilation.count),
    ("compile_ns", "time compiling", "ns", lambda run: run.compilation.ns),
    ("recompile_count", "recompilations", "count", lambda run: run.recompile_count),
    ("graph_break_count", "graph breaks", "count", _graph_breaks),
    ("fallback_count", "ops that fell back to the CPU", "count", _fallback_count),
    ("fallback_ns", "time in those", "ns", _fallback_ns),
    ("collective_ns", "collectives in a step", "ns", _of_communication(lambda found: found.total_ns)),
    ("collective_wait_ns", "of that, waiting for a peer", "ns", _of_communication(lambda f: f.wait_for_peer_ns)),
    ("collective_transfer_ns", "of that, transfer", "ns", _of_communication(lambda found: found.transfer_ns)),
    ("collective_bytes", "bytes into collectives a step", "bytes", _of_communication(lambda found: found.in_bytes)),
    ("data_loss_count", "rows lost while recording", "count", lambda run: run.losses.get("data_loss", 0)),
)
