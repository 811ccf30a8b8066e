"""Where and how a run was made, as flat text: what must agree before a difference can be put down to the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .run_facts import LaneMeasures

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

_NOT_THE_ENVIRONMENT = frozenset(
    (
        "trace_id",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "trace_name",
        "schemaVersion",
        "distributedInfo",
        "argv",
        "group_trace_id",
        "world_size",
    )
)
"""What differs from run to run, or says nothing about one."""

_LONGEST = 400


def environment(recording: Recording, ranks: tuple[int, ...], lanes: Sequence[LaneMeasures]) -> dict[str, str]:
    """Dotted name -> text: versions, platform, host, allowed environment variables, devices, source control, settings.

    Facts of the ranks are those of the first one; the devices are those of the lanes.
    """
    facts: dict[str, str] = {}
    _flatten("", {key: value for key, value in recording.identity.items() if key not in _NOT_THE_ENVIRONMENT}, facts)
    argv = recording.identity.get("argv")
    if isinstance(argv, list):
        facts["command"] = " ".join(str(word) for word in argv)[:_LONGEST]
    info = recording.rank_info(ranks[0]) if ranks else {}
    facts |= {key: str(info[key]) for key in ("git_commit", "git_dirty") if info.get(key) is not None}
    facts |= _settings(info.get("settings"))
    facts |= _devices(recording, lanes)
    world = recording.info.get("world_size")
    facts["ranks"] = str(world if isinstance(world, int) else len(recording.ranks))
    source = info.get("import")
    facts["recorded_by"] = str(source.get("importer")) if isinstance(source, dict) else "stallscope"
    return dict(sorted(facts.items()))


def _flatten(prefix: str, value: object, into: dict[str, str]) -> None:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _flatten(f"{prefix}.{key}" if prefix else str(key), inner, into)
    elif value is not None and not isinstance(value, list):
        into[prefix] = str(value)[:_LONGEST]


def _settings(settings: Any) -> dict[str, str]:
    """The settings of the recorder that were not left at their defaults, and the detail: they change the overhead."""
    if not isinstance(settings, Mapping):
        return {}
    return {
        f"settings.{name}": str(one.get("value"))[:_LONGEST]
        for name, one in settings.items()
        if isinstance(one, Mapping) and (one.get("origin") != "default" or name == "detail")
    }


def _devices(recording: Recording, lanes: Sequence[LaneMeasures]) -> dict[str, str]:
    """The models of the devices that ran steps, and how many of each; a machine may have others that did nothing."""
    columns = ["rank", "device_type", "device_index", "name"]
    rows = recording.table("devices", columns=columns).to_pylist()
    names = {(row["rank"], row["device_type"], row["device_index"]): row["name"] for row in rows}
    models = {name for (_, kind, _), name in names.items() if name and kind != "cpu"}
    counts: dict[str, int] = {}
    for lane in lanes:
        name = names.get((lane.rank, lane.device_type, lane.device_index))
        if not name:
            name = next(iter(models)) if len(models) == 1 and lane.device_type != "cpu" else lane.device_type
        counts[name] = counts.get(name, 0) + 1
    return {"device": ", ".join(f"{count} x {name}" for name, count in sorted(counts.items()))} if counts else {}
