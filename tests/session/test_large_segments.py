"""Segments that end or begin by themselves: too large, mostly Python's calls, or a window of ``always``."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

import stallscope
from stallscope.collectors.live import segment_size, torch_trace
from stallscope.collectors.live.windows import WindowTrigger
from stallscope.profiler.session.conversion import Conversion

from .workloads import Training, all_losses, opened


def python_calls(recording: Path) -> list[int]:
    """How many there are in each segment, in order."""
    found = []
    for file in sorted((recording / "ranks" / "rank=00000" / "attempt=0" / "raw").glob("segment-*.json")):
        events = json.loads(file.read_text()).get("traceEvents")
        if events is not None:
            found.append(sum(event.get("cat") == "python_function" for event in events))
    return found


def test_pythons_calls_are_left_out_where_they_are_most_of_a_large_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    submit, count_of = Conversion.submit, torch_trace.count_of

    def submitted(self: Conversion, *arguments: Any) -> None:
        order.append("handed over")
        submit(self, *arguments)

    def counted(path: Path, word: bytes) -> int:
        order.append("counted")
        return count_of(path, word)

    monkeypatch.setattr(torch_trace, "LARGE_TRACE_BYTES", 1)
    monkeypatch.setattr(torch_trace, "MOSTLY_CALLS", 0.01)
    monkeypatch.setattr(torch_trace, "count_of", counted)
    monkeypatch.setattr(Conversion, "submit", submitted)
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="normal", schedule="1,0,4,2", keep_raw=True) as prof:
        for _ in range(10):
            training.step()
            prof.step()
    first, *others = python_calls(tmp_path / "run")
    assert first > 50
    assert others
    assert sum(others) == 0
    # The converter removes what it has read: it must not be handed the file before.
    assert order[:2] == ["counted", "handed over"]
    assert [row["count"] for row in all_losses(opened(tmp_path / "run")) if row["kind"] == "stacks_off"] == [first]


def test_a_segment_that_is_far_too_large_ends_in_mid_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.profiler.session.session.TICK_S", 0.01)
    monkeypatch.setattr(segment_size, "SHORTEST_S", 0.0)
    monkeypatch.setattr(torch_trace, "PATIENCE_S", 0.0)
    monkeypatch.setattr(torch_trace, "FAR_TOO_LARGE", -1e9)
    submit, in_mid_program = Conversion.submit, []

    def submitted(self: Conversion, segment: Any) -> None:
        in_mid_program.append(segment)
        submit(self, segment)

    monkeypatch.setattr(Conversion, "submit", submitted)
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="low") as prof:
        until = time.monotonic() + 60
        while not in_mid_program and time.monotonic() < until:
            training.model(training.inputs)  # no step, no backward pass, no batch: nothing that is a safe place
        assert in_mid_program
        training.step()
        prof.step()
    recording = opened(tmp_path / "run")
    assert recording.table("segments").num_rows >= 2
    assert not [row for row in all_losses(recording) if row["kind"] == "collector_error"]


def test_a_window_of_always_waits_for_a_safe_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = iter(["asked for by a test"])
    monkeypatch.setattr(WindowTrigger, "reason", lambda _trigger, _dur: next(asked, None))
    training = Training()
    with stallscope.profile(tmp_path / "run", detail="always", window_steps=2) as prof:
        hook = next(training.model.parameters()).register_post_accumulate_grad_hook(lambda _: prof.step())
        training.step()  # ends a step in the middle of the backward pass, where no session may begin
        hook.remove()
        in_backward = list((tmp_path / "run").rglob("segments/*"))
        began = time.time_ns()
        prof.step()
        for _ in range(4):
            training.step()
            prof.step()
    assert not in_backward
    recording = opened(tmp_path / "run")
    (segment,) = recording.table("segments").to_pylist()
    assert segment["ts"] >= began
    (window,) = [row for row in all_losses(recording) if row["kind"] == "window"]
    assert window["detail"] == "a full window was taken: asked for by a test"
    names = recording.table("slices")["name"].to_pylist()
    assert sum("Optimizer.step#AdamW.step" in str(name) for name in names) == 2
    assert not [row for row in all_losses(recording) if row["kind"] == "collector_error"]
