"""The outline on disk beside what it is made of, worked out afresh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stallscope.analysis import timeline_outline as outlines
from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.device_bands import device_bands
from stallscope.analysis.steps import device_steps, host_steps
from stallscope.analysis.timeline_outline import timeline_outline
from stallscope.profiler.recording.reader import Recording, open_recording
from tests.builders import TraceBuilder
from tests.ui.recordings import training

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _same_cut(one: Any, other: Any) -> bool:
    arrays = all(np.array_equal(getattr(one, name), getattr(other, name)) for name in ("numbers", "starts", "ends"))
    return arrays and (one.phases, one.basis, one.reason) == (other.phases, other.basis, other.reason)


@pytest.mark.parametrize("most", [0, 10**9])
def test_it_is_what_the_analyses_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(outlines, "_FORGET_SLICES", most)
    recording = training(tmp_path / "recording")
    found, bands = timeline_outline(recording), device_bands(recording)
    assert found.bands.devices == bands.devices
    assert [(t.rank, t.first_row, t.rows, t.slices) for t in found.bands.index.tracks] == [
        (t.rank, t.first_row, t.rows, t.slices) for t in bands.index.tracks
    ]
    for column in ("row_start", "start", "end", "busy", "slice_id", "name", "category"):
        assert np.array_equal(getattr(found.bands.index, column), getattr(bands.index, column)), column
    for rank in recording.ranks:
        assert _same_cut(found.host_steps[rank], host_steps(recording, rank))
        for number, device in zip(found.devices_of(rank), rank_activity(recording, rank).devices, strict=True):
            assert _same_cut(found.device_steps[number], device_steps(recording, rank, device))


def test_the_second_time_it_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = timeline_outline(training(tmp_path / "recording"))

    def refuse(*_: object) -> None:
        raise AssertionError("it was worked out again")

    monkeypatch.setattr(outlines, "_build", refuse)
    again = timeline_outline(open_recording(tmp_path / "recording"))
    assert np.array_equal(first.bands.index.start, again.bands.index.start)


def test_a_recording_without_slices_has_an_empty_outline(tmp_path: Path) -> None:
    recording: Recording = TraceBuilder().write(tmp_path / "empty")
    found = timeline_outline(recording)
    assert found.bands.devices == ()
    assert len(found.host_steps[0]) == 0
