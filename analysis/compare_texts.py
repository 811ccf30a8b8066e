"""What a comparison says in words: the verdict, the largest reasons, and what to know before believing either."""

from __future__ import annotations

from collections.abc import Sequence

from .causes import CAUSES
from .compare_environment import EnvironmentDifference
from .compare_metrics import MetricDifference
from .compare_parts import PartDifference
from .finding_texts import duration_text
from .run_facts import RunMeasures, Unit
from .run_statistics import MINIMUM_RUNS
from .run_work import OTHERS

WORTH_FRAC = 0.1
"""A part is named among the reasons from this share of the largest one on."""

MOST_REASONS = 3

APART_FRAC = 0.25
NOTABLE_FRAC = 0.01
"""Median and mean are apart where they differ by such a share of the larger difference, and of the base's mean step."""

STATE_WORDS = {
    "compute": "compute",
    "communication": "exposed communication",
    "data_movement": "exposed copies",
    "stall": "stall",
}


def headline(step: MetricDifference, unit: Unit) -> str:
    """The verdict on a figure of the step as one sentence, with what it rests on."""
    found = step.comparison
    noun = step.title if unit == "step" else "time from the first operation to the last"
    if found is None or step.base is None or step.new is None:
        return f"The {noun} cannot be compared: it is not known, or 0, in a run."
    runs = f"{found.runs_base} and {found.runs_new} runs"
    change = f"{found.ratio - 1:+.1%} in the {noun}: {duration_text(step.base)} -> {duration_text(step.new)}"
    if found.verdict == "no verdict":
        both = "These two runs" if found.runs_base == found.runs_new == 1 else f"These {runs}"
        differ = f"differ by {change}" if found.ratio != 1 else f"agree in the {noun}: {duration_text(step.base)}"
        return (
            f"{both} {differ}. No verdict on the code: so few runs cannot tell a change from chance. "
            f"{MINIMUM_RUNS} runs a side can, or fewer where the spread from run to run is known."
        )
    interval = f"95 % interval {found.low - 1:+.1%} to {found.high - 1:+.1%}" if found.low and found.high else ""
    rest = f"{change} ({interval}, margin {found.margin_frac:.1%}; {runs})"
    if found.sd_source == "supplied" and found.run_sd_frac is not None:
        rest += f", taking runs to differ by {found.run_sd_frac:.1%} as supplied"
    if found.sd_source == "one side" and found.run_sd_frac is not None:
        side = "base" if found.runs_base > found.runs_new else "new"
        rest += f", taking all runs to differ as those of the {side} side do, by {found.run_sd_frac:.1%}"
    if found.verdict == "cannot tell":
        more = (
            f"about {found.runs_needed} runs a side would tell"
            if found.runs_needed
            else "no number of runs up to 200 would"
        )
        return f"Cannot tell: {rest}; {more}."
    return f"{found.verdict[0].upper()}{found.verdict[1:]}: {rest}."


def why(parts: Sequence[PartDifference], difference_ns: int, unit: Unit) -> str:
    """The largest parts of the difference of the mean, as one sentence."""
    noun = "mean step" if unit == "step" else "recording"
    longest = abs(parts[0].difference_ns) if parts else 0
    if not longest:
        return f"The {noun} is made of the same parts on both sides."
    named = [part for part in parts if abs(part.difference_ns) >= WORTH_FRAC * longest][:MOST_REASONS]
    reasons = [f"{signed_duration(part.difference_ns)} {part_words(part)}" for part in named]
    rest = difference_ns - sum(part.difference_ns for part in named)
    if rest:
        reasons.append(f"{signed_duration(rest)} all else")
    change = (
        "as long as before"
        if not difference_ns
        else f"{duration_text(abs(difference_ns))} {'longer' if difference_ns > 0 else 'shorter'}"
    )
    return f"The {noun} is {change}: {', '.join(reasons)}."


def part_words(part: PartDifference) -> str:
    """A part in words: "stall by input (waiting for the next batch)"."""
    words = STATE_WORDS[part.state]
    return f"{words} by {part.cause} ({CAUSES.get(part.cause, part.cause)})" if part.cause else words


def signed_duration(ns: int) -> str:
    """A difference with its sign."""
    return f"{'-' if ns < 0 else '+'}{duration_text(abs(ns))}"


def notes(
    base: Sequence[RunMeasures],
    new: Sequence[RunMeasures],
    median: MetricDifference,
    mean: MetricDifference,
    environment: Sequence[EnvironmentDifference],
    outlier_count: int,
) -> tuple[str, ...]:
    """What to know before believing the rest, the most important first."""
    found = [_apples(environment)] if any(row.unlike for row in environment) else []
    for side, runs in (("base", base), ("new", new)):
        for run in runs:
            found += _of_run(side, run)
    found += _step_sets(base, new)
    found += _without_tables(base, new)
    if not environment:
        found.append("As far as the recordings tell, both sides ran in the same environment.")
    if median.difference and mean.difference and _apart(median.difference, mean.difference, mean.base or 0):
        found.append(
            f"The median differs by {signed_duration(median.difference)} and the mean by "
            f"{signed_duration(mean.difference)}: a few steps decide the mean, which the parts add up to."
        )
    if outlier_count:
        found.append("Outliers are named below and are in every figure; nothing was dropped.")
    return tuple(found)


def _apart(median_ns: int, mean_ns: int, base_ns: int) -> bool:
    """Whether the two tell another story: opposite signs, or a gap worth a note."""
    gap = abs(median_ns - mean_ns)
    return gap > APART_FRAC * max(abs(median_ns), abs(mean_ns)) and gap > NOTABLE_FRAC * base_ns


def _apples(environment: Sequence[EnvironmentDifference]) -> str:
    names = [row.name for row in environment if row.unlike]
    text = f"Apples and pears: the sides differ in {', '.join(names)}."
    if "device" in names:
        text += " Another device runs other kernels: compare ops rather than kernels."
    return f"{text} The difference cannot be put down to the code alone."


def _of_run(side: str, run: RunMeasures) -> list[str]:
    found = []
    if run.status != "completed":
        found.append(f"{side} {run.name} did not complete: {run.status}.")
    if run.missing_ranks:
        there = len(run.ranks)
        found.append(f"{side} {run.name} holds {there} of {run.world_size} ranks.")
    if run.unit == "recording":
        found.append(f"{side} {run.name} marks no steady step: the whole recording counts as one.")
    elif len(run.steps_ns) < MINIMUM_RUNS:
        count = len(run.steps_ns)
        found.append(f"{side} {run.name} has {count} steady step{'s' if count != 1 else ''} only.")
    paused = sorted({number for lane in run.lanes for number in lane.paused})
    if paused:
        found.append(
            f"{side} {run.name}: the recorder paused the program in step{'s' if len(paused) > 1 else ''} "
            f"{', '.join(map(str, paused))}, which count nowhere."
        )
    if run.losses.get("data_loss"):
        found.append(f"{side} {run.name} lost {run.losses['data_loss']} rows while recording.")
    if any(row.name == OTHERS for row in (*run.kernels, *run.ops, *run.lines)):
        found.append(f"{side} {run.name} keeps its longest kernels, ops and lines by name, and the rest in one row.")
    return found


def _without_tables(base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> list[str]:
    bare = [side for side, runs in (("base", base), ("new", new)) if not any(run.has_tables for run in runs)]
    if len(bare) != 1:
        return []
    return [f"The {bare[0]} side is kept without its kernels, ops and lines, so these are not compared."]


def _step_sets(base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> list[str]:
    """Which steps were left out to compare the same ones, or that the sides' steps are other batches altogether."""
    runs = [run for run in (*base, *new) if run.unit == "step"]
    left_out = {number for run in runs for number in run.left_out}
    if left_out:
        everywhere = frozenset.intersection(*(frozenset((*run.step_numbers, *run.left_out)) for run in runs))
        cut_off, rest = sorted(left_out & everywhere), sorted(left_out - everywhere)
        reasons = [f"{_numbers(rest)} (not in every run)"] if rest else []
        reasons += [f"{_numbers(cut_off)} (the recording ends before the wait that follows it)"] if cut_off else []
        return [f"Compared over the steady steps {_numbers(runs[0].step_numbers)}; left out: {', '.join(reasons)}."]
    sets = [{run.step_numbers for run in runs if run.unit == "step"} for runs in (base, new)]
    if not all(sets) or sets[0] == sets[1]:
        return []
    words = [", ".join(sorted({_numbers(numbers) for numbers in found})) for found in sets]
    return [f"Steady steps are {words[0]} on the base side and {words[1]} on the new side."]


def _numbers(numbers: Sequence[int]) -> str:
    """The numbers, those in a row as a span: "3-7, 9"."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(f"{first}-{last}" if first != last else str(first) for first, last in spans) or "none"
