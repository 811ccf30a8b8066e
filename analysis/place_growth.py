"""Which places of the source cost more than before, though an edit has moved the lines.

A place is known again by what it is, its file and its function. Where a function has several such places, or one more
than before, they are laid side by side in the order of their lines: like amounts together, and of those the ones whose
lines moved least. What is left over on the new side is new.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .gate_places import Place

ALIKE_PARTS = 10
"""Amounts are alike where they differ by less than half of such a part of the larger one."""

Key = tuple[str, str, str, str]
Cost = tuple[int, int]
"""How unlike the amounts are, then by how many lines the places have moved."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A place of the new side, and what it cost before; 0 where it was not there."""

    place: Place
    before: int

    @property
    def difference(self) -> int:
        """New minus before."""
        return self.place.amount - self.before


def growths(new: Sequence[Place], base: Sequence[Place]) -> tuple[Growth, ...]:
    """Every place of the new side with what it cost on the base side, the largest growth first."""
    found = []
    there = _by_key(base)
    for key, places in _by_key(new).items():
        found += _paired(places, there.get(key, []))
    return tuple(sorted(found, key=lambda one: -one.difference))


def _by_key(places: Sequence[Place]) -> dict[Key, list[Place]]:
    found: dict[Key, list[Place]] = {}
    for place in sorted(places, key=lambda one: one.line or 0):
        found.setdefault(place.key, []).append(place)
    return found


def _paired(new: Sequence[Place], base: Sequence[Place]) -> list[Growth]:
    """The places of one key on both sides, in the order of their lines, such that the cost is least."""
    swapped = len(new) > len(base)
    few, many = (base, new) if swapped else (new, base)
    partner = _partners(few, many)
    if not swapped:
        return [Growth(place, base[at].amount) for place, at in zip(new, partner, strict=True)]
    before = {at: place.amount for place, at in zip(few, partner, strict=True)}
    return [Growth(place, before.get(number, 0)) for number, place in enumerate(new)]


def _partners(few: Sequence[Place], many: Sequence[Place]) -> list[int]:
    """For each of the few its partner among the many, in the same order."""
    best: list[dict[int, tuple[Cost, list[int]]]] = [{0: ((0, 0), [])}]
    for number, one in enumerate(few):
        row: dict[int, tuple[Cost, list[int]]] = {}
        for last, (cost, chosen) in best[-1].items():
            for at in range(last, len(many) - (len(few) - number) + 1):
                more = _cost(one, many[at])
                total = (cost[0] + more[0], cost[1] + more[1])
                if at + 1 not in row or total < row[at + 1][0]:
                    row[at + 1] = (total, [*chosen, at])
        best.append(row)
    return min(best[-1].values(), key=lambda entry: entry[0])[1]


def _cost(one: Place, other: Place) -> Cost:
    most = max(one.amount, other.amount, 1)
    unlike = (2 * ALIKE_PARTS * abs(one.amount - other.amount) + most) // (2 * most)
    return unlike, abs((one.line or 0) - (other.line or 0))
