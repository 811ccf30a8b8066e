"""Whether a change may go in: every budget of a gate held against the new runs and their baseline.

A budget breaks only where the interval of its figure lies wholly over its limit. A run that did not complete never
passes, whatever its figures say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from ..profiler.recording.errors import UsageError
from .budgets import Budgets
from .compare_environment import EnvironmentDifference, environment_differences
from .gate_verdicts import Judgement, Verdict, judged
from .gate_why import Blame, Side, blame
from .run_facts import RunMeasures

EXIT_CODES: dict[Verdict, int] = {"kept": 0, "broken": 1, "cannot_tell": 3}

Matter = Literal["broken", "fails", "warns", "kept"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """One budget's outcome.

    Attributes:
        judgement: Its verdict and figures.
        blame: Why and where, of one that is broken; None where the recording does not say.
    """

    judgement: Judgement
    blame: Blame | None

    @property
    def matter(self) -> Matter:
        """What it does to the gate: ``fails`` and ``warns`` are where it cannot be told, as the budget says."""
        if self.judgement.verdict == "cannot_tell":
            return "fails" if self.judgement.budget.on_unknown == "fail" else "warns"
        return "broken" if self.judgement.verdict == "broken" else "kept"


@dataclass(frozen=True, slots=True)
class GateReport:
    """The gate's answer.

    Attributes:
        verdict: ``broken`` where a budget is, or a run did not complete; else ``cannot_tell`` where that is so of a
            budget that fails then; else ``kept``.
        outcomes: One a budget: broken ones first, then those that cannot be told, then kept ones.
        incomplete: The runs that did not complete, each as a sentence.
        new: The names of the new runs.
        base: The names of the baseline's runs.
        environment: What differs besides the code.
        notes: What to know to believe the rest.
    """

    verdict: Verdict
    outcomes: tuple[Outcome, ...]
    incomplete: tuple[str, ...]
    new: tuple[str, ...]
    base: tuple[str, ...]
    environment: tuple[EnvironmentDifference, ...]
    notes: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0 kept, 1 broken, 3 cannot tell."""
        return EXIT_CODES[self.verdict]

    @property
    def broken(self) -> tuple[Outcome, ...]:
        """The budgets that are broken."""
        return tuple(outcome for outcome in self.outcomes if outcome.matter == "broken")


def gate(
    budgets: Budgets,
    new: tuple[RunMeasures, ...],
    base: tuple[RunMeasures, ...],
    *,
    sides: Callable[[], tuple[Side, Side]] | None = None,
) -> GateReport:
    """Every budget held against the new runs.

    Args:
        budgets: The budgets.
        new: The new runs.
        base: The baseline's; may be empty where no budget takes one.
        sides: The two sides with their places, asked for only if a budget is broken: working them out takes a while.
            By default without places.

    Raises:
        UsageError: There is no new run or no budget.
    """
    if not new:
        raise UsageError("there is no new run to judge.")
    if not budgets.budgets:
        raise UsageError("there is no budget to judge by.", hint="Give --step-time +5%, or write stallscope.toml.")
    environment = environment_differences(base, new) if base else ()
    incomplete = tuple(_incomplete(run) for run in new if run.status != "completed")
    incomplete += tuple(_missing(run) for run in new if _lacks_ranks(run, base))
    judgements = [
        judged(one, new, base, run_sd_frac=budgets.run_sd_frac, unlike=_unlike(one.name, environment))
        for one in budgets.budgets
    ]
    outcomes = _outcomes(judgements, new, base, sides)
    return GateReport(
        verdict=_verdict(outcomes, incomplete),
        outcomes=outcomes,
        incomplete=incomplete,
        new=tuple(run.name for run in new),
        base=tuple(run.name for run in base),
        environment=environment,
        notes=tuple(_notes(new, base, environment)),
    )


def _outcomes(
    judgements: list[Judgement],
    new: tuple[RunMeasures, ...],
    base: tuple[RunMeasures, ...],
    sides: Callable[[], tuple[Side, Side]] | None,
) -> tuple[Outcome, ...]:
    both = Side(new, ()), Side(base, ())
    if sides is not None and any(judgement.verdict == "broken" for judgement in judgements):
        both = sides()
    found = [Outcome(one, blame(one, *both) if one.verdict == "broken" else None) for one in judgements]
    found.sort(key=lambda outcome: (_ORDER[outcome.matter], _is_share(outcome), -_over(outcome.judgement)))
    return tuple(_with_line(outcome, found) for outcome in found)


_ORDER: dict[Matter, int] = {"broken": 0, "fails": 1, "warns": 2, "kept": 3}


def _is_share(outcome: Outcome) -> bool:
    """Shares of stalls come after what they are a part of."""
    return outcome.judgement.budget.name == "stall_share"


def _over(judgement: Judgement) -> float:
    """How far over its limit a budget is: fallbacks that are not accepted first, they are the least in doubt."""
    if judgement.verdict == "cannot_tell":
        return 0.0
    if judgement.fallbacks:
        return float("inf")
    if judgement.value is None or judgement.limit is None:
        return 0.0
    if judgement.limit <= 0:
        return float("inf") if judgement.value > judgement.limit else -1.0
    return (judgement.value - judgement.limit) / judgement.limit


def _with_line(outcome: Outcome, found: list[Outcome]) -> Outcome:
    """A blame by the CPU fallback without a line gets that of the op that fell back, which is known more often."""
    why = outcome.blame
    if why is None or why.file or outcome.judgement.budget.name not in ("step_time", "step_time_p95"):
        return outcome
    fallen = next((one.judgement.fallbacks for one in found if one.judgement.fallbacks), ())
    if "cpu_fallback" not in why.text or not fallen:
        return outcome
    place = replace(why, file=fallen[0].file, line=fallen[0].line, function=fallen[0].function)
    return replace(outcome, blame=place)


def _verdict(outcomes: tuple[Outcome, ...], incomplete: tuple[str, ...]) -> Verdict:
    matters = {outcome.matter for outcome in outcomes}
    if "broken" in matters or incomplete:
        return "broken"
    return "cannot_tell" if "fails" in matters else "kept"


def _incomplete(run: RunMeasures) -> str:
    return f"{run.name} did not complete ({run.status}): such a run never passes."


def _missing(run: RunMeasures) -> str:
    return f"{run.name} holds {len(run.ranks)} of its {run.world_size} ranks: the others wrote nothing."


def _lacks_ranks(run: RunMeasures, base: tuple[RunMeasures, ...]) -> bool:
    """Whether ranks are missing that should be there; traces of a few ranks of many are held against the same."""
    if run.environment.get("recorded_by") != "stallscope" and not base:
        return False
    return run.missing_ranks > max((one.missing_ranks for one in base), default=0)


def _unlike(name: str, environment: tuple[EnvironmentDifference, ...]) -> str:
    """Why times of the two sides cannot be held against each other; "" where they can."""
    rows = [row for row in environment if row.unlike and (row.name != "rules" or name == "stall_share")]
    if not rows:
        return ""
    first = rows[0]
    return (
        f"The runs are not of the same thing: {first.name} is {first.new or 'unknown'}, "
        f"{first.base or 'unknown'} in the baseline."
    )


def _notes(
    new: tuple[RunMeasures, ...], base: tuple[RunMeasures, ...], environment: tuple[EnvironmentDifference, ...]
) -> list[str]:
    found = []
    if base and len(new) == 1 and len(base) == 1:
        found.append("One run against one: a difference between these two runs, not yet between the two versions.")
    for side, runs in (("new", new), ("baseline", base)):
        if side == "baseline":
            found += [
                f"{run.name} (baseline) did not complete: {run.status}." for run in runs if run.status != "completed"
            ]
        lost = sum(run.losses.get("data_loss", 0) for run in runs)
        if lost:
            found.append(f"{lost} events are missing from the {side} runs: figures may be too low.")
        if any(run.unit == "recording" for run in runs):
            found.append(f"A {side} run marks no steady step: its whole recording counts as one step.")
    silent = [copy for run in new for copy in run.copies if copy.without_bytes_count and copy.direction != "set"]
    if silent:
        count = sum(copy.without_bytes_count for copy in silent)
        found.append(f"{count} copies do not say how many bytes they move: bytes_moved is a lower bound.")
    differing = [row for row in environment if row.kind in ("machine", "software", "recording")]
    found += [f"{row.name}: {row.new} here, {row.base} in the baseline." for row in differing[:4]]
    return found
