"""torch.accelerator.memory_stats: what torch's allocator holds on each device.

Backends give it in two shapes: CUDA's flat keys (``allocated_bytes.all.current``) and nested ones
(``{"allocated_bytes": {"current": ...}}``). Not every backend has it at all.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from .reading import DeviceDescription, Reading

COUNTERS = {
    "allocated_bytes": ("memory allocated", "bytes", "current"),
    "reserved_bytes": ("memory reserved", "bytes", "current"),
    "active_bytes": ("memory active", "bytes", "current"),
    "inactive_split_bytes": ("memory fragmented", "bytes", "current"),
    "num_alloc_retries": ("allocation retries", "", ""),
    "num_ooms": ("out of memory", "", ""),
}
"""Key -> (name, unit, which of its figures); a key without figures is a plain number."""


class TorchMemorySource:
    """Reads the allocator of every accelerator that the program uses."""

    name = "torch.accelerator"

    def available(self) -> str | None:
        """Whether the program's torch has an accelerator whose allocator tells."""
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "accelerator"):
            return "this torch has no torch.accelerator"
        try:
            return None if torch.accelerator.is_available() else "torch sees no accelerator"
        except RuntimeError as error:  # a backend that is just being registered, by another thread
            return f"torch's accelerator cannot be asked: {error}"

    def start(self) -> None:
        """Nothing to open."""

    def stop(self) -> None:
        """Nothing to close."""

    def devices(self) -> list[DeviceDescription]:
        """The accelerators, as their backend's get_device_properties describes them."""
        torch = sys.modules["torch"]
        kind = torch.accelerator.current_accelerator().type
        module: Any = getattr(torch, kind, None)
        found = []
        for index in range(torch.accelerator.device_count()):
            try:
                told = module.get_device_properties(index)
            except Exception:  # noqa: BLE001 - optional in a backend's module
                told = None
            uuid = getattr(told, "uuid", None)
            found.append(
                DeviceDescription(
                    kind, index, getattr(told, "name", None), str(uuid) if uuid else None,
                    getattr(told, "total_memory", None),
                )
            )  # fmt: skip
        return found

    def read(self) -> list[Reading]:
        """Bytes held, retries and failures; nothing for a backend whose allocator does not tell."""
        torch = sys.modules["torch"]
        kind = torch.accelerator.current_accelerator().type
        found: list[Reading] = []
        for index in range(torch.accelerator.device_count()):
            try:
                stats = _stats(torch, kind, index)
            except RuntimeError:
                continue  # "Allocator for ... is not a DeviceAllocator"
            found += readings_of_stats(stats, kind, index)
        return found


def _stats(torch: Any, kind: str, index: int) -> Mapping[str, Any]:
    if hasattr(torch.accelerator, "memory_stats"):
        return dict(torch.accelerator.memory_stats(index))
    module: Any = getattr(torch, kind, None)
    return dict(module.memory_stats(index)) if hasattr(module, "memory_stats") else {}


def readings_of_stats(stats: Mapping[str, Any], kind: str, index: int) -> list[Reading]:
    """The counters in either shape of memory_stats."""
    found = []
    for key, (name, unit, figure) in COUNTERS.items():
        value = stats.get(f"{key}.all.{figure}") if figure else stats.get(key)
        nested = stats.get(key)
        if value is None and isinstance(nested, Mapping):
            inner = nested.get("all", nested)
            value = inner.get(figure) if isinstance(inner, Mapping) else None
        if isinstance(value, int | float) and not isinstance(value, bool):
            found.append(Reading(name, unit, float(value), kind, index))
    return found
