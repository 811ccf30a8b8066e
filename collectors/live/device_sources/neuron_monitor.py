"""AWS Neuron devices, from the stream of JSON lines that ``neuron-monitor`` prints."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from .command import LineStream
from .reading import DeviceDescription, Reading

COMMAND = "neuron-monitor"
DEVICE_TYPE = "neuron"

CONFIG = {
    "period": "1s",
    "neuron_runtimes": [
        {
            "tag_filter": ".*",
            "metrics": [{"type": kind} for kind in ("neuroncore_counters", "memory_used", "execution_stats")],
        }
    ],
    "system_metrics": [{"type": "neuron_hw_counters"}],
}
"""What the tool is asked for. It takes whole seconds only: "1.0s" is ignored without a word."""


class NeuronMonitorSource:
    """Use of each core, memory, errors and memory errors, once a second."""

    name = "neuron-monitor"

    def __init__(self) -> None:
        self._stream: LineStream | None = None
        self._config: Path | None = None

    def available(self) -> str | None:
        """Whether the tool is there."""
        return None if shutil.which(COMMAND) else "neuron-monitor is not on the path"

    def start(self) -> None:
        """Starts the tool with a configuration of ours."""
        with tempfile.NamedTemporaryFile("w", suffix=".json", prefix="stallscope-", delete=False) as file:
            json.dump(CONFIG, file)
        self._config = Path(file.name)
        self._stream = LineStream([COMMAND, "-c", file.name])
        self._stream.start()

    def stop(self) -> None:
        """Ends the tool."""
        if self._stream is not None:
            self._stream.stop()
        if self._config is not None:
            self._config.unlink(missing_ok=True)

    def devices(self) -> list[DeviceDescription]:
        """None: torch knows them."""
        return []

    def read(self) -> list[Reading]:
        """The last line, once."""
        line = self._stream.take() if self._stream else None
        return readings_of(line) if line else []


def readings_of(line: str) -> list[Reading]:
    """The readings in one line of neuron-monitor; parts that report an error are left out.

    Raises:
        ValueError: It is not JSON.
    """
    report = json.loads(line)
    found: list[Reading] = []
    for runtime in report.get("neuron_runtime_data") or []:
        if not runtime.get("error"):
            found += _of_runtime(runtime.get("report") or {})
    counters = (report.get("system_data") or {}).get("neuron_hw_counters") or {}
    for device in counters.get("neuron_devices") or []:
        index = device.get("neuron_device_index")
        for key, name in (
            ("mem_ecc_corrected", "memory errors, corrected"),
            ("mem_ecc_uncorrected", "memory errors, uncorrected"),
            ("sram_ecc_uncorrected", "sram errors, uncorrected"),
            ("sram_ecc_corrected", "sram errors, corrected"),
        ):
            if isinstance(device.get(key), int | float):
                found.append(Reading(name, "", float(device[key]), DEVICE_TYPE, index))
    return found


def _of_runtime(report: dict[str, Any]) -> Iterator[Reading]:
    cores = (report.get("neuroncore_counters") or {}).get("neuroncores_in_use") or {}
    for core, told in cores.items():
        if isinstance(told.get("neuroncore_utilization"), int | float):
            yield Reading("core in use", "%", float(told["neuroncore_utilization"]), DEVICE_TYPE, int(core))
        if isinstance(told.get("flops"), int | float):
            yield Reading("floating-point operations in the period", "", float(told["flops"]), DEVICE_TYPE, int(core))
    used = (report.get("memory_used") or {}).get("neuron_runtime_used_bytes") or {}
    for key, name in (("neuron_device", "memory used, device"), ("host", "memory used, host")):
        if isinstance(used.get(key), int | float):
            yield Reading(name, "bytes", float(used[key]), DEVICE_TYPE, None)
    errors = (report.get("execution_stats") or {}).get("error_summary") or {}
    for kind, count in errors.items():
        if isinstance(count, int | float):
            yield Reading(f"execution errors, {kind}", "", float(count), DEVICE_TYPE, None)
