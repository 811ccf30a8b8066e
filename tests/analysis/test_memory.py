from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from stallscope.analysis.memory import memory_peaks, memory_timeline
from stallscope.analysis.memory_holders import BEFORE, UNKNOWN, live_blocks, memory_holders
from tests.builders import TraceBuilder

GPU: dict[str, Any] = {"device_type": "cuda", "device_index": 0}
HOST: dict[str, Any] = {"device_type": "cpu", "device_index": None}


def event(trace: TraceBuilder, ts: int, size: int, address: int | None, place: dict[str, Any], **more: Any) -> None:
    trace.row("memory", event_id=trace.new_id(), ts=ts, bytes=size, address=address, **place, **more)


def training() -> TraceBuilder:
    """100 bytes of weights from before, an activation of 40 by linear, a gradient of 30, the activation freed."""
    trace = TraceBuilder()
    main = trace.thread()
    trace.python(main, "train.py(3): step", 0, 1000)
    trace.slice(main, "nn.Module: Linear_0", "module", 10, 90, module_id=4)
    trace.row("modules", module_id=4, parent_id=None, path="net.Linear_0", class_name="Linear")
    trace.slice(main, "aten::linear", "op", 20, 70)
    trace.slice(main, "aten::addmm", "op", 30, 50)
    empty = trace.slice(main, "aten::empty", "op", 40, 5)
    event(trace, 42, 40, 700, GPU, slice_id=empty, total_allocated=140, total_reserved=1000)
    event(trace, 43, 8, 900, HOST, slice_id=empty, total_allocated=-2, total_reserved=0)
    outer = trace.slice(main, "aten::zeros", "op", 200, 50)
    event(trace, 210, 30, 800, GPU, slice_id=outer, total_allocated=170, total_reserved=2000)
    event(trace, 300, -40, 700, GPU, total_allocated=130, total_reserved=2000)
    event(trace, 310, -60, 100, GPU, total_allocated=70, total_reserved=1500)
    event(trace, 320, -10, 901, HOST, total_allocated=-12, total_reserved=0)
    return trace


def test_peaks_and_what_they_rest_on() -> None:
    gpu, host = memory_peaks(training().recording())
    assert (gpu.device_type, gpu.device_index, gpu.basis, gpu.matched_by) == ("cuda", 0, "allocator", "address")
    assert (gpu.peak_allocated_bytes, gpu.peak_ts, gpu.peak_reserved_bytes) == (170, 210, 2000)
    assert (gpu.first_allocated_bytes, gpu.last_allocated_bytes) == (100, 70)
    assert (gpu.allocated_in_bytes, gpu.freed_bytes) == (70, 100)
    assert (gpu.never_freed_bytes, gpu.never_freed_count, gpu.from_before_bytes, gpu.from_before_count) == (
        30,
        1,
        60,
        1,
    )
    # The host's own totals count from the profiler's start and go below zero; blocks that were seen do not.
    assert (host.basis, host.peak_reserved_bytes, host.device_index) == ("seen", None, None)
    assert (host.first_allocated_bytes, host.peak_allocated_bytes, host.last_allocated_bytes) == (10, 18, 8)


def test_bytes_over_time() -> None:
    frame = memory_timeline(training().recording())
    gpu = frame[frame["device_type"] == "cuda"]
    assert gpu["ts"].tolist() == [42, 210, 300, 310] and gpu["allocated_bytes"].tolist() == [140, 170, 130, 70]
    assert gpu["reserved_bytes"].tolist() == [1000, 2000, 2000, 1500]
    host = frame[frame["device_type"] == "cpu"]
    assert host["allocated_bytes"].tolist() == [18, 8] and host["reserved_bytes"].isna().all()
    assert host["device_index"].isna().all()


def test_blocks_alive_at_the_peak_and_later() -> None:
    recording = training().recording()
    peak = live_blocks(recording)
    assert peak["bytes"].tolist() == [60, 40, 30]
    assert peak["op"].tolist() == [pd.NA, "aten::addmm", "aten::zeros"]
    assert peak["root_op"].tolist() == [pd.NA, "aten::linear", "aten::zeros"]
    assert peak["module"].tolist()[1] == "net.Linear_0" and peak["module"].isna().tolist() == [True, False, True]
    assert peak["line"].tolist() == [pd.NA, 3, 3]
    assert peak["age_ns"].tolist() == [pd.NA, 168, 0] and peak["freed_ts"].tolist() == [310, 300, pd.NA]
    assert live_blocks(recording, at=300)["bytes"].tolist() == [60, 30]
    assert live_blocks(recording, at=-5)["bytes"].tolist() == [60]
    with pytest.raises(IndexError, match="2 devices"):
        live_blocks(recording, device=2)


@pytest.mark.parametrize(
    ("by", "holders"),
    [
        ("op", {"aten::addmm": 40, "aten::zeros": 30, BEFORE: 100}),
        ("root_op", {"aten::linear": 40, "aten::zeros": 30, BEFORE: 100}),
        ("module", {"net.Linear_0": 40, UNKNOWN: 30, BEFORE: 100}),
        ("line", {"train.py:3 step": 70, BEFORE: 100}),
    ],
)
def test_holders_add_up_to_the_peak(by: Any, holders: dict[str, int]) -> None:
    recording = training().recording()
    frame = memory_holders(recording, by=by)
    assert dict(zip(frame["holder"], frame["bytes"], strict=True)) == holders
    assert frame["bytes"].is_monotonic_decreasing
    assert frame["bytes"].sum() == 170 and frame["share_frac"].sum() == pytest.approx(1)
    assert memory_holders(recording, at=0, by=by)["bytes"].tolist() == [100]


def test_the_layout_of_2021_has_neither_addresses_nor_totals() -> None:
    trace = TraceBuilder()
    for ts, size in enumerate([-8, 16, 8, 16, -16, -8]):
        event(trace, ts, size, None, GPU)
    recording = trace.recording()
    (gpu,) = memory_peaks(recording)
    assert (gpu.basis, gpu.matched_by) == ("seen", "size")
    assert (gpu.peak_allocated_bytes, gpu.peak_ts, gpu.peak_reserved_bytes) == (40, 3, None)
    frame = memory_holders(recording)
    assert dict(zip(frame["holder"], frame["bytes"], strict=True)) == {UNKNOWN: 40}


def test_no_memory_events() -> None:
    recording = TraceBuilder().recording(TraceBuilder(1))
    assert memory_peaks(recording) == ()
    assert len(memory_timeline(recording)) == 0 and len(live_blocks(recording)) == 0
    assert len(memory_holders(recording)) == 0


def test_a_rank_of_many_has_its_own_memory() -> None:
    one, two = training(), TraceBuilder(1)
    event(two, 5, 512, 700, GPU, total_allocated=512, total_reserved=512)
    recording = one.recording(two)
    assert [(p.rank, p.peak_allocated_bytes) for p in memory_peaks(recording)] == [(0, 170), (0, 18), (1, 512)]
    assert memory_holders(recording, rank=1)["bytes"].tolist() == [512]
