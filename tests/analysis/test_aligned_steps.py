"""Steps of two recordings that are laid side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.analysis.aligned_steps import AlignedStep, AlignedSteps, aligned_steps
from stallscope.profiler.recording.reader import Recording
from tests.builders import TraceBuilder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _training(
    path: Path, numbers: range, *, length: int, rank: int = 0, odd: dict[int, int] | None = None
) -> Recording:
    """Steps whose device work begins 300 after the host's step; those in ``odd`` are of another length."""
    trace = TraceBuilder(rank)
    main, gpu = trace.thread(), trace.stream(7)
    begin = 10_000
    for number in numbers:
        long = (odd or {}).get(number, length)
        trace.step(number, begin, long, phase="execution")
        trace.launched(main, gpu, call=(begin + 100, 10), work=(begin + 300, long // 2))
        begin += long
    return trace.write(path)


def _both(laid: AlignedSteps) -> tuple[AlignedStep, AlignedStep]:
    return laid.base, laid.new


def test_the_same_number_is_laid_at_its_start_on_the_device(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(5), length=1000)
    new = _training(tmp_path / "new", range(3, 9), length=2000)
    before, after = _both(aligned_steps(base, new, step=4))
    assert before == AlignedStep(rank=0, step=4, start=10_000 + 4 * 1000 + 300, end=10_000 + 4 * 1000 + 800)
    assert after == AlignedStep(rank=0, step=4, start=10_000 + 2000 + 300, end=10_000 + 2 * 2000 + 300)


def test_without_a_common_number_each_has_a_typical_step(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(3), length=1000)
    new = _training(tmp_path / "new", range(100, 103), length=1000, rank=2)
    laid = aligned_steps(base, new, rank=2)
    before, after = _both(laid)
    assert "no step number in common" in laid.note
    assert (before.rank, after.rank) == (0, 2)
    assert before.step in range(3)
    assert after.step in range(100, 103)


def test_a_recording_without_steps_is_laid_at_its_first_operation(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(0), length=1000)
    trace = TraceBuilder()
    trace.launched(trace.thread(), trace.stream(7), call=(100, 10), work=(500, 70))
    laid = aligned_steps(base, trace.write(tmp_path / "new"))
    before, after = _both(laid)
    assert laid.note == ""
    assert (after.step, after.start, after.end) == (None, 500, 570)
    assert (before.step, before.start, before.end) == (None, 0, 0)


def test_of_the_steps_that_both_have_one_that_is_typical_of_both_is_laid(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(8), length=1000, odd={5: 1900, 6: 1080})
    new = _training(tmp_path / "new", range(5, 12), length=2000, odd={7: 4000})
    laid = aligned_steps(base, new)
    assert (laid.base.step, laid.new.step, laid.note) == (6, 6, "")  # 5 is long in one, 7 in the other
    assert laid == aligned_steps(base, new, step=99)
    assert aligned_steps(base, new, step=5).base.step == 5  # one that is asked for need not be typical


def test_where_no_common_step_is_typical_of_both_each_shows_its_own(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(7), length=1000, odd={5: 1900, 6: 4000})
    new = _training(tmp_path / "new", range(5, 12), length=2000)
    laid = aligned_steps(base, new)
    assert laid.base.step in range(5)
    assert laid.new.step in range(5, 12)
    assert "typical of both" in laid.note
    only = aligned_steps(base, new, step=9)
    assert (only.new.step, only.base.step) == (9, laid.base.step)
    assert "Only one of the two has step 9" in only.note
