"""Verdicts on runs, against closed forms and simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stallscope.analysis.run_statistics import compare_runs, within_run

BASE = [10.0, 10.1, 9.9, 10.05, 9.95]


def test_the_interval_is_welchs() -> None:
    from scipy import stats

    new = [10.6, 10.9, 10.4, 10.75, 10.5]
    found = compare_runs(BASE, new)
    expected = stats.ttest_ind(np.log(new), np.log(BASE), equal_var=False).confidence_interval(0.95)
    assert found.low == pytest.approx(math.exp(expected.low))
    assert found.high == pytest.approx(math.exp(expected.high))
    assert found.verdict == "slower"


@pytest.mark.parametrize(
    ("factor", "verdict"),
    [(1.0, "no difference beyond the margin"), (1.1, "slower"), (0.9, "faster"), (1.015, "cannot tell")],
)
def test_each_verdict(factor: float, verdict: str) -> None:
    assert compare_runs(BASE, [value * factor for value in BASE]).verdict == verdict


def test_one_run_a_side_gives_no_verdict_without_a_history() -> None:
    found = compare_runs([10.0], [13.0])
    assert (found.verdict, found.low, found.runs_needed) == ("no verdict", None, 5)
    assert found.ratio == pytest.approx(1.3)
    assert compare_runs([10.0], [13.0], run_sd_frac=0.01).verdict == "slower"


def test_four_runs_are_too_few() -> None:
    assert compare_runs(BASE[:4], [20.0] * 4).verdict == "no verdict"


def test_runs_needed_would_tell() -> None:
    found = compare_runs(BASE, [value * 1.021 for value in (9.7, 10.3, 10.0, 9.8, 10.2)])
    assert found.verdict == "cannot tell"
    assert found.runs_needed is not None
    assert found.runs_needed > 5


@given(st.lists(st.floats(0.1, 100), min_size=5, max_size=8), st.lists(st.floats(0.1, 100), min_size=5, max_size=8))
def test_swapping_the_sides_inverts_the_answer(base: list[float], new: list[float]) -> None:
    there, back = compare_runs(base, new, margin_frac=0.0), compare_runs(new, base, margin_frac=0.0)
    assert there.ratio * back.ratio == pytest.approx(1)
    assert {"slower": "faster", "faster": "slower"}.get(there.verdict, there.verdict) == back.verdict


@pytest.mark.parametrize("bad", [[], [0.0], [-1.0], [float("nan")], [float("inf")]])
def test_values_that_are_no_durations(bad: list[float]) -> None:
    with pytest.raises(ValueError, match="run"):
        compare_runs(bad, BASE)


def test_nothing_changed_is_rarely_called_a_change() -> None:
    rng = np.random.default_rng(7)
    wrong = sum(
        compare_runs(np.exp(rng.normal(0, 0.01, 5)), np.exp(rng.normal(0, 0.01, 5)), margin_frac=0.0).verdict
        in ("faster", "slower")
        for _ in range(2000)
    )
    assert wrong <= 124  # 5 % of 2,000 and 2.5 standard deviations


def test_blocks_widen_the_interval_of_autocorrelated_steps() -> None:
    rng = np.random.default_rng(3)
    steps = [1.0]
    for _ in range(999):
        steps.append(1 + 0.9 * (steps[-1] - 1) + rng.normal(0, 0.02))
    shuffled = rng.permutation(steps)
    wide, narrow = within_run(steps), within_run(shuffled)
    assert wide.block > narrow.block
    assert wide.high - wide.low > 2 * (narrow.high - narrow.low)
    assert wide.low <= wide.value <= wide.high


def test_the_spread_of_the_side_with_enough_runs_serves_both() -> None:
    base, new = [100.0, 101.0, 99.0, 100.5, 99.5], [110.0]
    found = compare_runs(base, new, margin_frac=0.02)
    logs = np.log(base)
    half = float(stats.t.ppf(0.975, 4)) * logs.std(ddof=1) * math.sqrt(1 / 5 + 1)
    assert found.sd_source == "one side"
    assert found.verdict == "slower"
    assert found.low == pytest.approx(math.exp(math.log(110) - logs.mean() - half))
    back = compare_runs(new, base, margin_frac=0.02)
    assert (back.verdict, back.low) == ("faster", pytest.approx(1 / found.high))


def test_a_single_run_against_many_is_rarely_called_a_change_when_there_is_none() -> None:
    rng = np.random.default_rng(5)
    logs = rng.normal(0, 0.02, size=(2000, 6))
    verdicts = [compare_runs(np.exp(row[:5]), np.exp(row[5:]), margin_frac=0.0).verdict for row in logs]
    # At 5 % errors 124 of 2,000 is two and a half standard deviations above the mean.
    assert 60 < sum(verdict in ("faster", "slower") for verdict in verdicts) <= 124


def test_a_supplied_spread_goes_before_that_of_one_side() -> None:
    assert compare_runs([100.0, 101, 99, 100, 100], [110.0], run_sd_frac=0.2).sd_source == "supplied"
