"""The settings of a device as one value."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True)
class Settings:
    """How one device behaves. Times in ns.

    Attributes:
        work_per_s: By queue: floating-point operations for ``tensor``, bytes for the others.
        overhead_ns: By queue: what every operation takes on top.
        launch_latency_ns: From the launch on the host to the earliest start on the device.
        launch_limit: Operations of one stream that may be in flight; the next launch blocks the host.
        lookahead_ns: How long before its start an operation may be computed on the host.
        compile_ns: What the first launch of an op with its shapes costs the host; 0: nothing.
        compiled_load_ns: The same where the cache on disk has it from another process.
        malloc_ns: What a new segment of device memory costs the host, when the caching allocator has none.
        free_ns: What giving one back costs, after waiting for the device.
        memory_capacity: Bytes.
    """

    work_per_s: dict[str, float]
    overhead_ns: dict[str, int]
    launch_latency_ns: int
    launch_limit: int
    lookahead_ns: int
    compile_ns: int
    compiled_load_ns: int
    malloc_ns: int
    free_ns: int
    memory_capacity: int

    @classmethod
    def numbers(cls) -> tuple[str, ...]:
        """The names of the settings that do not belong to a queue."""
        return tuple(field.name for field in fields(cls) if field.name not in ("work_per_s", "overhead_ns"))

    @classmethod
    def read(cls, native: Any, device: int) -> Settings:
        """The settings that hold now."""
        speeds = {queue: native.get_speed(device, queue) for queue in native.QUEUES}
        return cls(
            work_per_s={queue: speed for queue, (speed, _) in speeds.items()},
            overhead_ns={queue: overhead for queue, (_, overhead) in speeds.items()},
            **{name: native.get_number(device, name) for name in cls.numbers()},
        )

    def write(self, native: Any, device: int) -> None:
        """Makes these settings hold for launches from now on."""
        for queue, speed in self.work_per_s.items():
            native.set_speed(device, queue, speed, self.overhead_ns[queue])
        for name in self.numbers():
            native.set_number(device, name, getattr(self, name))
