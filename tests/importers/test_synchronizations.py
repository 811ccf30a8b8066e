"""Synchronization records of CUDA: what each wait waited for, to the row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from .small_traces import GPU, Event, call, imported, kernel, links, losses, op, rows

KINDS = ("stream_wait", "event_sync", "device_sync")


def wait(name: str, ts: float, dur: float, correlation: int | None, *, stream: int = -1, **args: Any) -> Event:
    """A record as CUPTI writes it: on a stream, or on none (-1)."""
    known = {} if correlation is None else {"correlation": correlation}
    own = {"cuda_sync_kind": name, "stream": stream, "device": GPU} | known | args
    return op(name, ts, dur, cat="cuda_sync", pid=GPU, tid=stream) | {"args": own}


def on_event(stream: int, recorded_by: int) -> dict[str, int]:
    """The members that say which event was waited for: recorded on a stream, by a call."""
    return {"wait_on_stream": stream, "wait_on_cuda_event_record_corr_id": recorded_by, "wait_on_cuda_event_id": 19}


# Stream 7 runs a, b, c; stream 8 runs d and e. The event is recorded behind b: launched at 10, 20, then 25, 30.
WORK: list[Event] = [
    call("launch a", 10, 2, 1), kernel("a", 100, 50, 1, tid=7),
    call("launch b", 20, 2, 2), kernel("b", 150, 50, 2, tid=7),
    call("cudaEventRecord", 25, 2, 3),
    call("launch c", 30, 2, 4), kernel("c", 200, 50, 4, tid=7),
    call("launch d", 12, 2, 5), kernel("d", 110, 300, 5, tid=8),
    call("launch e", 60, 2, 6), kernel("e", 410, 50, 6, tid=8),
]  # fmt: skip


def arrows(folder: Path, *events: Event) -> dict[str, list[tuple[str, str]]]:
    folder.mkdir(exist_ok=True)
    recording = imported(folder, [*WORK, *events])
    return {kind: links(recording, kind) for kind in KINDS if links(recording, kind)}


def test_a_stream_waits_for_the_last_operation_before_the_event(tmp_path: Path) -> None:
    events = [call("cudaStreamWaitEvent", 40, 2, 9), wait("Stream Wait Event", 45, 1, 9, stream=8, **on_event(7, 3))]
    assert arrows(tmp_path, *events) == {"stream_wait": [("b", "Stream Wait Event")]}


def test_an_event_whose_record_is_not_in_the_trace_was_recorded_before_the_wait(tmp_path: Path) -> None:
    events = [call("cudaStreamWaitEvent", 40, 2, 9), wait("Stream Wait Event", 45, 1, 9, stream=8, **on_event(7, 77))]
    assert arrows(tmp_path, *events) == {"stream_wait": [("c", "Stream Wait Event")]}


def test_the_host_waits_for_an_event(tmp_path: Path) -> None:
    events = [call("cudaEventSynchronize", 40, 300, 9), wait("Event Sync", 41, 290, 9, **on_event(7, 3))]
    assert arrows(tmp_path, *events) == {"event_sync": [("b", "Event Sync")]}


def test_an_event_of_no_stream_has_no_arrow(tmp_path: Path) -> None:
    events = [call("cudaEventSynchronize", 40, 300, 9), wait("Event Sync", 41, 290, 9, **on_event(-1, -1))]
    assert arrows(tmp_path, *events) == {}


def test_nothing_was_launched_before_the_event(tmp_path: Path) -> None:
    events = [
        call("early cudaEventRecord", 1, 2, 8), call("cudaStreamWaitEvent", 40, 2, 9),
        wait("Stream Wait Event", 45, 1, 9, stream=8, **on_event(7, 8)),
    ]  # fmt: skip
    assert arrows(tmp_path, *events) == {}


@pytest.mark.parametrize("name", ["Stream Sync", "Stream Synchronize"])
def test_a_wait_for_a_stream_is_for_its_last_operation_by_then(tmp_path: Path, name: str) -> None:
    events = [call("cudaStreamSynchronize", 40, 220, 9), wait(name, 41, 215, 9, stream=7)]
    assert arrows(tmp_path, *events) == {"device_sync": [("c", name)]}


@pytest.mark.parametrize("name", ["Context Sync", "Device Sync"])
def test_a_wait_for_everything_is_for_what_ends_last_of_all_launched_by_then(tmp_path: Path, name: str) -> None:
    before_e = [call("cudaDeviceSynchronize", 40, 380, 9), wait(name, 41, 375, 9)]
    assert arrows(tmp_path / "d", *before_e) == {"device_sync": [("d", name)]}
    after_e = [call("cudaDeviceSynchronize", 70, 400, 9), wait(name, 71, 395, 9)]
    assert arrows(tmp_path / "e", *after_e) == {"device_sync": [("e", name)]}


def test_another_device_is_not_waited_for(tmp_path: Path) -> None:
    events = [
        call("cudaDeviceSynchronize", 40, 380, 9), wait("Context Sync", 41, 375, 9, device=1),
    ]  # fmt: skip
    assert arrows(tmp_path, *events) == {}


def test_a_record_whose_call_is_not_in_the_trace_counts_by_its_end(tmp_path: Path) -> None:
    assert arrows(tmp_path, wait("Context Sync", 41, 5, None)) == {"device_sync": [("d", "Context Sync")]}


def test_a_record_of_an_unknown_kind_is_a_slice_without_an_arrow(tmp_path: Path) -> None:
    recording = imported(tmp_path, [*WORK, wait("Invalid", 41, 5, 9)])
    assert {kind for (kind,) in rows(recording, "flows", "kind")} == {"launch"}
    assert [name for (name,) in rows(recording, "slices", "name")].count("Invalid") == 1


def test_a_wait_is_no_work_of_the_device_and_lacks_no_launch(tmp_path: Path) -> None:
    recording = imported(tmp_path, [*WORK, wait("Stream Wait Event", 120, 9, 9, stream=7, **on_event(8, 1))])
    (record,) = [row for row in rows(recording, "slices") if row["name"] == "Stream Wait Event"]
    assert (record["category"], record["parent_id"], record["lane"]) == ("synchronization", None, 1)
    found = losses(recording)
    assert "device_op_without_launch" not in found
    assert "overlapping_slices" not in found


def test_damaged_members_of_a_record_give_no_arrow(tmp_path: Path) -> None:
    damaged = {"wait_on_stream": "seven", "wait_on_cuda_event_record_corr_id": None, "wait_on_cuda_event_id": []}
    events = [call("cudaStreamWaitEvent", 40, 2, 9), wait("Stream Wait Event", 45, 1, 9, stream=8, **damaged)]
    assert arrows(tmp_path, *events) == {}
