"""Steps of two recordings that are laid side by side."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.analysis.aligned_steps import AlignedStep, aligned_steps
from stallscope.profiler.recording.reader import Recording
from tests.builders import TraceBuilder


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _training(path: Path, numbers: range, *, length: int, rank: int = 0) -> Recording:
    """Steps whose device work begins 300 after the host's step."""
    trace = TraceBuilder(rank)
    main, gpu = trace.thread(), trace.stream(7)
    for place, number in enumerate(numbers):
        begin = 10_000 + place * length
        trace.step(number, begin, length, phase="execution")
        trace.launched(main, gpu, call=(begin + 100, 10), work=(begin + 300, length // 2))
    return trace.write(path)


def test_the_same_number_is_laid_at_its_start_on_the_device(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(5), length=1000)
    new = _training(tmp_path / "new", range(3, 9), length=2000)
    before, after = aligned_steps(base, new, step=4)
    assert before == AlignedStep(rank=0, step=4, start=10_000 + 4 * 1000 + 300, end=10_000 + 4 * 1000 + 800)
    assert after == AlignedStep(rank=0, step=4, start=10_000 + 2000 + 300, end=10_000 + 2 * 2000 + 300)


def test_without_a_common_number_each_has_a_typical_step(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(3), length=1000)
    new = _training(tmp_path / "new", range(100, 103), length=1000, rank=2)
    before, after = aligned_steps(base, new, rank=2)
    assert (before.rank, after.rank) == (0, 2)
    assert before.step in range(3)
    assert after.step in range(100, 103)


def test_a_recording_without_steps_is_laid_at_its_first_operation(tmp_path: Path) -> None:
    base = _training(tmp_path / "base", range(0), length=1000)
    trace = TraceBuilder()
    trace.launched(trace.thread(), trace.stream(7), call=(100, 10), work=(500, 70))
    before, after = aligned_steps(base, trace.write(tmp_path / "new"))
    assert (after.step, after.start, after.end) == (None, 500, 570)
    assert (before.step, before.start, before.end) == (None, 0, 0)
