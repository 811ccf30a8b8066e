"""The summary: exact sums, one document, whoever is waited for in focus."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from stallscope import open_recording
from stallscope.analysis.summary import summary, summary_document
from stallscope.profiler.recording.errors import UsageError
from tests.builders import TraceBuilder
from tests.cli.recordings import MS, START, training

STATES = ("compute_ns", "communication_ns", "data_movement_ns", "stall_ns")


def check_states(states: dict[str, Any]) -> None:
    """What must hold wherever states are given."""
    assert sum(states[name] for name in STATES) == states["window_ns"]
    assert states["busy_ns"] + states["idle_ns"] == states["window_ns"]
    assert states["idle_ns"] == states["stall_ns"]


def test_the_states_of_a_hand_made_recording() -> None:
    found = summary(training().recording())
    [device] = found.devices
    # Four times 3 ms of kernels and 0.1 ms of a copy, 10 ms apart: the window ends with the last copy.
    assert device.window.window_ns == 33_100_000
    assert device.window.compute_ns == 12 * MS
    assert device.window.data_movement_ns == 400_000
    assert device.window.stall_ns == 3 * 6_900_000
    assert found.overall == device.window
    assert device.steady_steps == 4
    assert device.steady is not None
    assert device.step_median_ns == 10 * MS
    check_states(summary_document(found)["overall"])


def test_the_verdict_is_the_wait_for_the_loader() -> None:
    found = summary(training().recording())
    assert "next batch" in found.verdict
    assert found.findings[0].kind == "input"
    assert found.stalls[0]["root_cause"] == "input"
    assert found.kernels[0]["name"] == "gemm_kernel"
    assert found.ops[0]["op"] == "aten::mm"
    assert found.memory[0].peak_allocated_bytes == 1 << 20


def test_a_sum_over_ranks_is_the_sum_of_the_ranks() -> None:
    document = summary_document(summary(training(0).recording(training(1, late_ns=200_000), training(2))))
    for states in (document["overall"], *document["ranks"], *document["devices"]):
        check_states(states)
    for name in ("window_ns", *STATES):
        assert document["overall"][name] == sum(rank[name] for rank in document["ranks"])
    assert [rank["rank"] for rank in document["ranks"]] == [0, 1, 2]


def test_two_devices_of_a_rank_are_taken_together() -> None:
    trace = TraceBuilder()
    main = trace.thread("main")
    for index, ts in enumerate((0, 50)):
        gpu = trace.stream(7, device_index=index)
        trace.launched(main, gpu, call=(START + index, 1), work=(START + 100 + ts, 100))
    found = summary(trace.recording())
    assert [device.window.window_ns for device in found.devices] == [100, 100]
    assert found.ranks[0].window.window_ns == 150
    assert found.ranks[0].window.busy_ns == 150
    assert found.overall == found.ranks[0].window


def test_a_step_and_a_window() -> None:
    recording = training().recording()
    step = summary(recording, step=1)
    assert step.part == "step 1"
    assert step.overall.window_ns == 10 * MS
    assert step.overall.stall_ns == 6_900_000
    assert "69%" in step.verdict
    assert "next batch" in step.verdict
    assert step.findings == ()
    window = summary(recording, window=(START + 6_300_000, START + 7_300_000))
    assert window.overall.window_ns == window.overall.compute_ns == MS
    assert window.part == "a window of 1.00 ms"
    with pytest.raises(UsageError, match="exclude"):
        summary(recording, step=1, window=(0, 1))
    with pytest.raises(UsageError, match="has steps 0, 1, 2, 3"):
        summary(recording, step=9)


def test_the_first_steps_stand_apart() -> None:
    trace = training(steps=5)
    for row in trace.rows["steps"]:
        row["phase"] = "preparation" if row["step"] < 2 else "execution"
    found = summary(trace.recording())
    assert found.devices[0].steady_steps == 3
    [start] = found.cold_starts
    assert start.steps == 2
    assert start.total_ns == 20 * MS


def test_an_empty_recording_has_a_summary() -> None:
    found = summary(TraceBuilder().recording())
    assert found.overall.window_ns == 0
    assert found.stalls == found.kernels == found.ops == ()
    assert found.verdict
    json.dumps(summary_document(found))


def test_threads_stand_in_for_a_device() -> None:
    trace = TraceBuilder()
    main = trace.thread("main")
    trace.slice(main, "aten::mm", "op", START, 100)
    trace.slice(main, "aten::add", "op", START + 200, 100)
    found = summary(trace.recording())
    assert found.devices[0].device_type == "cpu"
    assert found.devices[0].device_index is None
    assert found.overall.compute_ns == 200
    assert any("stand in" in note for note in found.notes)


def test_losses_are_counted_by_severity() -> None:
    trace = training()
    trace.row("losses", collector="x", kind="truncated", severity="data_loss", count=3)
    trace.row("losses", collector="x", kind="bad_event", severity="warning")
    assert summary(trace.recording()).losses == {"data_loss": 3, "warning": 1, "info": 0}


@pytest.mark.parametrize(
    "name",
    [
        "kineto/v100_resnet50_workers0.json.gz",
        "kineto/mi300x_resnet_rccl_rank0.json.gz",
        "kineto/h100_qwen_0.5b.json.gz",
        "kineto/a100_nccl_ns_rank0.json.gz",
    ],
)
def test_window_busy_and_idle_are_those_of_the_independent_reference(traces: Path, name: str) -> None:
    with (traces / "expected.csv").open() as file:
        expected = next(row for row in csv.DictReader(file) if row["file"] == name)
    overall = summary_document(summary(open_recording(traces / name)))["overall"]
    check_states(overall)
    for key in ("window_ns", "busy_ns", "idle_ns"):
        assert overall[key] == int(expected[key]), key


def test_the_rank_that_the_others_wait_for_is_in_focus(traces: Path) -> None:
    found = summary(open_recording(traces / "kineto" / "dlrm_v100x8"))
    assert found.findings[0].kind == "wait_for_peer"
    assert found.focus_rank == 7
    assert list(found.waits_for_rank) == [7, 5, 4]
    assert found.collectives is not None
    assert sum(found.waits_of_rank.values()) == found.collectives.wait_for_peer_ns == 46_843_000
