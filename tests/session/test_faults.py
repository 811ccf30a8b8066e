"""Every method of every collector raises, one at a time: the training goes on and the recording says so."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import torch

import stallscope

from .workloads import Training, all_losses, losses_without_recording, opened

SELDOM = {
    # Called only where the program does what this one does not: other tests cover them.
    "torch": {
        "_make_way",
        "_end_for_other",
        "_tell_absence",
        "on_full",
        "_in_mid_program",
        "_end_at_once",
        "_leave_stacks_if_costly",
        "_rotate_now",
        "_follow_window",
        "_first_use",
        "_awaiting_no_more",
        "on_suspend",
        "on_resume",
        "_traces_calls",
    },
    "compile": {"_compile_begins", "_compile_ends", "_instant"},
    "collectives": {
        "_described_by_torch",
        "_end",
        "_wait_begins",
        "_wait_ends",
        "_group",
        "_add",
        "_finish",
        "_note_of_call",
        "_note_of_entry",
        "_was_traced",
    },
    "device_counters": {"_describe", "_look_for_trouble"},
    "steps": {"_is_the_range", "_range_ended"},
    "gc": {"_seen"},
}


def methods() -> list[tuple[str, str]]:
    found = []
    for point in entry_points(group="stallscope.collectors"):
        if point.value.startswith("stallscope."):
            for name, member in vars(point.load()).items():
                if inspect.isfunction(member) and name != "__init__" and name not in SELDOM.get(point.name, ()):
                    found.append((point.name, name))
    return sorted(found)


def broken_method(fired: list[str], name: str) -> Callable[..., Any]:
    def raises(self: object, *_arguments: object, **_named: object) -> Any:
        fired.append(name)
        raise RuntimeError(f"{name} is broken")

    raises.__name__ = name
    return raises


def train(path: Path) -> list[float]:
    """A training that gives every collector something to do."""
    training = Training()
    losses = []
    loader = torch.utils.data.DataLoader(torch.arange(8), batch_size=2)
    with stallscope.profile(path, detail="low", sample_hz=500, segment_events=1000) as prof:
        for _ in range(4):
            list(loader)
            losses.append(training.step())
            repr(torch.zeros(2))
            with open(path.parent / "checkpoint.pt", "wb") as file:  # noqa: PTH123 - it is open() that is watched
                torch.save(training.model.state_dict(), file)
            time.sleep(0.03)
            prof.step()
    return losses


@pytest.mark.parametrize(("collector", "method"), methods())
@pytest.mark.filterwarnings("ignore::stallscope.profiler.session.guard.CollectorWarning")
def test_a_broken_method_harms_nothing_but_its_own_rows(
    collector: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = next(point for point in entry_points(group="stallscope.collectors") if point.name == collector).load()
    fired: list[str] = []
    monkeypatch.setattr("stallscope.profiler.session.session.TICK_S", 0.01)
    monkeypatch.setattr("stallscope.collectors.live.device_counters.EVERY", 1)
    monkeypatch.setattr("stallscope.collectors.live.collectives.READ_EVERY", 1)
    monkeypatch.setattr("stallscope.collectors.live.io.SHORTEST_OPEN_NS", 0)
    monkeypatch.setattr(made, method, broken_method(fired, method))
    losses = train(tmp_path / "run")
    assert fired, "the fault never fired: the test proves nothing"
    assert losses == losses_without_recording(4)
    recording = opened(tmp_path / "run")
    info = recording.rank_info(0)
    assert info["status"] == "completed"
    told = [row for row in all_losses(recording) if row["kind"] == "collector_error"]
    assert collector in {row["collector"] for row in told}
    assert any("is broken" in row["detail"] for row in told)
    others = {name: state["state"] for name, state in info["collectors"].items() if name not in (collector, "session")}
    assert set(others.values()) == {"stopped"}


def test_the_list_of_methods_is_not_empty_and_names_what_exists() -> None:
    assert len(methods()) > 40
    for point in entry_points(group="stallscope.collectors"):
        if point.value.startswith("stallscope."):
            assert SELDOM.get(point.name, set()) <= set(vars(point.load()))


@pytest.mark.filterwarnings("ignore::stallscope.profiler.session.guard.CollectorWarning")
def test_a_collector_that_cannot_be_loaded_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stallscope.collectors.live.host import HostCollector

    def fails(self: object, *_: object) -> None:
        raise ImportError("no such library")

    monkeypatch.setattr(HostCollector, "__init__", fails)
    with stallscope.profile(tmp_path / "run", detail="always"):
        pass
    info = opened(tmp_path / "run").rank_info(0)
    assert info["collectors"]["host"] == {
        "state": "unavailable",
        "reason": "ImportError: no such library",
        "cost_ns": 0,
        "calls": 0,
    }
