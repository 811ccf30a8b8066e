"""Which accelerator a trace is of, and what it says about each."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...profiler.recording.segment import PRIVATE_BACKEND
from .names import DEVICE
from .tracks import Track

_BY_CATEGORY = (
    ("mtia_", "mtia"), ("xpu_", "xpu"), ("privateuse1_", "privateuseone"), ("hpu_", "hpu"), ("musa_", "musa"),
)  # fmt: skip


_PRIVATE = "privateuseone"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,31}")


def device_type(metadata: Mapping[str, object], raw_categories: Iterable[str], names: Iterable[str]) -> str:
    """The type of the trace's accelerators: cuda, hip, xpu, mtia, hpu, musa, or privateuseone by its own name if known.

    ROCm writes CUDA's categories, so it is told by its own metadata or, in older traces, by the names of its calls.

    Args:
        metadata: The top level of the trace.
        raw_categories: The different categories of its events.
        names: Their different names.
    """
    lowered = {category.lower() for category in raw_categories}
    for prefix, found in _BY_CATEGORY:
        if any(category.startswith(prefix) for category in lowered):
            return _own_name(metadata) if found == _PRIVATE else found
    if any(key.startswith(("hip_", "roctracer_", "rocprofiler_")) for key in metadata):
        return "hip"
    has_cuda = has_hip = False
    for name in names:
        has_cuda = has_cuda or name.startswith(("cudaLaunch", "cudaMemcpy", "cuLaunch"))
        has_hip = has_hip or name.startswith(("hipLaunch", "hipMemcpy", "hipExt", "hipModuleLaunch"))
    if has_hip and not has_cuda:
        return "hip"
    described = json.dumps(metadata.get("deviceProperties", ""))
    return "hip" if not has_cuda and ("AMD " in described or "Radeon" in described) else "cuda"


def _own_name(metadata: Mapping[str, object]) -> str:
    """What the program called its PrivateUse1 device."""
    told = metadata.get(PRIVATE_BACKEND)
    return told if isinstance(told, str) and _NAME.fullmatch(told) else _PRIVATE


def device_rows(metadata: Mapping[str, object], kind: str, tracks: Iterable[Track]) -> dict[str, list[Any]]:
    """The rows of ``devices``: those that ``deviceProperties`` lists, and those that have a track."""
    rows: dict[int, dict[str, Any]] = {}
    listed = metadata.get("deviceProperties")
    for entry in listed if isinstance(listed, list) else []:
        if isinstance(entry, dict) and isinstance(entry.get("id"), int) and 0 <= entry["id"] < 1 << 31:
            rows[entry["id"]] = entry
    for track in tracks:
        if track.side == DEVICE and track.device is not None and 0 <= track.device < 1 << 31:
            rows.setdefault(track.device, {})
    own = ("id", "name", "uuid", "totalGlobalMem")
    rest = {index: {key: value for key, value in entry.items() if key not in own} for index, entry in rows.items()}
    order = sorted(rows)
    return {
        "device_type": [kind] * len(order),
        "device_index": order,
        "name": [_text(rows[index].get("name")) for index in order],
        "uuid": [_text(rows[index].get("uuid")) for index in order],
        "memory_bytes": [_size(rows[index].get("totalGlobalMem")) for index in order],
        "properties": [json.dumps(rest[index]) if rest[index] else None for index in order],
    }


def _text(value: object) -> str | None:
    return str(value) if value else None


def _size(value: object) -> int | None:
    return value if isinstance(value, int) and 0 < value < 1 << 62 else None
