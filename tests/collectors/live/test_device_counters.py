"""Numbers of devices: recorded outputs of the vendors' tools, fakes of their commands and libraries."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from stallscope.collectors.live.device_counters import DeviceCountersCollector
from stallscope.collectors.live.device_sources import neuron_monitor, rocm_smi
from stallscope.collectors.live.device_sources.neuron_metrics import NeuronMetricsSource
from stallscope.collectors.live.device_sources.neuron_monitor import NeuronMonitorSource
from stallscope.collectors.live.device_sources.nvml import NvmlSource
from stallscope.collectors.live.device_sources.reading import DeviceDescription, Reading
from stallscope.collectors.live.device_sources.rocm_smi import RocmSmiSource
from stallscope.collectors.live.device_sources.torch_memory import TorchMemorySource, readings_of_stats

from .context import TestContext, counters

FLAT = {
    "allocated_bytes.all.current": 1000,
    "allocated_bytes.all.peak": 5000,
    "reserved_bytes.all.current": 2000,
    "active_bytes.all.current": 1500,
    "inactive_split_bytes.all.current": 300,
    "num_alloc_retries": 2,
    "num_ooms": 1,
}
NESTED = {
    "allocated_bytes": {"current": 1000, "peak": 5000, "allocated": 9, "freed": 1},
    "reserved_bytes": {"current": 2000},
    "active_bytes": {"current": 1500},
    "num_alloc_retries": 2,
    "num_ooms": 1,
}
NESTED_BY_POOL = {"allocated_bytes": {"all": {"current": 1000}}, "reserved_bytes": {"all": {"current": 2000}}}


def by_name(readings: list[Reading]) -> dict[tuple[str, int | None], float]:
    return {(reading.name, reading.device_index): reading.value for reading in readings}


def test_memory_stats_in_every_shape() -> None:
    expected = {("memory allocated", 3): 1000.0, ("memory reserved", 3): 2000.0}
    more = {("memory active", 3): 1500.0, ("allocation retries", 3): 2.0, ("out of memory", 3): 1.0}
    assert by_name(readings_of_stats(FLAT, "cuda", 3)) == {**expected, **more, ("memory fragmented", 3): 300.0}
    assert by_name(readings_of_stats(NESTED, "neuron", 3)) == {**expected, **more}
    assert by_name(readings_of_stats(NESTED_BY_POOL, "x", 3)) == expected
    assert readings_of_stats({"allocated_bytes": {"all": 5}, "num_ooms": True}, "x", 0) == []


def test_memory_of_torchs_accelerator(monkeypatch: pytest.MonkeyPatch) -> None:
    def stats(index: int) -> dict[str, Any]:
        if index:
            raise RuntimeError("Allocator for sim is not a DeviceAllocator")
        return FLAT

    torch = SimpleNamespace(
        accelerator=SimpleNamespace(
            is_available=lambda: True,
            device_count=lambda: 2,
            memory_stats=stats,
            current_accelerator=lambda: SimpleNamespace(type="fake"),
        ),
        fake=SimpleNamespace(get_device_properties=lambda index: SimpleNamespace(name=f"F{index}", total_memory=77)),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    source = TorchMemorySource()
    assert source.available() is None
    assert source.devices() == [
        DeviceDescription("fake", 0, "F0", None, 77),
        DeviceDescription("fake", 1, "F1", None, 77),
    ]
    assert by_name(source.read())["memory allocated", 0] == 1000.0
    assert {reading.device_index for reading in source.read()} == {0}
    torch.accelerator.is_available = lambda: False
    assert source.available() == "torch sees no accelerator"


class FakeNvml:
    """The functions of pynvml that are used, for two GPUs; the second has no ECC and no PCIe counters."""

    class NVMLError(Exception):
        pass

    nvmlClocksThrottleReasonSwPowerCap = 4
    nvmlClocksThrottleReasonHwThermalSlowdown = 64

    def __init__(self) -> None:
        self.open = 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return 2

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetName(self, handle: int) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(total=150, used=40 + handle)

    def nvmlDeviceGetUtilizationRates(self, handle: int) -> SimpleNamespace:
        return SimpleNamespace(gpu=90, memory=30)

    def nvmlDeviceGetPcieThroughput(self, handle: int, counter: int) -> int:
        if handle:
            raise self.NVMLError("Not Supported")
        return 5 + counter

    def nvmlDeviceGetPowerUsage(self, handle: int) -> int:
        return 700_500

    def nvmlDeviceGetTemperature(self, handle: int, sensor: int) -> int:
        return 61

    def nvmlDeviceGetClockInfo(self, handle: int, kind: int) -> int:
        return {1: 1980, 2: 3201}[kind]

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: int) -> int:
        return 4 | 1

    def nvmlDeviceGetTotalEccErrors(self, handle: int, kind: int, counter: int) -> int:
        if handle:
            raise self.NVMLError("Not Supported")
        return 3 * (1 - kind)


def test_nvml(monkeypatch: pytest.MonkeyPatch) -> None:
    library = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", library)  # type: ignore[arg-type]
    source = NvmlSource()
    assert source.available() is None
    assert library.open == 0
    source.start()
    assert source.devices()[1] == DeviceDescription("cuda", 1, "NVIDIA H200", "GPU-1", 150)
    read = by_name(source.read())
    assert read["driver: kernels running", 0] == 90
    assert read["driver: memory used", 1] == 41
    assert read["power", 0] == 700.5
    assert read["PCIe sent", 0] == 5 * 1024
    assert ("PCIe sent", 1) not in read
    assert read["throttled: power limit", 0] == 1
    assert read["throttled: temperature (hardware)", 0] == 0
    assert read["memory errors, corrected", 0] == 3
    assert read["memory errors, uncorrected", 0] == 0
    assert ("memory errors, corrected", 1) not in read
    source.stop()
    assert library.open == 0


ROCM_SMI = {
    "card0": {
        "Temperature (Sensor edge) (C)": "35.0",
        "Temperature (Sensor junction) (C)": "41.0",
        "Temperature (Sensor memory) (C)": "38.0",
        "sclk clock speed:": "(1700Mhz)",
        "sclk clock level:": "8",
        "Average Graphics Package Power (W)": "301.0",
        "GPU use (%)": "97",
        "GPU memory use (%)": "12",
        "VRAM Total Memory (B)": "68702699520",
        "VRAM Total Used Memory (B)": "11141120",
    },
    "card1": {
        "Temperature (Sensor junction) (C)": "N/A",
        "Current Socket Graphics Package Power (W)": "620.0",
        "GPU use (%)": "0",
        "GPU Memory Allocated (VRAM%)": "1",
        "VRAM Total Used Memory (B)": "0",
    },
    "system": {"Driver version": "6.3.6"},
}
"""As rocm-smi 5 (card0) and 6 (card1) print it."""


def test_rocm_smi_output() -> None:
    read = by_name(rocm_smi.readings_of(json.dumps(ROCM_SMI)))
    assert read["driver: kernels running", 0] == 97
    assert read["temperature, junction", 0] == 41
    assert read["clock", 0] == 1700
    assert read["power", 0] == 301
    assert read["power", 1] == 620
    assert ("temperature, junction", 1) not in read
    assert {index for _, index in read} == {0, 1}


NEURON = {
    "neuron_runtime_data": [
        {
            "pid": 7,
            "error": "",
            "report": {
                "neuroncore_counters": {
                    "period": 1.0,
                    "error": "",
                    "neuroncores_in_use": {
                        "0": {"neuroncore_utilization": 42.5, "flops": 1e12},
                        "3": {"neuroncore_utilization": 0},
                    },
                },
                "memory_used": {"neuron_runtime_used_bytes": {"host": 610705408, "neuron_device": 102298328}},
                "execution_stats": {"error_summary": {"generic": 0, "hardware": 1}},
            },
        },
        {"pid": 8, "error": "runtime is gone", "report": {}},
    ],
    "system_data": {
        "neuron_hw_counters": {
            "period": 1.0,
            "error": "",
            "neuron_devices": [
                {"neuron_device_index": 0, "mem_ecc_corrected": 2, "mem_ecc_uncorrected": 0, "sram_ecc_uncorrected": 1}
            ],
        }
    },
}


def test_neuron_monitor_output() -> None:
    read = by_name(neuron_monitor.readings_of(json.dumps(NEURON)))
    assert read["core in use", 0] == 42.5
    assert read["core in use", 3] == 0
    assert read["memory used, device", None] == 102298328
    assert read["execution errors, hardware", None] == 1
    assert read["memory errors, corrected", 0] == 2
    assert read["sram errors, uncorrected", 0] == 1
    assert neuron_monitor.readings_of("{}") == []


def fake_command(folder: Path, name: str, body: str) -> None:
    file = folder / name
    file.write_text(f"#!{sys.executable}\n{body}")
    file.chmod(0o755)


def wait_for(read: Any) -> list[Reading]:
    until = time.monotonic() + 20
    while time.monotonic() < until:
        found: list[Reading] = read()
        if found:
            return found
        time.sleep(0.02)
    return []


def test_the_commands_are_run_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(rocm_smi, "PERIOD_S", 0.05)
    rocm, neuron = RocmSmiSource(), NeuronMonitorSource()
    assert rocm.available() == "rocm-smi is not on the path"
    assert neuron.available() == "neuron-monitor is not on the path"
    fake_command(tmp_path, "rocm-smi", f"import sys\nassert '--json' in sys.argv\nprint({json.dumps(ROCM_SMI)!r})")
    line = json.dumps(NEURON)
    fake_command(
        tmp_path,
        "neuron-monitor",
        f"import json, sys, time\nassert json.load(open(sys.argv[2]))['period'] == '1s'\n"
        f"while True:\n    print({line!r}, flush=True); time.sleep(0.05)",
    )
    for source, name in ((rocm, "power"), (neuron, "core in use")):
        assert source.available() is None
        source.start()
        assert name in {reading.name for reading in wait_for(source.read)}
        source.stop()
    assert neuron._stream is not None
    assert neuron._stream._process is None
    assert neuron._config is not None
    assert not neuron._config.exists()


def test_neurons_compilation_cache_is_read_once_the_program_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {"CompilationCache.TotalCompilations": 3, "CompilationCache.PersistentHits": 5, "Other.Counter": 9}
    metrics = SimpleNamespace(get_counter_names=lambda: list(values), get_counter_value=values.__getitem__)
    context = TestContext(tmp_path)
    source = NeuronMetricsSource()
    assert source.available() == "torch_neuronx is not imported"
    collector = DeviceCountersCollector([source])
    collector.start(context)
    monkeypatch.setitem(sys.modules, "torch_neuronx", SimpleNamespace(metrics=metrics))
    for _ in range(5):
        collector.on_tick()
    collector.stop()
    assert counters(context.written()) == {
        ("compilations", "neuron", None): [3, 3],
        ("compiled graphs found on disk", "neuron", None): [5, 5],
    }
    values.clear()
    assert "TORCH_NEURONX_METRICS_ENABLED=1" in str(source.available())


class Scripted:
    """A source that plays back what it is given."""

    name = "scripted"

    def __init__(self, *values: float) -> None:
        self._values = list(values)

    def available(self) -> str | None:
        return None

    def start(self) -> None:
        pass

    def stop(self) -> None:
        pass

    def devices(self) -> list[DeviceDescription]:
        return [DeviceDescription("cuda", 0, "GPU", None, 5)]

    def read(self) -> list[Reading]:
        return [Reading("memory errors, uncorrected", "", self._values.pop(0), "cuda", 0)]


def test_trouble_is_said_when_it_rises(tmp_path: Path) -> None:
    context = TestContext(tmp_path)
    collector = DeviceCountersCollector([Scripted(4, 4, 6, 6)])
    collector.start(context)
    for _ in range(15):
        collector.on_tick()
    collector.stop()
    written = context.written()
    assert counters(written) == {("memory errors, uncorrected", "cuda", 0): [4, 4, 6, 6]}
    assert [(row["kind"], row["severity"]) for row in written["losses"]] == [("device_trouble", "warning")]
    assert "from 4 to 6" in written["losses"][0]["detail"]
    assert written["devices"][0]["memory_bytes"] == 5


def test_without_any_source_the_reasons_are_told(tmp_path: Path) -> None:
    class Absent(Scripted):
        def available(self) -> str | None:
            return "it is not here"

    context = TestContext(tmp_path)
    collector = DeviceCountersCollector([Absent()])
    collector.start(context)
    collector.stop()
    assert [row["detail"] for row in context.written()["losses"]] == ["it is not here"]
