"""Why a budget is broken: what grew most, by how much, and on which line."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from .causes import CAUSES
from .compare_lines import PlaceDifference, mean_places, place_differences, stall_line_map
from .compare_parts import mean_step, part_differences
from .compare_texts import part_words, signed_duration
from .finding_texts import duration_text
from .gate_places import Place
from .gate_values import recompilations
from .gate_verdicts import Judgement
from .memory_holders import BEFORE
from .place_growth import Growth, growths
from .run_facts import CompiledPlace, PlacedCount, RunMeasures

MOST_NAMES = 3
"""Ops named in a sentence."""


@dataclass(frozen=True, slots=True)
class Blame:
    """Why, and where.

    Attributes:
        text: What it is and how much, as half a sentence.
        file: The file; None where the recording does not say.
        line: The line.
        function: The function.
    """

    text: str
    file: str | None = None
    line: int | None = None
    function: str | None = None


@dataclass(frozen=True, slots=True)
class Side:
    """One side: its runs, and the places of one of them.

    Attributes:
        runs: The runs.
        places: Those of the run in the middle; empty where they are not known.
    """

    runs: tuple[RunMeasures, ...]
    places: tuple[Place, ...]


def blame(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    """What is behind a budget that is broken; None where the recording does not say."""
    return _OF_NAME.get(judgement.budget.name, _nothing)(judgement, new, base)


def typical_run(runs: Sequence[RunMeasures]) -> int:
    """The index of the run with the middle step time: the one whose places stand for all."""
    order = sorted(range(len(runs)), key=lambda place: runs[place].median_step_ns or 0)
    return order[len(order) // 2]


def _step(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    """The state and cause that grew most in the mean step."""
    before = mean_step(base.runs) if any(run.device_steps for run in base.runs) else {}
    parts = part_differences(before, mean_step(new.runs))
    grown = max(parts, key=lambda part: part.difference_ns, default=None)
    if grown is None or grown.difference_ns <= 0:
        return None
    place: PlaceDifference | Place | None = None
    if grown.cause:
        place = _stalled(grown.cause, new, base, grown.state)
    elif launched := _grown(grown.state, new, base):
        place = launched.place
    if before:
        text = (
            f"{part_words(grown)}: {signed_duration(grown.difference_ns)} in the mean step, "
            f"{duration_text(grown.base_ns)} -> {duration_text(grown.new_ns)}"
        )
    else:
        text = f"{part_words(grown)} is most of the mean step: {duration_text(grown.new_ns)}"
    if grown.state == "compute":
        text += _kernel(new, base)
    return _at(text, place)


def _kernel(new: Side, base: Side) -> str:
    """The kernel whose time grew most, where both sides know theirs."""
    if not all(any(run.kernels for run in side.runs) for side in (new, base)):
        return ""
    sums: dict[str, float] = {}
    for sign, side in ((1, new), (-1, base)):
        runs = [run for run in side.runs if run.kernels]
        for run in runs:
            for row in run.kernels:
                name = row.short_name or row.name
                sums[name] = sums.get(name, 0) + sign * row.device_ns / max(run.device_steps, 1) / len(runs)
    name = max(sums, key=lambda one: sums[one])
    return f"; {name} {signed_duration(round(sums[name]))}" if sums[name] > 0 else ""


def _stall(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    cause = judgement.budget.cause
    place = _stalled(cause, new, base)
    each = sum(run.stall_ns_by_cause.get(cause, 0) for run in new.runs) // max(_steps(new), 1)
    return _at(f"{CAUSES[cause]}: {duration_text(each)} of the mean step", place)


def _steps(side: Side) -> int:
    return sum(run.device_steps for run in side.runs)


def _memory(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    grown = _grown("memory", new, base)
    if grown is None:
        return None
    what = grown.place.what or "what no op is known for"
    what = "what was allocated before the recording" if what == BEFORE else what
    if not base.places:
        return _at(f"{what} holds most of the peak: {_size(grown.place.amount)}", grown.place)
    return _at(
        f"{what} holds {_size(grown.place.amount)} of the peak, {_size(grown.before)} in the baseline", grown.place
    )


def _bytes(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    grown = _grown("bytes", new, base)
    if grown is None:
        return None
    text = f"{_size(grown.place.amount)} a step copied from here"
    return _at(f"{text}, {_size(grown.before)} in the baseline" if base.places else text, grown.place)


def _fallbacks(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    if not judgement.fallbacks:
        return None
    one = judgement.fallbacks[0]
    inside = f" (inside {one.root_op})" if one.root_op != one.op else ""
    text = f"{one.op}{inside} ran on the CPU {one.count} times in the run, {duration_text(one.host_ns)} in all"
    more = len({other.op for other in judgement.fallbacks}) - 1
    if more:
        text += f", and {more} other {'op' if more == 1 else 'ops'}"
    return Blame(text, one.file, one.line, one.function)


def _compiles(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    """What was compiled again that was not before, with its reason; else the op that was compiled more often."""
    run = max(new.runs, key=_recompilations)
    known = {(one.name, one.reason) for side_run in base.runs for one in side_run.compilation.recompiles or ()}
    found = [one for one in run.compilation.recompiles or () if (one.name, one.reason) not in known]
    if found:
        return _recompiled(found[0])
    return _compiled_more(run, base, steady=judgement.budget.name == "recompiles") or _compiled_in_all(run, new, base)


def _compiled_more(run: RunMeasures, base: Side, *, steady: bool) -> Blame | None:
    """The ops of one line that were compiled more often than in any run of the baseline, where that is most."""
    sums = [_counts(one, steady=steady) for one in base.runs]
    before = {key: max(counts[key] for counts in sums) for key in {key for counts in sums for key in counts}}
    counts = _counts(run, steady=steady)
    more = {key: count - before.get(key, 0) for key, count in counts.items() if count > before.get(key, 0)}
    by_line: dict[tuple[str | None, int | None, str | None], list[str]] = {}
    for place in run.compilation.places:
        if _key(place) in more and (place.steady_count if steady else place.count):
            by_line.setdefault((place.file, place.line, place.function), []).append(place.name)
    if not by_line:
        return None
    key = {where: [(name, *_spot(where[0], where[2])) for name in names] for where, names in by_line.items()}
    where = max(by_line, key=lambda one: sum(more[each] for each in key[one]))
    count, old = (sum(side.get(each, 0) for each in key[where]) for side in (counts, before))
    text = f"{_listed(by_line[where])} compiled {_times(count)}{' in steady steps' if steady else ''}"
    text += f", {_times(old) if old else 'never'} in the baseline" if base.runs else ""
    return Blame(text, *where)


def _listed(names: list[str]) -> str:
    """The first names as the subject of a sentence."""
    if len(names) == 1:
        return f"{names[0]} was"
    if len(names) <= MOST_NAMES:
        return f"{', '.join(names[:-1])} and {names[-1]} were"
    return f"{', '.join(names[:MOST_NAMES])} and {len(names) - MOST_NAMES} more were"


def _key(place: CompiledPlace) -> tuple[str, str, str]:
    """What a compiled place is known by on the other side: the op, the name of the file, and the function."""
    return place.name, *_spot(place.file, place.function)


def _spot(file: str | None, function: str | None) -> tuple[str, str]:
    """The file's name without its folders, and the function: lines move when a file is edited."""
    return PurePosixPath((file or "").replace("\\", "/")).name, function or ""


def _counts(run: RunMeasures, *, steady: bool) -> Counter[tuple[str, str, str]]:
    found: Counter[tuple[str, str, str]] = Counter()
    for place in run.compilation.places:
        found[_key(place)] += place.steady_count if steady else place.count
    return found


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _compiled_in_all(run: RunMeasures, new: Side, base: Side) -> Blame:
    """How much was compiled, where what it was is not known, and the line that waited most for it."""
    compiled = run.compilation
    count, ns, where = compiled.steady_count, compiled.steady_ns, " in steady steps"
    if not count:
        count, ns, where = compiled.count, compiled.ns, ""
    text = f"{count} compilation{'' if count == 1 else 's'}{where}, {duration_text(ns)} in all"
    return _at(text, _stalled("compile", new, base))


def _recompilations(run: RunMeasures) -> int:
    return recompilations(run) if run.recompile_count is not None or run.unit == "step" else 0


def _recompiled(one: PlacedCount) -> Blame:
    reason = f": {one.reason}" if one.reason else ""
    return Blame(f"{one.name} was compiled again {_times(one.count)}{reason}", one.file, one.line)


def _cold_start(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    run = max(new.runs, key=lambda one: one.cold_start_ns)
    text = f"{run.preparation_steps} steps prepared; {duration_text(run.compilation.ns)} of compilation in the run"
    return Blame(text)


def _communication(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    place = _stalled("wait_for_peer", new, base)
    return _at("ranks arrive late in collectives", place)


def _losses(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    return Blame("`stallscope info` lists what is missing")


def _nothing(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    return None


_OF_NAME: dict[str, Callable[[Judgement, Side, Side], Blame | None]] = {
    "step_time": _step,
    "step_time_p95": _step,
    "peak_memory": _memory,
    "cold_start": _cold_start,
    "compiles": _compiles,
    "recompiles": _compiles,
    "fallbacks": _fallbacks,
    "stall_share": _stall,
    "bytes_moved": _bytes,
    "communication_waiting": _communication,
    "losses": _losses,
}


def _grown(kind: str, new: Side, base: Side) -> Growth | None:
    """The place of a kind that costs most more than before; one with a line where that grew about as much."""
    found = [one for one in growths(new.places, base.places) if one.place.kind == kind and one.difference > 0]
    worth = [one for one in found if one.place.file and 2 * one.difference >= found[0].difference]
    return next(iter(worth or found), None)


def _stalled(cause: str, new: Side, base: Side, state: str = "stall") -> PlaceDifference | None:
    """The line where stalls of a cause grew most; one with a line before one without."""
    if not _steps(new):
        return None
    same = stall_line_map(base.runs, new.runs)
    before = mean_places(base.runs, {}) if any(run.device_steps for run in base.runs) else {}
    rows = place_differences(before, mean_places(new.runs, same), same)
    mine = sorted(
        (row for row in rows if (row.state, row.cause) == (state, cause) and row.difference_ns > 0),
        key=lambda row: -row.difference_ns,
    )
    return next((row for row in mine if row.file), mine[0] if mine else None)


def _at(text: str, place: Place | PlaceDifference | None) -> Blame:
    return Blame(text, place.file, place.line, place.function) if place else Blame(text)


def _size(byte_count: int) -> str:
    """An amount of memory for a sentence."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if byte_count >= size:
            return f"{byte_count / size:.1f} {unit}"
    return f"{byte_count} B"
