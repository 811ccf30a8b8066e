"""Layouts of other years and accelerators: is the same job read the same, whatever its events are called?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stallscope.profiler.recording.reader import Recording

from .small_traces import GPU, HOST, THREAD, Event, import_files, imported, links, losses, op, rows


@dataclass(frozen=True)
class Layout:
    """How an accelerator's profiler writes a launch, a copy, and what they start."""

    device_type: str
    call: tuple[str, str, str]  # category of both calls, name of the launch, name of the copy
    work: tuple[str, str, str]  # categories of the kernel and of the copy, name of the copy
    categories: tuple[str, str]  # of the kernel and of the copy in the recording
    thread: Any = THREAD
    stream: Any = 7
    host_op: str = "cpu_op"
    on_device: tuple[tuple[str, Any], ...] = (("device", GPU), ("stream", 7))


LAYOUTS = {
    "cuda": Layout(
        "cuda", ("cuda_runtime", "cudaLaunchKernel", "cudaMemcpyAsync"),
        ("kernel", "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"), ("kernel", "memcpy"),
    ),
    "cuda driver": Layout(
        "cuda", ("cuda_driver", "cuLaunchKernelEx", "cuMemcpyHtoDAsync"),
        ("kernel", "gpu_memcpy", "Memcpy HtoD (Pageable -> Device)"), ("kernel", "memcpy"),
    ),
    "2021": Layout(
        "cuda", ("Runtime", "cudaLaunchKernel", "cudaMemcpyAsync"),
        ("Kernel", "Memcpy", "Memcpy HtoD (Pinned -> Device)"), ("kernel", "memcpy"),
        thread=str(THREAD), stream="stream 7", host_op="Operator",
    ),
    "hip": Layout(
        "hip", ("cuda_runtime", "hipExtModuleLaunchKernel", "hipMemcpyAsync"),
        ("kernel", "gpu_memcpy", "CopyHostToDevice"), ("kernel", "memcpy"),
    ),
    "hip, the copy as a kernel": Layout(
        "hip", ("cuda_runtime", "hipLaunchKernel", "hipMemcpyWithStream"),
        ("kernel", "kernel", "__amd_rocclr_copyBuffer"), ("kernel", "memcpy"),
    ),
    "xpu": Layout(
        "xpu", ("xpu_runtime", "urEnqueueKernelLaunch", "urEnqueueUSMMemcpy"), ("kernel", "gpu_memcpy", "Memcpy M2D"),
        ("kernel", "memcpy"),
    ),
    "mtia": Layout(
        "mtia", ("mtia_runtime", "runFunction", "copyAsync"), ("mtia_ccp_events", "mtia_ccp_events", "dma_request"),
        ("kernel", "dma"), on_device=(("stream", 7),),
    ),
    "privateuse1": Layout(
        "privateuseone", ("privateuse1_runtime", "launch", "copy"), ("kernel", "gpu_memcpy", "Memcpy H2D"),
        ("kernel", "memcpy"),
    ),
}  # fmt: skip


def job(layout: Layout) -> list[Event]:
    """A copy and a kernel, and the ops that start them."""
    category, launch, copy = layout.call
    kernel_category, copy_category, copy_name = layout.work
    host = {"tid": layout.thread}
    device = {"pid": GPU, "tid": layout.stream}
    on_device = dict(layout.on_device)
    return [
        op("aten::copy_", 0, 40, cat=layout.host_op, **host), op(copy, 10, 5, cat=category, correlation=1, **host),
        op("aten::relu", 50, 40, cat=layout.host_op, **host), op(launch, 60, 5, cat=category, correlation=2, **host),
        op(copy_name, 20, 100, cat=copy_category, correlation=1, **device, **on_device),
        op("relu_kernel", 120, 30, cat=kernel_category, correlation=2, **device, **on_device),
    ]  # fmt: skip


def on_streams(recording: Recording) -> dict[str, str]:
    """Name -> category of the slices on tracks of streams."""
    streams = {track for track, kind in rows(recording, "tracks", "track_id", "kind") if kind == "stream"}
    found = rows(recording, "slices", "track_id", "name", "category")
    return {name: category for track, name, category in found if track in streams}


@pytest.mark.parametrize("name", LAYOUTS)
def test_the_same_job(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    recording = imported(tmp_path, job(layout))
    _, launch, copy = layout.call
    copy_name = layout.work[2]
    assert on_streams(recording) == {"relu_kernel": layout.categories[0], copy_name: layout.categories[1]}
    assert sorted(links(recording, "launch")) == sorted([(copy, copy_name), (launch, "relu_kernel")])
    thread, stream = rows(recording, "tracks")
    assert (thread["kind"], thread["process_id"], thread["thread_id"]) == ("thread", HOST, THREAD)
    place = (stream["device_type"], stream["device_index"], stream["stream_id"])
    assert place == (layout.device_type, GPU, 7)
    assert rows(recording, "devices", "device_type", "device_index") == [(layout.device_type, GPU)]
    assert losses(recording) == {}


@pytest.mark.parametrize("name", LAYOUTS)
def test_calls_and_ops_nest_on_the_host(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    recording = imported(tmp_path, job(layout))
    found = rows(recording, "slices")
    by_id = {row["slice_id"]: row["name"] for row in found}
    parents = {row["name"]: by_id.get(row["parent_id"]) for row in found}
    _, launch, copy = layout.call
    assert parents == {
        "aten::copy_": None, copy: "aten::copy_", "aten::relu": None, launch: "aten::relu",
        layout.work[2]: None, "relu_kernel": None,
    }  # fmt: skip
    assert {row["category"] for row in found if row["name"].startswith("aten::")} == {"op"}


def test_a_call_that_waits_is_a_synchronization_whoever_made_the_device(tmp_path: Path) -> None:
    calls = {
        "cudaStreamSynchronize": "cuda_runtime", "hipDeviceSynchronize": "cuda_runtime",
        "hipMemcpyWithStream": "cuda_runtime", "urQueueFinish": "xpu_runtime",
        "synchronizeStream": "mtia_runtime", "cuStreamSynchronize": "cuda_driver",
    }  # fmt: skip
    recording = imported(tmp_path, [op(name, 10 * n, 5, cat=cat) for n, (name, cat) in enumerate(calls.items())])
    assert set(rows(recording, "slices", "name", "category")) == {(name, "synchronization") for name in calls}


def test_steps_of_2021_are_operators(tmp_path: Path) -> None:
    events = [op(f"ProfilerStep#{n}", 100 * n, 90, cat="Operator", tid=str(THREAD)) for n in (3, 4)]
    recording = imported(tmp_path, events)
    assert rows(recording, "steps", "step", "ts", "dur") == [(3, 300_000, 90_000), (4, 400_000, 90_000)]
    assert set(rows(recording, "slices", "category")) == {("annotation",)}


def test_a_steps_copy_on_a_stream_is_no_step(tmp_path: Path) -> None:
    events = [
        op("ProfilerStep#3", 0, 90, cat="user_annotation"),
        op("ProfilerStep#3", 20, 80, cat="gpu_user_annotation", pid=GPU, tid=7, device=GPU, stream=7),
    ]
    assert rows(imported(tmp_path, events), "steps", "step", "ts") == [(3, 0)]


def test_stamps_of_a_trace_with_a_base_are_exact_to_the_ns(tmp_path: Path) -> None:
    base = 1_767_189_312_000_000_000
    text = f"""{{"baseTimeNanoseconds": {base}, "traceEvents": [
        {{"ph":"X","cat":"cpu_op","name":"a","pid":1,"tid":1,"ts":3743411231967.315,"dur":0.001}},
        {{"ph":"X","cat":"cpu_op","name":"b","pid":1,"tid":1,"ts":3743411231967.316,"dur":74.729}}]}}"""
    (tmp_path / "rank0.json").write_text(text)
    recording = import_files(tmp_path / "recording", tmp_path / "rank0.json")
    first = base + 3_743_411_231_967_315
    assert rows(recording, "slices", "name", "ts", "dur") == [("a", first, 1), ("b", first + 1, 74_729)]
