"""Which line of the base side a line of the new side is: an edit moves lines, and another machine moves folders.

A file is the same where its path is, else where the two paths end in the same folders and name. The lines of a function
are the same where all that differs is by how much they moved; else where their numbers are. Those that are left over on
both sides, in equal number, are taken in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .compare_parts import mean_over_runs, mean_parts
from .run_facts import RunMeasures, StallPlace

Place = tuple[str, int, str]
"""File, line and function; ("", 0, "") for what no line is known for."""

Spot = tuple[str, str, Place]
"""State, root cause and place."""

NOWHERE: Place = ("", 0, "")

SURE = 2
"""The lines of a function moved together where so many times more of them meet that way than where they are."""


@dataclass(frozen=True, slots=True)
class PlaceDifference:
    """Stall, or exposed copies, of one root cause at one line in the mean step of both sides.

    Attributes:
        state: stall or data_movement.
        cause: Root cause.
        file: On the new side, on the base side where only that has it; None where no line is known.
        line: In that file.
        base_line: Where the base side has it, if elsewhere in the file; None if not.
        function: The function.
        base_ns: In the base side's mean step; over all places it adds up to the two states there, as ``new_ns`` does.
        new_ns: In the new side's.
        difference_ns: New minus base.
    """

    state: str
    cause: str
    file: str | None
    line: int | None
    base_line: int | None
    function: str | None
    base_ns: int
    new_ns: int
    difference_ns: int


def same_lines(base: Iterable[Place], new: Iterable[Place]) -> dict[Place, Place]:
    """For every new place the base place that it is; where the base side has none, one that no other has.

    That is the place itself; where the base side's line of that number is another new line, its number is below 0.
    """
    old, now = sorted(set(base)), sorted(set(new))
    file_of = same_files([place[0] for place in old], [place[0] for place in now])
    found = {place: (file_of[place[0]], *place[1:]) for place in now}
    for file, function in {(found[place][0], place[2]) for place in now}:
        theirs = [place for place in now if (found[place][0], place[2]) == (file, function)]
        there = [place for place in old if (place[0], place[2]) == (file, function)]
        if not function:
            continue
        partner = _partners([place[1] for place in theirs], [place[1] for place in there])
        found |= {place: (file, partner[place[1]], function) for place in theirs}
    return found


def _partners(lines: Sequence[int], base: Sequence[int]) -> dict[int, int]:
    """For lines of a function the lines that they were: all moved by as much, else where they are, else in order.

    A line that was none keeps its number, or has one below 0 where another line was that.
    """
    votes = Counter(line - old for line in lines for old in base)
    moved = max(votes, key=lambda shift: (votes[shift], -abs(shift)), default=0)
    shift = moved if votes[moved] >= SURE * max(votes[0], 1) else 0
    found = {line: line - shift for line in lines if line - shift in set(base)}
    left, rest = sorted(set(base) - set(found.values())), sorted(set(lines) - found.keys())
    if len(left) == len(rest):
        return found | dict(zip(rest, left, strict=True))
    taken = set(found.values())
    return found | {line: -1 - line if line in taken else line for line in rest}


def same_files(base: Sequence[str], new: Sequence[str]) -> dict[str, str]:
    """For every new path the base path that it is; itself where there is none, or where two would do."""
    old, found = set(base), {path: path for path in new}
    free = sorted(old - found.keys())
    taken: dict[str, list[str]] = {}
    for path in sorted(found.keys() - old):
        alike = {other: _common_end(path, other) for other in free}
        longest = max(alike.values(), default=0)
        best = [other for other, length in alike.items() if length == longest]
        if longest and len(best) == 1:
            taken.setdefault(best[0], []).append(path)
    return found | {paths[0]: other for other, paths in taken.items() if len(paths) == 1}


def _common_end(first: str, second: str) -> int:
    """How many folders and names at the end two paths share; 0 where not even the name."""
    shared = 0
    for one, other in zip(_pieces(first), _pieces(second), strict=False):
        if one != other:
            break
        shared += 1
    return shared


def _pieces(path: str) -> list[str]:
    return [piece for piece in reversed(path.replace("\\", "/").split("/")) if piece]


def place_of(one: StallPlace) -> Place:
    """The place of stalls."""
    return (one.file, one.line or 0, one.function or "") if one.file else NOWHERE


def stall_line_map(base: Sequence[RunMeasures], new: Sequence[RunMeasures]) -> dict[Place, Place]:
    """``same_lines`` of the places where the runs stall."""
    places = [[place_of(one) for run in runs for one in run.stall_places] for runs in (base, new)]
    return same_lines(*places)


def mean_places(runs: Sequence[RunMeasures], same: Mapping[Place, Place]) -> dict[Spot, int]:
    """The mean step of a side by state, root cause and line, ns: the mean of its runs' mean steps, each counting once.

    Adds up to the mean step to the nearest ns. Compute and communication are at ``NOWHERE``.

    Args:
        runs: The side's runs; those in which nothing was measured count for nothing.
        same: What to call a line, where that is not itself.
    """
    found = []
    for run in runs:
        sums: dict[Spot, int] = {(*part, NOWHERE): ns for part, ns in run.parts.items() if not part[1]}
        for one in run.stall_places:
            place = place_of(one)
            key = (one.state, one.cause, same.get(place, place))
            sums[key] = sums.get(key, 0) + one.ns
        if run.device_steps:
            found.append(mean_parts(sums, run.device_steps))
    return mean_over_runs(found)


def place_differences(
    base: Mapping[Spot, int], new: Mapping[Spot, int], same: Mapping[Place, Place]
) -> tuple[PlaceDifference, ...]:
    """Stalls and exposed copies by root cause and line, the largest difference first.

    Args:
        base: ``mean_places`` of the base side.
        new: The same of the new side, its lines called what they are on the base side.
        same: Which base line each new line is.
    """
    now = {old: place for place, old in same.items()}
    rows = []
    for key in sorted(spot for spot in base.keys() | new.keys() if spot[1]):
        state, cause, old = key
        file, line, function = now.get(old, old) if key in new else old
        moved = key in base and key in new and line != old[1]
        before, after = base.get(key, 0), new.get(key, 0)
        rows.append(
            PlaceDifference(
                state, cause, file or None, line or None, old[1] if moved else None, function or None, before, after,
                after - before,
            )
        )  # fmt: skip
    return tuple(sorted(rows, key=lambda row: -abs(row.difference_ns)))
