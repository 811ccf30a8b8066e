"""Compares what a method says of runs with a mistake and without to what the device itself says of them."""

from __future__ import annotations

import difflib
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

Place = tuple[str, str | None, int | None]
"""Cause, or kind of finding; file name; line."""

Key = tuple[str, str | None, int | None, Place | None]
"""The same with a second sufficient cause and its line; None where a method names none."""

SEVERAL_WAITS = "several_waits"
"""A second cause that would have to go together with waits at other places, and the finding about all of these."""

NOISE_FACTOR = 3
MOST_DELAY_FRAC = 0.25
MOST_GAIN_OFF = 0.25

LEAST_NOISE_NS = 20_000
"""Per step; two or three repeats can agree by accident."""


@dataclass
class Evaluation:
    """One run. Times per step, in ns.

    Attributes:
        idle_ns: By the engine log.
        window_ns: By the engine log.
        methods: Per method its idle time by cause and line.
        sum_off_ns: How far our rows are from the idle time of the engine log, in all steps together.
        promises: What each kind of finding at each line would give back, those too small to be shown as well.
        findings: Those that are shown: kind and line as a text.
        delay_ns: How long the training thread was ready and had no core, in all steps together.
    """

    idle_ns: float
    window_ns: float
    methods: dict[str, dict[Key, float]]
    sum_off_ns: int
    promises: dict[Place, float]
    findings: list[str]
    delay_ns: int = 0


@dataclass
class Score:
    """One method on one cell, ns per step.

    Attributes:
        right_ns: Under a right cause, at most the truth.
        line_ns: Under a right cause and at a line to blame, at most the truth.
        wrong_ns: Rises of other causes.
        over_ns: Under a right cause beyond the truth.
        either_ns: As ``right_ns``, where a right second cause at a line to blame, or at none, counts as well.
        either_line_ns: As ``line_ns``, likewise.
        either_wrong_ns: Rises of rows that name no right cause at all, and those of right ones beyond the truth.
        rises: Per cause how much it rose.
    """

    right_ns: float
    line_ns: float
    wrong_ns: float
    over_ns: float
    either_ns: float
    either_line_ns: float
    either_wrong_ns: float
    rises: dict[str, float]


@dataclass
class Cell:
    """One mistake in one regime: what it really costs, and what each method says.

    Attributes:
        truth_ns: Idle time that the mistake causes, per step, net of device work that it takes away.
        gain_ns: By how much a step gets shorter without it, but for work that the device no longer has to do: no wait
            can give that back.
        noise_ns: Standard deviation of the truth between repeats.
        gain_noise_ns: The same of the gain.
        predicted_ns: What findings of the right kinds promise at the lines of the mistake or at no line, with the
            mistake less without.
    """

    workload: str
    injection: str
    regime: str
    seed: int
    causes: tuple[str, ...]
    truth_ns: float
    gain_ns: float
    moved_ns: float
    noise_ns: float
    gain_noise_ns: float
    predicted_ns: float
    sum_off_ns: int
    scores: dict[str, Score] = field(default_factory=dict)

    @property
    def scored(self) -> bool:
        """Whether the truth stands out of the noise."""
        return self.truth_ns >= NOISE_FACTOR * self.noise_ns

    @property
    def gain_scored(self) -> bool:
        """Whether the gain stands out of its own noise as well: of a short difference of long steps there is more."""
        return self.scored and self.gain_ns >= NOISE_FACTOR * self.gain_noise_ns

    @property
    def gain_is_right(self) -> bool:
        """Whether what is promised is near what a step really gets shorter by."""
        return abs(self.predicted_ns - self.gain_ns) <= MOST_GAIN_OFF * self.gain_ns


def line_map(before: dict[str, str], after: dict[str, str]) -> dict[tuple[str, int], int]:
    """Which line of each file of one script is which of another one, by their texts; lines that only one has are -n."""
    found: dict[tuple[str, int], int] = {}
    for file, text in before.items():
        lines, others = text.splitlines(), after.get(file, "").splitlines()
        found |= {(file, number): -number for number in range(1, len(lines) + 1)}
        for block in difflib.SequenceMatcher(None, lines, others, autojunk=False).get_matching_blocks():
            found |= {(file, block.a + n + 1): block.b + n + 1 for n in range(block.size)}
    return found


def at_lines(run: Evaluation, lines: dict[tuple[str, int], int]) -> Evaluation:
    """The evaluation with other line numbers: a script without a mistake has its lines in other places."""

    def moved(place: Place) -> Place:
        cause, file, line = place
        return cause, file, lines.get((file, line), line) if file is not None and line is not None else line

    methods: dict[str, dict[Key, float]] = {}
    for method, sums in run.methods.items():
        kept = methods.setdefault(method, {})
        for (cause, file, line, second), value in sums.items():
            key = (*moved((cause, file, line)), moved(second) if second else None)
            kept[key] = kept.get(key, 0.0) + value
    promises: dict[Place, float] = {}
    for place, value in run.promises.items():
        promises[moved(place)] = promises.get(moved(place), 0.0) + value
    return replace(run, methods=methods, promises=promises)


def promised(run: Evaluation, kinds: tuple[str, ...], lines: set[tuple[str, int]]) -> float:
    """What findings of some kinds promise at some lines or at no line; one at a wrong line helps nobody."""
    return sum(
        value
        for (kind, file, line), value in run.promises.items()
        if kind in kinds and (line is None or (file, line) in lines)
    )


def mean_of(evaluations: Iterable[Evaluation], method: str) -> dict[Key, float]:
    """Mean over runs, per cause and line."""
    total: defaultdict[Key, float] = defaultdict(float)
    runs = list(evaluations)
    for run in runs:
        for key, value in run.methods[method].items():
            total[key] += value / len(runs)
    return total


def score(
    on: list[Evaluation], off: list[Evaluation], method: str, causes: tuple[str, ...], seconds: tuple[str, ...],
    lines: set[tuple[str, int]], truth_ns: float,
) -> Score:  # fmt: skip
    """One method: by how much each cause rises with the mistake, against the truth.

    Right second causes are ``seconds``.
    """
    rise: defaultdict[Key, float] = defaultdict(float)
    for sign, runs in ((1, on), (-1, off)):
        for key, value in mean_of(runs, method).items():
            rise[key] += sign * value
    by_cause: defaultdict[str, float] = defaultdict(float)
    neither: defaultdict[str, float] = defaultdict(float)
    at_line = either = either_line = 0.0
    for (cause, file, line, second), value in rise.items():
        by_cause[cause] += value
        # A second cause at another line is about another mistake: without this one it may well be second to more.
        is_about_it = second is not None and (second[2] is None or second[1:] in lines)
        right_ones = [(cause, file, line)] if cause in causes else []
        if second is not None and second[0] in seconds and is_about_it:
            right_ones.append(second)
        on_line = any((place[1], place[2]) in lines for place in right_ones)
        at_line += value if cause in causes and (file, line) in lines else 0.0
        either += value if right_ones else 0.0
        either_line += value if on_line else 0.0
        neither[cause] += 0.0 if right_ones else value
    right = sum(by_cause[cause] for cause in causes)
    wrong = sum(max(0.0, value) for cause, value in by_cause.items() if cause not in causes)
    capped, capped_either = (min(max(one, 0.0), truth_ns) for one in (right, either))
    return Score(
        right_ns=capped, line_ns=min(max(at_line, 0.0), capped), wrong_ns=wrong, over_ns=max(0.0, right - truth_ns),
        either_ns=capped_either, either_line_ns=min(max(either_line, 0.0), capped_either),
        either_wrong_ns=sum(max(0.0, value) for value in neither.values()) + max(0.0, either - truth_ns),
        rises=dict(by_cause),
    )  # fmt: skip


def is_disturbed(run: Evaluation, steps: int) -> bool:
    """Whether the training thread was ready and had no core for so much of a run that its times say little.

    Other work on the machine makes single runs much slower. Whether one counts depends on nothing that is scored.
    """
    return run.delay_ns > MOST_DELAY_FRAC * run.window_ns * steps


def noise_of(repeats: list[float]) -> float:
    """How much repeats of a time differ: infinitely where there is one alone."""
    return max(statistics.stdev(repeats), LEAST_NOISE_NS) if len(repeats) > 1 else float("inf")


def cell_of(
    names: tuple[str, str, str, int], causes: tuple[str, ...], kinds: tuple[str, ...], lines: set[tuple[str, int]],
    on: list[Evaluation], off: list[Evaluation],
) -> Cell:  # fmt: skip
    """The cell of one mistake from its paired repeats; one pair alone has no noise to compare with."""
    pairs = list(zip(on, off, strict=True))
    several = (SEVERAL_WAITS,) if SEVERAL_WAITS in kinds else ()
    moved = statistics.fmean(max(0.0, (b.window_ns - b.idle_ns) - (a.window_ns - a.idle_ns)) for a, b in pairs)
    differences = [a.idle_ns - b.idle_ns for a, b in pairs]
    work = [max(0.0, (a.window_ns - a.idle_ns) - (b.window_ns - b.idle_ns)) for a, b in pairs]
    gains = [a.window_ns - b.window_ns - more for (a, b), more in zip(pairs, work, strict=True)]
    predicted = [statistics.fmean(promised(run, kinds, lines) for run in runs) for runs in (on, off)]
    cell = Cell(
        *names,
        causes=causes,
        truth_ns=statistics.fmean(differences) - moved,
        gain_ns=statistics.fmean(gains),
        moved_ns=moved,
        noise_ns=noise_of(differences),
        gain_noise_ns=noise_of(gains),
        predicted_ns=predicted[0] - predicted[1],
        sum_off_ns=max(run.sum_off_ns for run in (*on, *off)),
    )
    for method in on[0].methods:
        cell.scores[method] = score(on, off, method, causes, (*causes, *several), lines, max(cell.truth_ns, 0.0))
    return cell


def totals(cells: list[Cell], method: str) -> dict[str, Any]:
    """Over the scored cells, weighted by time."""
    scored = [cell for cell in cells if cell.scored]
    truth = sum(cell.truth_ns for cell in scored)
    scores = [cell.scores[method] for cell in scored]
    right = sum(one.right_ns for one in scores)
    wrong = sum(one.wrong_ns + one.over_ns for one in scores)
    either, either_wrong = sum(one.either_ns for one in scores), sum(one.either_wrong_ns for one in scores)
    return {
        "right_cause_frac": _frac(right, truth),
        "right_line_frac": _frac(sum(one.line_ns for one in scores), truth),
        "precision_frac": _frac(right, right + wrong),
        "wrong_frac": _frac(wrong, truth),
        "right_or_second_cause_frac": _frac(either, truth),
        "right_or_second_line_frac": _frac(sum(one.either_line_ns for one in scores), truth),
        "precision_with_second_frac": _frac(either, either + either_wrong),
        "mean_cell_right_frac": _frac(
            sum(_frac(c.scores[method].right_ns, c.truth_ns) or 0 for c in scored), len(scored)
        ),
        "mean_cell_right_or_second_frac": _frac(
            sum(_frac(c.scores[method].either_ns, c.truth_ns) or 0 for c in scored), len(scored)
        ),
        "mean_cell_line_frac": _frac(
            sum(_frac(c.scores[method].either_line_ns, c.truth_ns) or 0 for c in scored), len(scored)
        ),
        "gain_right": sum(cell.gain_is_right for cell in cells if cell.gain_scored),
        "gain_cells": sum(cell.gain_scored for cell in cells),
        "cells": len(scored),
        "unscored": len(cells) - len(scored),
    }


def by_cause(cells: list[Cell], method: str) -> dict[str, dict[str, Any]]:
    """The same for the cells of each cause."""
    groups: defaultdict[str, list[Cell]] = defaultdict(list)
    for cell in cells:
        groups[" or ".join(cell.causes)].append(cell)
    return {cause: totals(group, method) for cause, group in sorted(groups.items())}


def confusion(cells: list[Cell], method: str) -> dict[str, dict[str, float]]:
    """Per true cause how much time the method puts under which cause, in ns per step, over the scored cells."""
    table: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for cell in cells:
        if cell.scored:
            for cause, value in cell.scores[method].rises.items():
                table[" or ".join(cell.causes)][cause] += value
    return {truth: dict(row) for truth, row in table.items()}


def _frac(part: float, whole: float) -> float | None:
    return round(part / whole, 4) if whole else None
