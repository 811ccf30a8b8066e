"""Numbers of the devices over time: what torch's allocator holds, and what the vendors' tools say of use and health."""

from __future__ import annotations

from ...profiler.recording.collector import CaptureContext
from .device_sources.neuron_metrics import NeuronMetricsSource
from .device_sources.neuron_monitor import NeuronMonitorSource
from .device_sources.nvml import NvmlSource
from .device_sources.reading import Reading, Source
from .device_sources.rocm_smi import RocmSmiSource
from .device_sources.torch_memory import TorchMemorySource

EVERY = 5
"""Sources are read at every so-many-th tick, about once a second."""

TROUBLE = ("uncorrected", "throttled", "out of memory", "execution errors")
"""A counter whose name holds one of these is trouble as soon as it rises."""

OF_THE_PROGRAM = (TorchMemorySource, NeuronMetricsSource)
"""Sources that are there as soon as the program has imported or used what they read."""


class DeviceCountersCollector:
    """Counter tracks of every source that is there; a row in ``losses`` where a device is in trouble."""

    name = "device_counters"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self, sources: list[Source] | None = None) -> None:
        self._candidates = sources or [
            TorchMemorySource(), NvmlSource(), RocmSmiSource(), NeuronMonitorSource(), NeuronMetricsSource(),
        ]  # fmt: skip
        self._sources: list[Source] = []
        self._reasons: dict[str, str] = {}
        self._described = False
        self._last: dict[tuple[str, str, int | None], float] = {}
        self._ticks = 0

    def available(self) -> str | None:
        """Always: an accelerator may be registered later."""
        return None

    def start(self, context: CaptureContext) -> None:
        """Opens the sources that are there."""
        self._context = context
        self._open()

    def _open(self) -> None:
        for source in list(self._candidates):
            reason = source.available()
            if reason is None:
                source.start()
                self._sources.append(source)
                self._candidates.remove(source)
                self._describe(source)
            else:
                self._reasons[source.name] = reason

    def _describe(self, source: Source) -> None:
        if self._described:
            return
        for device in source.devices():
            self._described = True
            self._context.rows.append(
                "devices", device_type=device.device_type, device_index=device.device_index, name=device.name,
                uuid=device.uuid, memory_bytes=device.memory_bytes,
            )  # fmt: skip

    def stop(self) -> None:
        """Reads a last time, closes the sources, and says which were not there."""
        try:
            self._read()
        finally:
            for source in self._sources:
                source.stop()
        missing = "; ".join(self._reasons[source.name] for source in self._candidates)
        if missing and not self._sources:
            self._context.loss(self.name, "no_source", "info", detail=missing)

    def on_tick(self) -> None:
        """Reads once a second, and looks for what the program has brought in meanwhile."""
        self._ticks += 1
        if self._ticks % EVERY:
            return
        if any(isinstance(source, OF_THE_PROGRAM) and source.available() is None for source in self._candidates):
            self._open()
        self._read()

    def _read(self) -> None:
        rows = self._context.rows
        for source in self._sources:
            for reading in source.read():
                track = rows.counter_track(
                    reading.name, reading.unit or None, reading.device_type, reading.device_index
                )
                rows.counter(track, rows.now(), reading.value)
                self._look_for_trouble(reading)

    def _look_for_trouble(self, reading: Reading) -> None:
        key = (reading.name, reading.device_type, reading.device_index)
        before = self._last.get(key)
        self._last[key] = reading.value
        if before is not None and reading.value > before and any(word in reading.name for word in TROUBLE):
            self._context.loss(
                self.name, "device_trouble", "warning", ts=self._context.rows.now(),
                detail=f"{reading.device_type}:{reading.device_index}: {reading.name} went from {before:g} to "
                f"{reading.value:g}",
            )  # fmt: skip
