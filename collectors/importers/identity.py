"""What a trace says of the job: rank, groups, versions; and never what was in the job's environment."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

_VERSION_KEYS = re.compile(
    r"^(?:cuda|cupti|hip|roctracer|rocprofiler|rocm|nccl|rccl|torch|pytorch|python|xpu|level_zero|mtia|musa)\w*_version$"
)
_SETTING_KEYS = frozenset(
    {"record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules", "displayTimeUnit"}
)
_PLAIN_KEYS = frozenset({"schemaVersion", "trace_id", "group_trace_id", "host_name", "baseTimeNanoseconds"})
_MAX_TEXT = 256
_MAX_RANK = 1 << 23


@dataclass(frozen=True, slots=True)
class Job:
    """The job that a trace is of.

    Attributes:
        rank: The rank that it states; None if it states none that can be one.
        world_size: How many ranks there are; None if it does not say.
        backend: Of torch.distributed.
        groups: ``pg_config`` as it stands, each entry an object.
    """

    rank: int | None
    world_size: int | None
    backend: str | None
    groups: tuple[Mapping[str, Any], ...]


def job_of(metadata: Mapping[str, object]) -> Job:
    """Reads ``distributedInfo``; what is not as expected is unknown."""
    info = metadata.get("distributedInfo")
    members: Mapping[str, Any] = info if isinstance(info, dict) else {}
    groups = members.get("pg_config")
    return Job(
        rank=_integer(members.get("rank"), 0, _MAX_RANK),
        world_size=_integer(members.get("world_size"), 1, _MAX_RANK + 1),
        backend=members["backend"] if isinstance(members.get("backend"), str) else None,
        groups=tuple(entry for entry in groups if isinstance(entry, dict)) if isinstance(groups, list) else (),
    )


def _integer(value: object, low: int, high: int) -> int | None:
    if isinstance(value, str) and value.isdigit() and len(value) < 10:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and low <= value < high else None


def base_time_ns(metadata: Mapping[str, object]) -> int:
    """What is to be added to every stamp (``baseTimeNanoseconds``); 0 where the trace does not say."""
    value = metadata.get("baseTimeNanoseconds")
    if isinstance(value, str) and value.lstrip("-").isdigit() and len(value) < 20:
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62 else 0


def identity_of(metadata: Mapping[str, object]) -> dict[str, Any]:
    """What of the top level of a trace is kept in rank.json.

    A list of names, because schedulers add what they like, user names and service addresses among it: versions, the
    profiler's settings, the host's name, the trace's id, the file's own name without its folder.
    """
    kept: dict[str, Any] = {}
    for key, value in metadata.items():
        is_listed = key in _PLAIN_KEYS or key in _SETTING_KEYS or _VERSION_KEYS.match(key)
        is_short = isinstance(value, int | float | bool) or (isinstance(value, str) and len(value) <= _MAX_TEXT)
        if is_listed and is_short:
            kept[key] = value
    name = metadata.get("traceName")
    if isinstance(name, str) and name:
        kept["trace_name"] = PurePosixPath(PureWindowsPath(name).name).name[:_MAX_TEXT]
    info = metadata.get("distributedInfo")
    for key in ("backend", "world_size", "nccl_version"):
        if isinstance(info, dict) and isinstance(info.get(key), str | int):
            kept[key] = info[key]
    return kept
