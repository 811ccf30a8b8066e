"""NVIDIA's management library, through the package nvidia-ml-py (module ``pynvml``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .reading import DeviceDescription, Reading

DEVICE_TYPE = "cuda"

THROTTLE_REASONS = {
    "nvmlClocksThrottleReasonSwPowerCap": "throttled: power limit",
    "nvmlClocksThrottleReasonHwSlowdown": "throttled: hardware slowdown",
    "nvmlClocksThrottleReasonSwThermalSlowdown": "throttled: temperature (software)",
    "nvmlClocksThrottleReasonHwThermalSlowdown": "throttled: temperature (hardware)",
    "nvmlClocksThrottleReasonHwPowerBrakeSlowdown": "throttled: power brake",
}
"""The library's bit -> the counter that is 1 while it is set."""


class NvmlSource:
    """Use, memory, power, temperature, clocks, throttling and memory errors of each GPU."""

    name = "NVML"

    def __init__(self) -> None:
        self._library: Any = None
        self._handles: list[Any] = []

    def available(self) -> str | None:
        """Whether the package and the driver are there."""
        try:
            import pynvml
        except ImportError:
            return "the package nvidia-ml-py is not installed"
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            return f"NVML: {error}"
        pynvml.nvmlShutdown()
        return None

    def start(self) -> None:
        """Opens the library and its devices."""
        import pynvml

        pynvml.nvmlInit()
        self._library = pynvml
        self._handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]

    def stop(self) -> None:
        """Closes it."""
        if self._library is not None:
            self._library.nvmlShutdown()
            self._library = None

    def devices(self) -> list[DeviceDescription]:
        """Model, uuid and memory of each GPU, in the driver's order (CUDA_VISIBLE_DEVICES does not apply to it)."""
        found = []
        for index, handle in enumerate(self._handles):
            memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
            found.append(
                DeviceDescription(
                    DEVICE_TYPE, index, _text(self._ask("nvmlDeviceGetName", handle)),
                    _text(self._ask("nvmlDeviceGetUUID", handle)), memory.total if memory else None,
                )
            )  # fmt: skip
        return found

    def read(self) -> list[Reading]:
        """The numbers that this GPU and driver give."""
        found: list[Reading] = []
        for index, handle in enumerate(self._handles):

            def add(name: str, unit: str, value: float | None, index: int = index) -> None:
                if value is not None:
                    found.append(Reading(name, unit, float(value), DEVICE_TYPE, index))

            self._load(handle, add)
            self._condition(handle, add)
        return found

    def _load(self, handle: Any, add: Callable[..., None]) -> None:
        use = self._ask("nvmlDeviceGetUtilizationRates", handle)
        memory = self._ask("nvmlDeviceGetMemoryInfo", handle)
        add("driver: kernels running", "%", use.gpu if use else None)
        add("driver: memory interface busy", "%", use.memory if use else None)
        add("driver: memory used", "bytes", memory.used if memory else None)
        for counter, name in ((0, "PCIe sent"), (1, "PCIe received")):
            kilobytes = self._ask("nvmlDeviceGetPcieThroughput", handle, counter)
            add(name, "bytes/s", None if kilobytes is None else kilobytes * 1024)

    def _condition(self, handle: Any, add: Callable[..., None]) -> None:
        milliwatts = self._ask("nvmlDeviceGetPowerUsage", handle)
        add("power", "W", None if milliwatts is None else milliwatts / 1000)
        add("temperature", "C", self._ask("nvmlDeviceGetTemperature", handle, 0))
        add("clock", "MHz", self._ask("nvmlDeviceGetClockInfo", handle, 1))
        add("memory clock", "MHz", self._ask("nvmlDeviceGetClockInfo", handle, 2))
        reasons = self._ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle)
        if reasons is not None:
            for constant, name in THROTTLE_REASONS.items():
                bit = getattr(self._library, constant, None)
                add(name, "", None if bit is None else float(bool(reasons & bit)))
        # Error type 0: corrected, 1: uncorrected; counter type 0: since the last boot.
        add("memory errors, corrected", "", self._ask("nvmlDeviceGetTotalEccErrors", handle, 0, 0))
        add("memory errors, uncorrected", "", self._ask("nvmlDeviceGetTotalEccErrors", handle, 1, 0))

    def _ask(self, function: str, *arguments: Any) -> Any:
        """What the library answers; None where this GPU or driver does not have it."""
        try:
            return getattr(self._library, function)(*arguments)
        except (AttributeError, self._library.NVMLError):
            return None


def _text(value: Any) -> str | None:
    return value.decode() if isinstance(value, bytes) else value
