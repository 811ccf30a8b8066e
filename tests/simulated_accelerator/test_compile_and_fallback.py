"""Kernels that are compiled on first use, and ops that run on the CPU instead: as a profile shows them."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from .test_profile import profiled

torch = pytest.importorskip("torch")


def compilations(trace: Any) -> dict[str, int]:
    calls = [event["name"] for event in trace.of("privateuse1_runtime")]
    return {name: count for name, count in Counter(calls).items() if name in ("simCompileKernel", "simLoadKernel")}


def test_a_kernel_is_compiled_once_for_its_shapes(sim: Any, tmp_path: Path) -> None:
    sim.forget_compiled(disk=True)
    sim.configure(compile_ns=20_000_000, compiled_load_ns=1_000_000)
    x, y = torch.ones(3, 3, device="sim"), torch.ones(4, 4, device="sim")

    def work() -> None:
        for value in (x, x, y, x, y):
            _ = value @ value

    before = time.perf_counter()
    cold = profiled(tmp_path, work)
    assert time.perf_counter() - before >= 0.04
    assert compilations(cold) == {"simCompileKernel": 2}
    kernels = {
        event["args"]["kernel"] for event in cold.of("privateuse1_runtime") if event["name"] == "simCompileKernel"
    }
    assert kernels == {"sim::mm_kernel<float>"}
    assert compilations(profiled(tmp_path, work)) == {}
    sim.forget_compiled()
    assert compilations(profiled(tmp_path, work)) == {"simLoadKernel": 2}, (
        "the cache on disk is there for the next process"
    )
    sim.forget_compiled(disk=True)
    assert compilations(profiled(tmp_path, work)) == {"simCompileKernel": 2}


def test_without_the_setting_nothing_is_compiled(sim: Any, tmp_path: Path) -> None:
    sim.forget_compiled(disk=True)
    x = torch.ones(5, 5, device="sim")
    assert compilations(profiled(tmp_path, lambda: x @ x)) == {}


def test_a_fallback_leaves_its_signature_in_a_trace(sim: Any, tmp_path: Path) -> None:
    x = torch.randn(6, device="sim")
    with sim.without_kernel("aten::gelu"):
        trace = profiled(tmp_path, lambda: torch.nn.functional.gelu(x))
    assert sim.fallback_counts() == {"aten::gelu": 1}
    (marker,) = (event for event in trace.of("cpu_op") if event["name"] == "aten::_to_cpu")
    around = [
        event["name"]
        for event in trace.of("cpu_op")
        if trace.start(event) <= trace.start(marker) and trace.end(marker) <= trace.end(event)
    ]
    assert "aten::gelu" in around
    assert [event["name"] for event in trace.of("kernel") if "gelu" in event["name"]] == []
    assert {event["name"] for event in trace.of("gpu_memcpy")} >= {
        "Memcpy DtoH (Device -> Pageable)",
        "Memcpy HtoD (Pageable -> Device)",
    }


def test_reading_a_value_is_no_fallback(sim: Any, tmp_path: Path) -> None:
    x = torch.ones(6, device="sim")
    trace = profiled(tmp_path, lambda: (x.sum().item(), x.cpu(), x.tolist()))
    assert sim.fallback_counts() == {}
    assert not [event for event in trace.of("cpu_op") if event["name"] == "aten::_to_cpu"]


def test_fallbacks_make_no_difference_to_the_losses(sim: Any) -> None:
    from .models import train

    expected = train("transformer", "cpu", steps=2)
    with sim.without_kernel("aten::gelu", "aten::native_layer_norm_backward"):
        assert train("transformer", "sim", steps=2) == pytest.approx(expected, rel=1e-4)
    assert sim.fallback_counts() == {"aten::gelu": 12, "aten::native_layer_norm_backward": 26}
