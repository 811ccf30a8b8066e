"""Why a budget is broken: what grew most, by how much, and on which line."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .causes import CAUSES
from .compare_lines import PlaceDifference, mean_places, place_differences, stall_line_map
from .compare_parts import mean_step, part_differences
from .compare_texts import part_words, signed_duration
from .finding_texts import duration_text
from .gate_places import Place
from .gate_values import recompilations
from .gate_verdicts import Judgement
from .run_facts import PlacedCount, RunMeasures


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
    place = _stalled(grown.cause, new, base, grown.state) if grown.cause else _grown(grown.state, new, base)
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
    place = _grown("memory", new, base)
    if place is None:
        return None
    before = _before(place, base)
    what = place.what or "what no op is known for"
    if not base.places:
        return _at(f"{what} holds most of the peak: {_size(place.amount)}", place)
    return _at(f"{what} holds {_size(place.amount)} of the peak, {_size(before)} in the baseline", place)


def _bytes(judgement: Judgement, new: Side, base: Side) -> Blame | None:
    place = _grown("bytes", new, base)
    if place is None:
        return None
    text = f"{_size(place.amount)} a step copied from here"
    return _at(f"{text}, {_size(_before(place, base))} in the baseline" if base.places else text, place)


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
    """What was compiled again that was not before, with its reason; else where the step waited for a compiler."""
    run = max(new.runs, key=_recompilations)
    known = {(one.name, one.reason) for side_run in base.runs for one in side_run.compilation.recompiles or ()}
    found = [one for one in run.compilation.recompiles or () if (one.name, one.reason) not in known]
    if found:
        return _recompiled(found[0])
    place = _stalled("compile", new, base)
    compiled = run.compilation
    count, ns, where = compiled.steady_count, compiled.steady_ns, " in steady steps"
    if not count:
        count, ns, where = compiled.count, compiled.ns, ""
    text = f"{count} compilation{'' if count == 1 else 's'}{where}, {duration_text(ns)} in all"
    return _at(text, place)


def _recompilations(run: RunMeasures) -> int:
    return recompilations(run) if run.recompile_count is not None or run.unit == "step" else 0


def _recompiled(one: PlacedCount) -> Blame:
    reason = f": {one.reason}" if one.reason else ""
    times = "once" if one.count == 1 else f"{one.count} times"
    return Blame(f"{one.name} was compiled again {times}{reason}", one.file, one.line)


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


def _grown(kind: str, new: Side, base: Side) -> Place | None:
    """The place of a kind that costs most more than before; one with a line before one without."""
    mine = [place for place in new.places if place.kind == kind]
    growth = sorted(mine, key=lambda place: _before(place, base) - place.amount)
    return next((place for place in growth if place.file), growth[0] if growth else None)


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


def _before(place: Place, base: Side) -> int:
    return sum(other.amount for other in base.places if other.key == place.key)


def _at(text: str, place: Place | PlaceDifference | None) -> Blame:
    return Blame(text, place.file, place.line, place.function) if place else Blame(text)


def _size(byte_count: int) -> str:
    """An amount of memory for a sentence."""
    for unit, size in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if byte_count >= size:
            return f"{byte_count / size:.1f} {unit}"
    return f"{byte_count} B"
