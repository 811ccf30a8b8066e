"""The cause of each host slice, from its name, its category and what contains it."""

from __future__ import annotations

import numpy as np
import pytest

from stallscope.analysis.causes import CAUSE_NAMES, CAUSES, CLASSES, host_causes
from stallscope.analysis.timeline import timeline
from tests.builders import TraceBuilder


def causes(trace: TraceBuilder) -> dict[str, str]:
    t = timeline(trace.recording(), 0)
    codes = host_causes(t).cause
    return {t.name_of(row): CAUSE_NAMES[codes[row]] if codes[row] >= 0 else "" for row in range(len(t))}


def nested(*slices: tuple[str, str]) -> dict[str, str]:
    """The causes of slices each of which contains the next."""
    trace = TraceBuilder()
    main = trace.thread()
    for depth, (name, category) in enumerate(slices):
        trace.slice(main, name, category, depth, 100 - 2 * depth)
    return causes(trace)


@pytest.mark.parametrize(
    ("name", "category", "cause"),
    [
        ("aten::mm", "op", "dispatch"),
        ("cudaLaunchKernel", "runtime", "launch"),
        ("hipDeviceSynchronize", "synchronization", "synchronization"),
        ("cudaMalloc", "allocation", "allocation"),
        ("cuModuleLoadData", "runtime", "compile"),
        ("simCompileKernel", "runtime", "compile"),
        ("zeLoadKernel", "runtime", "compile"),
        ("xCompileKernelAsyncLaunch", "runtime", "launch"),
        ("Python GC", "gc", "gc"),
        ("enumerate(DataLoader)#x", "input", "input"),
        ("Lazy Function Loading", "overhead", "compile"),
        ("Command Buffer Full", "overhead", "launch"),
        ("Activity Buffer Request", "overhead", "overhead"),
        ("torch/utils/data/dataloader.py(630): __next__", "python", "input"),
        ("/opt/lib/python3.10/site-packages/torch/utils/data/dataloader.py(630): _next_data", "python", "input"),
        ("torch/_dynamo/convert_frame.py(1022): _compile", "python", "compile"),
        ("torch/_dynamo/eval_frame.py(738): _fn", "python", ""),
        ("torch/serialization.py(900): save", "python", "io"),
        ("<built-in function collect>", "python", "gc"),
        ("<built-in method acquire of _thread.lock object at 0x7f>", "python", "lock"),
        ("train.py(3): step", "python", ""),
        ("ProfilerStep#1", "annotation", ""),
    ],
)
def test_by_itself(name: str, category: str, cause: str) -> None:
    assert nested((name, category)) == {name: cause}


def test_a_wait_inherits_its_context() -> None:
    copy = ("cudaMemcpyAsync", "runtime")
    assert nested(("torch/serialization.py(9): save", "python"), ("aten::copy_", "op"), copy)[copy[0]] == "io"
    assert nested(("enumerate(DataLoader)#x", "input"), ("aten::copy_", "op"), copy)[copy[0]] == "input"
    assert nested(("aten::copy_", "op"), copy)[copy[0]] == "launch"


def test_the_op_around_a_fallbacks_copy_is_the_fallback() -> None:
    found = nested(("aten::cumsum", "op"), ("aten::_to_cpu", "fallback"), ("cudaStreamSynchronize", "synchronization"))
    assert set(found.values()) == {"cpu_fallback"}


def test_of_contexts_the_outermost_counts_but_gc_and_compile_interrupt() -> None:
    file, load = ("torch/serialization.py(9): load", "python"), ("enumerate(DataLoader)#x", "input")
    assert nested(load, file, ("aten::copy_", "op"))["aten::copy_"] == "input"
    assert nested(load, ("Python GC", "gc"), ("aten::x", "op"))["aten::x"] == "gc"
    assert nested(load, ("torch/_dynamo/convert_frame.py(1): _compile", "python"), ("aten::x", "op"))["aten::x"] == (
        "compile"
    )


def test_reading_a_value_back_waits_for_the_device() -> None:
    found = nested(("aten::item", "op"), ("aten::_local_scalar_dense", "op"), ("cudaMemcpyAsync", "runtime"))
    assert set(found.values()) == {"synchronization"}


def test_context_crosses_lanes() -> None:
    """What a live collector writes overlaps torch's slices without nesting in their lane."""
    trace = TraceBuilder()
    main = trace.thread()
    trace.slice(main, "aten::before", "op", 0, 20)
    trace.slice(main, "torch.save", "io", 10, 100)
    trace.slice(main, "aten::copy_", "op", 30, 20)
    trace.slice(main, "cudaStreamSynchronize", "synchronization", 35, 10)
    trace.slice(main, "aten::after", "op", 105, 30)
    recording = trace.recording()
    assert timeline(recording, 0).lane.max() > 0
    assert causes(trace) == {
        "aten::before": "dispatch",
        "torch.save": "io",
        "aten::copy_": "io",
        "cudaStreamSynchronize": "io",
        "aten::after": "dispatch",
    }


def test_a_collective_that_blocks_the_host_waits_for_others() -> None:
    trace = TraceBuilder()
    main = trace.thread()
    trace.slice(main, "c10d::allreduce_", "collective", 0, 100_000)
    trace.slice(main, "c10d::barrier", "collective", 200_000, 500_000)
    assert causes(trace) == {"c10d::allreduce_": "dispatch", "c10d::barrier": "wait_for_peer"}


def test_slices_of_devices_have_no_cause_and_contexts_are_slices_themselves() -> None:
    trace = TraceBuilder()
    trace.slice(trace.stream(), "gemm", "kernel", 0, 5)
    t = timeline(trace.recording(), 0)
    assert host_causes(t).cause.tolist() == [-1]
    trace.slice(trace.thread(), "Python GC", "gc", 0, 5)
    t = timeline(trace.recording(), 0)
    context = host_causes(t).context
    assert (context[context >= 0] == np.flatnonzero(context >= 0)).all() and (context >= 0).sum() == 1


def launches(*calls: tuple[str, int, int]) -> list[str]:
    """The causes of launches of named kernels, each (name, start and length of the call), in us."""
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    for name, ts, dur in calls:
        trace.launched(main, gpu, call=(ts * 1000, dur * 1000), work=((ts + dur) * 1000, 5000), name=name)
    t = timeline(trace.recording(), 0)
    codes = host_causes(t).cause[t.rows_of_track(t.threads[0])]
    return [CAUSE_NAMES[code] for code in codes]


def test_the_first_launch_of_a_kernel_loads_its_code_if_it_takes_long() -> None:
    assert launches(("a", 0, 2000), ("a", 3000, 2000), ("b", 6000, 900), ("c", 7000, 1500)) == [
        "compile", "launch", "launch", "compile",
    ]  # fmt: skip


def test_a_first_launch_behind_a_busy_device_waits_for_the_queue() -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    trace.launched(main, gpu, call=(0, 5000), work=(10_000, 5_000_000), name="a")
    trace.launched(main, gpu, call=(20_000, 3_000_000), work=(5_020_000, 5_000), name="b")
    t = timeline(trace.recording(), 0)
    assert "compile" not in {CAUSE_NAMES[code] for code in host_causes(t).cause if code >= 0}


def test_every_class_is_of_a_cause() -> None:
    assert set(CLASSES) <= set(CAUSES)


@pytest.mark.parametrize(
    ("category", "before", "cause"),
    [
        ("kernel", None, "compile"),
        ("memcpy", None, "launch"),
        ("kernel", "kernel", "launch"),
        ("kernel", "memcpy", "launch"),
    ],
    ids=["a new kernel", "a copy", "while the device computes", "while the device copies"],
)
def test_a_long_first_launch_on_an_idle_device_loads_code(category: str, before: str | None, cause: str) -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream()
    if before:
        trace.launched(main, gpu, call=(0, 5_000), work=(10_000, 3_500_000), name="before", category=before)
    call, _ = trace.launched(main, gpu, call=(1_000_000, 2_000_000), work=(4_000_000, 10_000), category=category)
    t = timeline(trace.recording(), 0)
    [row] = t.rows_of([call])
    assert CAUSE_NAMES[host_causes(t).cause[row]] == cause
