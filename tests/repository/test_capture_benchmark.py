"""How the capture benchmark compares, on numbers that can be checked by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tests.conftest import REPOSITORY


@pytest.fixture
def capture(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import capture

    yield capture
    sys.modules.pop("capture")


def test_a_block_is_held_against_its_neighbours_of_the_other_way(capture: ModuleType) -> None:
    sequence = [("ours", 9.0), ("none", 1.0), ("bare", 7.0), ("ours", 3.0), ("none", 4.0), ("ours", 9.0)]
    assert np.exp(capture.against(sequence, "ours", "none")) == pytest.approx([1.5])
    assert np.exp(capture.against(sequence, "bare", "none")) == pytest.approx([3.5])
    assert len(capture.against(sequence, "ours", "bare")) == 0


def test_a_machine_that_gets_slower_changes_no_ratio(capture: ModuleType) -> None:
    ways = capture.in_turn(lambda way: way, 5, with_bare=True)
    assert [way for way, _ in ways] == [*("none", "bare", "ours", "bare") * 5, "none"]
    costs = {"none": 1.0, "bare": 1.3, "ours": 1.313}
    sequence = [(way, costs[way] * 1.07**number) for number, (way, _) in enumerate(ways)]
    for over, under, expected in (("ours", "bare", 1.01), ("ours", "none", 1.313)):
        found = capture.ratio(capture.against(sequence, over, under))
        assert (found.mean, found.low, found.high) == pytest.approx((expected,) * 3)


def test_a_tenth_of_the_ratios_is_left_out_at_either_end(capture: ModuleType) -> None:
    logs = np.log([1.0, *[1.1] * 4, *[1.21] * 4, 50.0])
    assert capture.middle(logs) == pytest.approx(1.1**1.5)


def test_what_a_start_costs_stands_apart(capture: ModuleType) -> None:
    blocks = [(way, SimpleNamespace(starting_s=s)) for way, s in (("none", 0.010), ("ours", 0.013), ("none", 0.012))]
    assert capture.starting_ms(blocks, "none") == pytest.approx(2.0)
