"""Histories: rows on disk, change points and trends."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from stallscope.analysis.budgets import Budget
from stallscope.analysis.gate_places import Place
from stallscope.analysis.history import BASELINE_RUNS, add_run, baseline_runs, read_history, series
from stallscope.analysis.history_trend import change_points, spread_frac, trend
from stallscope.profiler.recording.errors import FormatError, UsageError
from tests.analysis.measured_runs import MS, run

STEP = Budget("step_time")


def add(folder: Path, number: int, ms: float, **facts: str) -> Path:
    measures = run(
        [round(ms * MS)] * 5, name=f"run {number}", created_ns=number * 10**16, fingerprint=f"{number:016x}{0:048x}",
        environment={"device": "1 x A", "git_commit": f"{number:040d}"} | facts,
    )  # fmt: skip
    return add_run(folder, measures, (Place("memory", "aten::mm", "net.py", 3, "f", number),))


def test_a_run_is_a_row_that_any_tool_reads(tmp_path: Path) -> None:
    path = add(tmp_path / "new" / "history", 7, 12.5, device="2 x B")
    [row] = pq.read_table(path).to_pylist()
    assert (row["step_time_ns"], row["device"], row["status"], row["steps"]) == (12_500_000, "2 x B", "completed", 5)
    assert row["peak_memory_bytes"] is None
    assert row["recompiles"] == 0
    [back] = read_history(tmp_path / "new" / "history")
    assert back.measures.steps_ns == (12_500_000,) * 5
    assert back.places[0].amount == 7


def test_a_run_is_added_once_and_only_if_it_completed(tmp_path: Path) -> None:
    add(tmp_path, 1, 10)
    with pytest.raises(UsageError, match="in the history already"):
        add(tmp_path, 1, 10)
    with pytest.raises(UsageError, match="did not complete"):
        add_run(tmp_path, run([1], status="killed", fingerprint="x"))
    assert len(list(tmp_path.iterdir())) == 1


def test_what_is_no_history_is_said(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="holds no history"):
        read_history(tmp_path)
    (tmp_path / "run-1-a.parquet").write_bytes(b"PAR1nonsense")
    with pytest.raises(FormatError, match="is not a run of a history"):
        read_history(tmp_path)


def test_the_baseline_is_the_present_level_on_the_same_device(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    for number in range(12):
        add(tmp_path, number, 20 * rng.normal(1, 0.01))
    for number in range(12, 24):
        add(tmp_path, number, 24 * rng.normal(1, 0.01))
    add(tmp_path, 24, 99, device="1 x B")
    runs = read_history(tmp_path)
    assert [one.measures.name for one in baseline_runs(runs, device="1 x A")] == [f"run {n}" for n in range(12, 24)]
    assert [one.measures.name for one in baseline_runs(runs)] == ["run 24"]
    found = series(runs[:24], STEP)
    [change] = found.changes
    assert change.index == 12
    assert change.change_frac == pytest.approx(0.2, abs=0.02)
    assert found.level == pytest.approx(24 * MS, rel=0.01)
    assert found.spread_frac == pytest.approx(0.01, rel=0.5)


def test_a_baseline_has_at_most_the_latest_runs(tmp_path: Path) -> None:
    for number in range(BASELINE_RUNS + 5):
        add(tmp_path, number, 10 + (number * 7 % 5) / 100)
    assert next(one.measures.name for one in baseline_runs(read_history(tmp_path))) == "run 5"


def test_series_without_a_change_seldom_have_one() -> None:
    rng = np.random.default_rng(4)
    found = sum(bool(change_points(rng.lognormal(3, 0.05, 15).tolist(), seed=n)) for n in range(200))
    assert found <= 2 + 2.5 * 2**0.5


def test_two_changes_are_found_where_they_are() -> None:
    rng = np.random.default_rng(5)
    levels = np.repeat([10.0, 12.0, 9.0], [10, 10, 10]) * rng.normal(1, 0.01, 30)
    assert [change.index for change in change_points(levels.tolist())] == [10, 20]


def test_one_slow_run_is_no_change() -> None:
    values = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8, 10.1, 30.0, 10.0, 9.9, 10.1, 10.0]
    assert change_points(values) == ()
    assert change_points([1.0, 2.0, 3.0]) == ()
    assert change_points([]) == ()


def test_creeping_is_told_from_noise() -> None:
    rng = np.random.default_rng(6)
    noise = rng.normal(0, 0.1, 20)
    assert not trend((10 + noise).tolist()).creeps
    creeping = trend((10 + 0.1 * np.arange(20) + noise).tolist())
    assert creeping.creeps
    assert creeping.per_run_frac == pytest.approx(0.1 / 10.95, rel=0.2)
    assert trend([1.0, 2.0]).per_run_frac is None
    assert not trend([0.0] * 9).creeps


def test_the_spread_is_pooled_over_levels() -> None:
    values = [10.0, 10.2, 20.0, 20.4]
    [a, b, c, d] = np.log(values)
    from stallscope.analysis.history_trend import ChangePoint

    expected = (((a - b) ** 2 / 2 + (c - d) ** 2 / 2) / 2) ** 0.5
    assert spread_frac(values, [ChangePoint(2, 10.1, 20.2, 0.001)]) == pytest.approx(expected)
    assert spread_frac([10.0], []) is None
    assert spread_frac([0.0, 1.0], []) is None
