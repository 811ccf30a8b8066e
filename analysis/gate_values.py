"""The figure of one run that a budget is about, or why the run does not have it."""

from __future__ import annotations

from collections.abc import Callable

from .budgets import Budget
from .compare_parts import nearest
from .run_facts import RunMeasures


class NotKnown(Exception):
    """The run does not say; the text is the reason, as half a sentence."""


def budget_value(budget: Budget, run: RunMeasures) -> float:
    """The figure, in the unit of its measure: ns, bytes, a count, or a share in 0..1. Of ``fallbacks``, the calls.

    Raises:
        NotKnown: The run does not have it.
    """
    if budget.name == "stall_share":
        if not run.total_ns:
            raise NotKnown("nothing ran on a device")
        return run.stall_ns_by_cause.get(budget.cause, 0) / run.total_ns
    return _VALUES[budget.name](run)


def recompilations(run: RunMeasures) -> int:
    """Compilations of something that was compiled before: as torch.compile counts them, or those in steady steps.

    Whichever is more: torch.compile's own count holds those of the first steps, and a backend's compiler, which nobody
    counts, shows in that it still compiles when nothing should be new.

    Raises:
        NotKnown: No collector watched, and no step is steady.
    """
    counted = run.recompile_count
    if counted is None and run.unit != "step":
        raise NotKnown("no collector watched what was compiled, and no step is steady")
    steady = run.compilation.steady_count if run.unit == "step" else 0
    return max(counted or 0, steady)


def _median(run: RunMeasures) -> float:
    return _of_steps(run.median_step_ns)


def _p95(run: RunMeasures) -> float:
    return _of_steps(run.p95_step_ns)


def _of_steps(value: int | None) -> float:
    if not value:
        raise NotKnown("nothing ran on a device")
    return value


def _cold_start(run: RunMeasures) -> float:
    if run.unit != "step":
        raise NotKnown("no step is steady, so where the start ends is not known")
    return run.cold_start_ns


def _peak(run: RunMeasures) -> float:
    if run.peak_memory_bytes is None:
        raise NotKnown("no allocation was recorded (profile_memory=True)")
    return run.peak_memory_bytes


def _bytes_moved(run: RunMeasures) -> float:
    """Per mean device step; memsets move nothing."""
    if not run.device_steps:
        raise NotKnown("nothing ran on a device")
    return nearest(sum(copy.bytes for copy in run.copies if copy.direction != "set"), run.device_steps)


def _communication_waiting(run: RunMeasures) -> float:
    found = run.communication
    if found is None or not run.device_steps:
        return 0
    if found.wait_for_peer_ns is None:
        raise NotKnown(found.reason or "waiting and transfer cannot be told apart")
    return nearest(found.wait_for_peer_ns, run.device_steps)


_VALUES: dict[str, Callable[[RunMeasures], float]] = {
    "step_time": _median,
    "step_time_p95": _p95,
    "peak_memory": _peak,
    "cold_start": _cold_start,
    "compiles": lambda run: run.compilation.count,
    "recompiles": recompilations,
    "fallbacks": lambda run: sum(one.count for one in run.fallbacks),
    "bytes_moved": _bytes_moved,
    "communication_waiting": _communication_waiting,
    "losses": lambda run: run.losses.get("data_loss", 0),
}
