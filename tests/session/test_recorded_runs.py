"""Recordings of real runs hold every event that torch wrote, and account for every nanosecond of their steps."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from stallscope.analysis.step_breakdown import STATE_COLUMNS, step_breakdown
from stallscope.profiler.recording.categories import DEVICE_WORK
from stallscope.profiler.recording.reader import Recording

from .recorded_runs import CPU, DISTRIBUTED, SIMULATED
from .workloads import all_losses, opened, record, run_python

RUNS = {
    "cpu": (CPU, ()), "simulated": (SIMULATED, ()), "compiled": (SIMULATED, ("compile",)),
}  # fmt: skip

KEPT = {"STALLSCOPE_KEEP_RAW": "1"}

TWO_SEGMENTS = {"STALLSCOPE_SCHEDULE": "1,0,2,2"}


def torchs_events(recording: Path, rank: int) -> list[dict[str, Any]]:
    """All events of all segments of the rank, as torch wrote them."""
    raw = recording / "ranks" / f"rank={rank:05d}" / "attempt=0" / "raw"
    traces = [json.loads(file.read_text()) for file in sorted(raw.glob("segment-*.json"))]
    events = [event for trace in traces for event in trace.get("traceEvents", ())]
    assert events
    return events


def check_rows_are_events(recording: Recording, rank: int, events: list[dict[str, Any]]) -> None:
    """Every complete event is a row with its name and duration, and every change of memory."""
    told = Counter((event["name"], round(event["dur"] * 1000)) for event in events if event["ph"] == "X")
    table = recording.table("slices", ranks=rank)
    rows = Counter(zip(table["name"].to_pylist(), table["dur"].to_pylist(), strict=True))
    assert not told - rows
    memory = sum(event["name"] == "[memory]" for event in events)
    assert recording.table("memory", ranks=rank).num_rows == memory


def check_device(recording: Recording, rank: int, events: list[dict[str, Any]]) -> None:
    """Work of the device: each slice of torch's trace is there once, and knows the call that launched it."""
    calls = {
        event["args"]["correlation"]: event["name"] for event in events if event.get("cat") == "privateuse1_runtime"
    }
    work = [
        event
        for event in events
        if event["ph"] == "X"
        and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")
        and "stream" in event["args"]
    ]
    assert work
    assert all(event["args"]["correlation"] in calls for event in work)
    streams = [row for row in recording.table("tracks", ranks=rank).to_pylist() if row["kind"] == "stream"]
    tracks = {row["track_id"] for row in streams}
    assert len({(row["device_index"], row["stream_id"]) for row in streams}) == len(streams)
    slices = recording.table("slices", ranks=rank).to_pylist()
    ours = [row for row in slices if row["track_id"] in tracks and row["category"] in DEVICE_WORK]
    assert sorted(row["dur"] for row in ours) == sorted(round(event["dur"] * 1000) for event in work)
    launched = {
        row["to_slice_id"] for row in recording.table("flows", ranks=rank).to_pylist() if row["kind"] == "launch"
    }
    assert {row["slice_id"] for row in ours} <= launched


def check_states(recording: Recording, rank: int) -> None:
    """The states of each step and device add up to the step, to the nanosecond."""
    table = step_breakdown(recording, ranks=(rank,))
    assert len(table)
    assert (table[list(STATE_COLUMNS)].sum(axis=1) == table["dur"]).all()


@pytest.mark.parametrize("name", RUNS)
def test_a_recording_balances_with_torchs_own_trace(name: str, tmp_path: Path) -> None:
    program, arguments = RUNS[name]
    (tmp_path / "train.py").write_text(program)
    environment = KEPT | (TWO_SEGMENTS if name == "simulated" else {})
    ran = record("-o", "run", "train.py", *arguments, cwd=tmp_path, environment=environment, timeout=400)
    assert ran.returncode == 0, ran.stderr
    recording = opened(tmp_path / "run")
    assert recording.rank_info(0)["status"] == "completed"
    assert recording.table("steps").num_rows == (5 if name == "cpu" else 6)
    assert not [row for row in all_losses(recording) if row["severity"] == "data_loss"]
    events = torchs_events(tmp_path / "run", 0)
    check_rows_are_events(recording, 0, events)
    if name != "cpu":
        check_device(recording, 0, events)
    if name == "simulated":
        assert recording.table("segments").num_rows > 1
    check_states(recording, 0)


def test_a_recording_of_two_ranks_balances(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(DISTRIBUTED)
    ran = run_python(
        "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "stallscope", "record", "--quiet",
        "-o", "run", "train.py", cwd=tmp_path, environment=KEPT, timeout=400,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    recording = opened(tmp_path / "run")
    assert recording.ranks == (0, 1)
    for rank in recording.ranks:
        assert recording.rank_info(rank)["status"] == "completed"
        events = torchs_events(tmp_path / "run", rank)
        check_rows_are_events(recording, rank, events)
        check_device(recording, rank, events)
        check_states(recording, rank)
        reduced = [row for row in recording.table("collectives", ranks=rank).to_pylist() if row["kind"] == "all_reduce"]
        assert len(reduced) >= 6
