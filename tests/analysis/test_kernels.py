from __future__ import annotations

import json
from typing import Any

import pytest

from stallscope.analysis.copies import copies, direction_of
from stallscope.analysis.kernels import kernels
from tests.builders import TraceBuilder


def work() -> TraceBuilder:
    trace = TraceBuilder()
    main, one, two = trace.thread(), trace.stream(7), trace.stream(8)
    trace.slice(main, "aten::mm", "op", 0, 100)
    for call, start, dur in ((10, 50, 100), (20, 150, 300)):
        trace.launched(main, one, call=(call, 5), work=(start, dur), name="gemm")
    trace.slice(main, "aten::bmm", "op", 200, 100)
    # Starts while its launch is still running, and overlaps the one before it on another stream.
    trace.launched(main, two, call=(210, 20), work=(220, 80), name="gemm")
    trace.slice(two, "ncclDevKernel_AllReduce", "collective", 500, 40)
    trace.slice(two, "gpu range", "annotation", 0, 900)
    trace.launched(main, one, call=(600, 5), work=(700, 0), name="empty")
    return trace


def row(trace: TraceBuilder, name: str, **choice: Any) -> dict[str, Any]:
    frame = kernels(trace.recording(), **choice)
    return frame[frame["name"] == name].to_dict("records")[0]


def test_statistics_are_over_single_kernels() -> None:
    gemm = row(work(), "gemm")
    assert (gemm["count"], gemm["total_ns"], gemm["union_ns"], gemm["streams"]) == (3, 480, 400, 2)
    assert (gemm["mean_ns"], gemm["p50_ns"], gemm["p99_ns"], gemm["min_ns"], gemm["max_ns"]) == (160, 100, 300, 80, 300)
    assert gemm["busy_frac"] == pytest.approx(400 / 440) and gemm["state"] == "compute"
    assert (gemm["op"], gemm["op_ns"]) == ("aten::mm", 400)


def test_launch_delays_are_not_clipped_and_early_ones_are_counted() -> None:
    gemm = row(work(), "gemm")
    assert (gemm["launch_delay_p50_ns"], gemm["launch_delay_max_ns"]) == (35, 125)
    assert (gemm["early_count"], gemm["without_launch_count"]) == (1, 0)
    nccl = row(work(), "ncclDevKernel_AllReduce")
    assert (nccl["early_count"], nccl["without_launch_count"], nccl["state"]) == (0, 1, "communication")
    frame = kernels(work().recording())
    alone = frame[frame["name"] == "ncclDevKernel_AllReduce"]
    assert alone["launch_delay_p50_ns"].isna().all() and alone["op"].isna().all() and alone["op_ns"].isna().all()


def test_totals_cover_all_device_work_and_nothing_else() -> None:
    frame = kernels(work().recording())
    assert frame["name"].tolist() == ["gemm", "ncclDevKernel_AllReduce", "empty"]
    assert frame["total_ns"].sum() == 520 and frame.attrs["busy_ns"] == 440
    assert frame.attrs["selection"] == "the whole recording: it has no steps"


def test_a_window_chooses_by_start() -> None:
    frame = kernels(work().recording(), window=(150, 221))
    assert frame["count"].tolist() == [2] and frame["total_ns"].tolist() == [380]


def test_steps_are_those_of_the_device() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    for number in range(3):
        trace.step(number, number * 100, 100)
        # Runs while the host is two steps further.
        trace.launched(main, gpu, call=(number * 100 + 10, 5), work=(number * 100 + 250, 60 + number))
    assert [kernels(trace.recording(), step=n)["total_ns"].tolist() for n in range(3)] == [[60], [61], [62]]


def test_grids_part_kernels_of_one_name() -> None:
    trace = TraceBuilder()
    gpu = trace.stream(7)
    for number, grid in enumerate([[8, 1, 1], [8, 1, 1], [4, 2, 1]]):
        args = json.dumps({"registers per thread": 8, "grid": grid, "block": [128, 1, 1]})
        trace.slice(gpu, "k", "kernel", number * 10, 5, args=args)
    frame = kernels(trace.recording(), by="name+grid")
    assert dict(zip(frame["grid"], frame["count"], strict=True)) == {
        "[8, 1, 1] [128, 1, 1]": 2,
        "[4, 2, 1] [128, 1, 1]": 1,
    }


def test_two_devices_are_busy_each_for_itself() -> None:
    trace = TraceBuilder()
    for index in range(2):
        trace.slice(trace.stream(7, device_index=index), "k", "kernel", 0, 10)
    frame = kernels(trace.recording())
    assert frame["union_ns"].tolist() == [20] and frame["busy_frac"].tolist() == [1.0]


def test_no_device_work() -> None:
    trace = TraceBuilder()
    trace.slice(trace.thread(), "aten::mm", "op", 0, 100)
    for frame in (kernels(trace.recording()), copies(trace.recording()), kernels(TraceBuilder().recording())):
        assert len(frame) == 0 and "no device did any work" in frame.attrs["selection"]


@pytest.mark.parametrize(
    ("name", "direction"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "host_to_device"),
        ("Memcpy DtoH (Device -> Pinned)", "device_to_host"),
        ("CopyHostToDevice", "host_to_device"),
        ("CopyDeviceToHost", "device_to_host"),
        ("Memcpy DtoD (Device -> Device)", "device_to_device"),
        ("Memcpy PtoP (Device -> Device)", "peer_to_peer"),
        ("Memset (Device)", "set"),
        ("__amd_rocclr_fillBufferAligned", "set"),
        ("dma", "other"),
    ],
)
def test_which_way_a_copy_goes(name: str, direction: str) -> None:
    assert direction_of(name) == direction


def test_bytes_each_way() -> None:
    trace = TraceBuilder()
    gpu = trace.stream(7)
    trace.slice(gpu, "Memcpy HtoD (Pageable -> Device)", "memcpy", 0, 100, bytes=1_000)
    trace.slice(gpu, "Memcpy HtoD (Pageable -> Device)", "memcpy", 200, 300, bytes=7_000)
    trace.slice(gpu, "Memcpy HtoD (Pinned -> Device)", "memcpy", 600, 10, bytes=50)
    trace.slice(gpu, "Memcpy DtoH (Device -> Pageable)", "memcpy", 700, 20)
    trace.slice(gpu, "Memset (Device)", "memset", 800, 5, bytes=0)
    trace.slice(gpu, "gemm", "kernel", 900, 5)
    frame = copies(trace.recording()).set_index(["direction", "memory"])
    pageable = frame.loc[("host_to_device", "Pageable -> Device")]
    assert (pageable["count"], pageable["bytes"], pageable["total_ns"], pageable["max_ns"]) == (2, 8_000, 400, 300)
    assert pageable["bytes_per_s"] == 8_000 * 1e9 / 400
    back = frame.loc[("device_to_host", "Device -> Pageable")]
    assert back["without_bytes_count"] == 1 and back[["bytes", "bytes_per_s"]].isna().all()
    assert len(frame) == 4
