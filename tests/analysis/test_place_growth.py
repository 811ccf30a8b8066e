"""Places laid side by side although the code between them was edited."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.gate_places import Place
from stallscope.analysis.place_growth import ALIKE_PARTS, growths


def place(
    line: int, amount: int, *, what: str = "aten::clone", function: str = "train", file: str = "train.py"
) -> Place:
    return Place("memory", what, file, line, function, amount)


def found(new: list[Place], base: list[Place]) -> dict[int | None, tuple[int, int]]:
    return {one.place.line: (one.before, one.difference) for one in growths(new, base)}


def test_a_new_line_above_moves_the_others_and_is_not_taken_for_one_of_them() -> None:
    base = [place(69, 1000)]
    new = [place(63, 1000), place(70, 1000)]
    assert found(new, base) == {63: (0, 1000), 70: (1000, 0)}


def test_a_line_that_grew_is_the_same_line() -> None:
    assert found([place(5, 30)], [place(5, 10)]) == {5: (10, 20)}


def test_like_amounts_stay_together_when_a_line_is_gone() -> None:
    base = [place(10, 100), place(20, 500)]
    assert found([place(12, 500)], base) == {12: (500, 0)}


def test_another_op_function_or_file_is_another_place() -> None:
    base = [place(5, 10), place(5, 10, function="step"), place(5, 10, what="aten::mm"), place(5, 10, file="a/other.py")]
    new = [place(5, 12), place(5, 10, what="aten::cat"), place(5, 10, file="b/other.py")]
    assert [(one.place.what, one.before) for one in growths(new, base)] == [
        ("aten::cat", 0), ("aten::clone", 10), ("aten::clone", 10),
    ]  # fmt: skip


def cost(pairs: list[tuple[Place, Place]]) -> tuple[int, int]:
    unlike = moved = 0
    for one, other in pairs:
        most = max(one.amount, other.amount, 1)
        unlike += (2 * ALIKE_PARTS * abs(one.amount - other.amount) + most) // (2 * most)
        moved += abs((one.line or 0) - (other.line or 0))
    return unlike, moved


sides = st.dictionaries(st.integers(1, 40), st.integers(1, 20), min_size=1, max_size=5)


@given(sides, sides)
def test_the_pairs_are_the_best_ones_of_all_in_the_order_of_the_lines(
    new: dict[int, int], base: dict[int, int]
) -> None:
    here, there = ([place(line, amount) for line, amount in sorted(side.items())] for side in (new, base))
    answer = growths(here, there)
    assert sum(one.place.amount for one in answer) == sum(new.values())
    few, many = sorted((here, there), key=len)
    best = min(cost(list(zip(few, chosen, strict=True))) for chosen in combinations(many, len(few)))
    before = {one.place.line: one.before for one in answer}
    amounts = sorted(one.amount for one in there)
    assert all(value in (0, *amounts) for value in before.values())
    # Among the pairings that give the same amounts, the cost must be the least one.
    fits = [
        chosen
        for chosen in combinations(many, len(few))
        if cost(list(zip(few, chosen, strict=True))) == best and _amounts(here, there, few, chosen) == before
    ]
    assert fits


def _amounts(
    here: list[Place], there: list[Place], few: list[Place], chosen: tuple[Place, ...]
) -> dict[int | None, int]:
    """What each new line cost before, by a pairing of the shorter side."""
    before: dict[int | None, int] = dict.fromkeys((one.line for one in here), 0)
    for one, other in zip(few, chosen, strict=True):
        new, old = (one, other) if few is here else (other, one)
        before[new.line] = old.amount
    return before
