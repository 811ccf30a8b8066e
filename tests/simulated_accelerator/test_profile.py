"""What torch.profiler shows of the device, against the device's own log."""

from __future__ import annotations

import json
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

DEVICE_CATEGORIES = {"kernel", "gpu_memcpy", "gpu_memset"}


class Trace:
    """The events of an exported trace, with times in whole ns since 1970."""

    def __init__(self, path: Path) -> None:
        content = json.loads(path.read_text(), parse_float=Decimal)
        self.base = content["baseTimeNanoseconds"]
        self.events = content["traceEvents"]

    def of(self, *categories: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event.get("cat") in categories and event["ph"] == "X"]

    def start(self, event: dict[str, Any]) -> int:
        return self.base + int(event["ts"] * 1000)

    def end(self, event: dict[str, Any]) -> int:
        return self.start(event) + int(event["dur"] * 1000)


def profiled(path: Path, work: Any) -> Trace:
    with torch.profiler.profile(profile_memory=True) as profile:
        work()
        torch.accelerator.synchronize()
    profile.export_chrome_trace(str(path / "trace.json"))
    return Trace(path / "trace.json")


@pytest.fixture
def training(sim: Any, tmp_path: Path) -> tuple[Any, Trace]:
    from .models import train

    train("perceptron", "sim", steps=1)
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    sim.reset_engine_log()
    trace = profiled(tmp_path, lambda: train("perceptron", "sim", steps=2))
    return sim.engine_log(), trace


def test_device_slices_are_those_of_the_engine_log(training: tuple[Any, Trace]) -> None:
    log, trace = training
    shown = sorted(
        (event["args"]["correlation"], event["name"], trace.start(event), trace.end(event), event["args"]["stream"])
        for event in trace.of(*DEVICE_CATEGORIES)
    )
    names = [log.names[name] for name in log.name]
    columns = (log.correlation.tolist(), names, log.start_ns.tolist(), log.end_ns.tolist(), log.stream.tolist())
    true = sorted(zip(*columns, strict=True))
    assert shown == true
    assert Counter(event["cat"] for event in trace.of(*DEVICE_CATEGORIES)) == Counter(
        {"kernel": "kernel", "memcpy": "gpu_memcpy", "memset": "gpu_memset"}[log.kinds[kind]] for kind in log.kind
    )


def test_nothing_in_the_trace_tells_why_a_queue_waited(training: tuple[Any, Trace]) -> None:
    _, trace = training
    keys = set().union(*(event["args"] for event in trace.of(*DEVICE_CATEGORIES)))
    assert keys <= {"External id", "bytes", "queue", "stream", "device", "correlation"}


def test_each_device_slice_has_the_call_that_launched_it(training: tuple[Any, Trace]) -> None:
    log, trace = training
    calls = {event["args"]["correlation"]: event for event in trace.of("privateuse1_runtime")}
    assert len(calls) == len(trace.of("privateuse1_runtime")), "correlations are unique"
    launch_ns = dict(zip(log.correlation.tolist(), log.launch_ns.tolist(), strict=True))
    for event in trace.of(*DEVICE_CATEGORIES):
        call = calls[event["args"]["correlation"]]
        assert trace.start(call) <= launch_ns[event["args"]["correlation"]] <= trace.end(call)
        assert trace.start(call) < trace.start(event)
    arrows = Counter((event["ph"], event["id"]) for event in trace.events if event.get("cat") == "ac2g")
    expected = {(phase, event["args"]["correlation"]) for event in trace.of(*DEVICE_CATEGORIES) for phase in "sf"}
    assert set(arrows) == expected
    assert set(arrows.values()) == {1}


def test_kernels_point_to_the_op_that_launched_them(training: tuple[Any, Trace]) -> None:
    _, trace = training
    ops = {event["args"]["External id"]: event for event in trace.of("cpu_op")}
    calls = {event["args"]["correlation"]: event for event in trace.of("privateuse1_runtime")}
    linked = 0
    for event in trace.of("kernel"):
        op, call = ops[event["args"]["External id"]], calls[event["args"]["correlation"]]
        assert (op["pid"], op["tid"]) == (call["pid"], call["tid"])
        assert trace.start(op) <= trace.start(call) <= trace.end(call) <= trace.end(op) + 1000
        linked += "mm" in event["name"] and "mm" in op["name"]
    assert linked >= 6


def test_every_kind_of_runtime_call_is_shown(sim: Any, tmp_path: Path) -> None:
    x = torch.ones(8, device="sim")
    side = torch.Stream(device="sim")
    torch.accelerator.synchronize()

    def work() -> None:
        event = torch.Event(device="sim")
        (x + 1).zero_()
        event.record()
        side.wait_event(event)
        with side:
            x.add_(1)
        event.synchronize()
        side.synchronize()
        x.sum().item()
        torch.empty(30 << 20, dtype=torch.uint8, device="sim")
        torch.accelerator.empty_cache()

    trace = profiled(tmp_path, work)
    names = {event["name"] for event in trace.of("privateuse1_runtime")}
    assert names >= {
        "simLaunchKernel", "simMemsetAsync", "simMemcpyAsync", "simEventRecord", "simStreamWaitEvent", "simMalloc",
        "simFree", "simEventSynchronize", "simStreamSynchronize", "simDeviceSynchronize",
    }  # fmt: skip


def test_a_wait_of_a_stream_names_the_stream_and_the_record(sim: Any, tmp_path: Path) -> None:
    sim.set_speed("vector", overhead_ns=5_000_000)
    x = torch.ones(8, device="sim")
    side = torch.Stream(device="sim")
    torch.accelerator.synchronize()
    sim.reset_engine_log()

    def work() -> None:
        x.add_(1)
        event = torch.Event(device="sim")
        event.record()
        side.wait_event(event)
        with side:
            x.mul_(2)

    trace = profiled(tmp_path, work)
    (wait,) = trace.of("cuda_sync")
    (record,) = (event for event in trace.of("privateuse1_runtime") if event["name"] == "simEventRecord")
    addition = next(event for event in trace.of("kernel") if "add" in event["name"])
    product = next(event for event in trace.of("kernel") if "mul" in event["name"])
    assert wait["name"] == "Stream Wait Event"
    assert wait["args"]["wait_on_stream"] == 0
    assert wait["args"]["wait_on_cuda_event_record_corr_id"] == record["args"]["correlation"]
    assert wait["tid"] == product["tid"] != addition["tid"]
    assert trace.end(wait) == trace.end(addition) == trace.start(product)


def test_allocations_of_the_device_are_shown(training: tuple[Any, Trace]) -> None:
    _, trace = training
    events = sorted((event for event in trace.events if event["name"] == "[memory]"), key=lambda event: event["ts"])
    device = [event["args"] for event in events if event["args"]["Device Type"] == 20]
    assert device
    assert {event["Device Id"] for event in device} == {0}
    alive: dict[int, int] = {}
    for event in device:
        if event["Bytes"] > 0:
            assert event["Addr"] not in alive
            alive[event["Addr"]] = event["Bytes"]
        else:
            assert alive.pop(event["Addr"], -event["Bytes"]) == -event["Bytes"]
        assert event["Total Reserved"] >= event["Total Allocated"]


def test_both_devices_have_a_track_with_a_name(sim: Any, tmp_path: Path) -> None:
    trace = profiled(tmp_path, lambda: (torch.ones(4, device="sim"), torch.ones(4, device="sim:1").cpu()))
    labels = {(event["pid"], event["args"]["labels"]) for event in trace.events if event["name"] == "process_labels"}
    assert {(0, "SIM 0"), (1, "SIM 1")} <= labels
    assert {event["pid"] for event in trace.of("kernel")} == {0, 1}


def test_the_tables_of_the_profiler_know_the_device(sim: Any) -> None:
    a = torch.ones(16, 16, device="sim")
    with torch.profiler.profile() as profile:
        _ = a @ a
        torch.accelerator.synchronize()
    (row,) = (row for row in profile.key_averages() if row.key == "aten::mm")
    assert row.device_time_total > 0
    assert "SIM" in profile.key_averages().table()


def test_profiles_can_follow_each_other(sim: Any, tmp_path: Path) -> None:
    a = torch.ones(16, 16, device="sim")
    counts = []
    for _ in range(3):
        trace = profiled(tmp_path, lambda: a @ a)
        counts.append(len(trace.of("kernel")))
    assert counts == [1, 1, 1]
    sim.reset_engine_log()
    _ = a @ a
    assert len(sim.engine_log()) == 1, "the device works as well without a profile"


def test_work_in_flight_at_the_end_of_a_profile_is_in_it(sim: Any, tmp_path: Path) -> None:
    sim.set_speed("vector", overhead_ns=30_000_000)
    x = torch.ones(4, device="sim")
    torch.accelerator.synchronize()
    with torch.profiler.profile() as profile:
        for _ in range(3):
            x.add_(1)
    profile.export_chrome_trace(str(tmp_path / "trace.json"))
    assert len(Trace(tmp_path / "trace.json").of("kernel")) == 3


def test_the_profiler_without_kineto_times_the_device(sim: Any) -> None:
    a = torch.ones(16, 16, device="sim")
    with torch.autograd.profiler.profile(use_device="sim", use_kineto=False) as profile:
        _ = a @ a
    assert any(event.name == "aten::mm" for event in profile.function_events)
