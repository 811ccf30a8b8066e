"""What a recording comes to, on one screen: what its steps are made of, why the devices waited, what to do.

Assembles the answers of the other modules; works out nothing itself. ``Summary`` is what ``stallscope summary`` prints
and what ``--json`` writes, so a field keeps its name and meaning.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .collective_totals import CollectiveSummary, collective_summary
from .device_activity import rank_activity
from .findings import ColdStart, Finding, findings
from .kernels import kernels
from .memory import DeviceMemory, memory_peaks
from .ops import ops
from .stall_groups import stall_groups
from .step_breakdown import STATE_COLUMNS, step_breakdown
from .timeline import timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

TOP = 5
"""Rows of each list of the summary."""


@dataclass(frozen=True, slots=True)
class States:
    """Time of one device in each state; the four states add up to window_ns exactly.

    Attributes:
        window_ns: The whole.
        busy_ns: Time with any work: window_ns - idle_ns.
        idle_ns: The same as stall_ns.
        compute_ns: At least one compute kernel ran.
        communication_ns: A collective ran and no compute (exposed).
        data_movement_ns: A copy or memset ran and neither of the above (exposed).
        stall_ns: Nothing ran.
    """

    window_ns: int
    busy_ns: int
    idle_ns: int
    compute_ns: int
    communication_ns: int
    data_movement_ns: int
    stall_ns: int


@dataclass(frozen=True, slots=True)
class DeviceSummary:
    """One device of one rank.

    Attributes:
        rank: The rank.
        device_type: Its type; "cpu" where training threads stand in for a device.
        device_index: Its index; None for threads.
        name: The model; None where not known.
        window: From its first operation to its last.
        steady: Sum over its steady steps; None where it has none.
        steady_steps: How many those are.
        step_mean_ns: Mean length of a steady step; None without.
        step_median_ns: Median; None without.
    """

    rank: int
    device_type: str
    device_index: int | None
    name: str | None
    window: States
    steady: States | None
    steady_steps: int
    step_mean_ns: int | None
    step_median_ns: int | None


@dataclass(frozen=True, slots=True)
class RankSummary:
    """Identity and status of one rank."""

    rank: int
    status: str
    host: str | None
    slices: int


@dataclass(frozen=True, slots=True)
class Summary:
    """The summary of a recording.

    Attributes:
        verdict: One sentence: what limits the step.
        findings: At most five things to do, the most time first.
        cold_starts: What the ranks' first steps cost; they are in no average.
        identity: What was run, where, with which versions.
        world_size: Ranks of the job; None where not known. The recording may hold fewer.
        ranks: The ranks in the recording.
        devices: Their devices.
        overall: Sum over the devices, whole windows.
        overall_steady: Sum over the devices' steady steps; None where there are none.
        focus_rank: The rank that stalls, kernels, ops are about: the one that stalls longest.
        stalls: Its largest groups by state, root cause and line, as in ``stall_groups``, with per_step_ns (None without
            steps).
        kernels: Its device work with most time, as in ``kernels``.
        ops: Its ops with most time on host or device, as in ``ops``.
        kernels_of: What those two are about, in words.
        memory: Peaks by device.
        collectives: Waiting and transfer over all ranks; None without collectives.
        losses: Counts of what is missing, by severity (data_loss, warning, info).
        notes: What to know to read the rest.
    """

    verdict: str
    findings: tuple[Finding, ...]
    cold_starts: tuple[ColdStart, ...]
    identity: dict[str, Any]
    world_size: int | None
    ranks: tuple[RankSummary, ...]
    devices: tuple[DeviceSummary, ...]
    overall: States
    overall_steady: States | None
    focus_rank: int | None
    stalls: tuple[dict[str, Any], ...]
    kernels: tuple[dict[str, Any], ...]
    ops: tuple[dict[str, Any], ...]
    kernels_of: str
    memory: tuple[DeviceMemory, ...]
    collectives: CollectiveSummary | None
    losses: dict[str, int]
    notes: tuple[str, ...]


def summary(recording: Recording, *, ranks: tuple[int, ...] | None = None) -> Summary:
    """The summary of a recording, or of some of its ranks.

    Steady steps only count for averages; stalls, kernels and ops are those of the steady steps where there are any, and
    of the whole recording elsewhere.
    """
    chosen = recording.ranks if ranks is None else ranks
    found = findings(recording, ranks=chosen)
    devices = _devices(recording, chosen)
    focus = max(devices, key=lambda device: device.window.stall_ns).rank if devices else next(iter(chosen), None)
    work, called = _work(recording, focus)
    steady = [device.steady for device in devices if device.steady is not None]
    return Summary(
        verdict=found.verdict,
        findings=found.findings,
        cold_starts=found.cold_starts,
        identity=recording.identity,
        world_size=recording.info.get("world_size"),
        ranks=tuple(_rank(recording, rank) for rank in chosen),
        devices=devices,
        overall=_sum([device.window for device in devices]),
        overall_steady=_sum(steady) if steady else None,
        focus_rank=focus,
        stalls=_stalls(recording, focus),
        kernels=_records(work),
        ops=_records(called),
        kernels_of=str((work if len(work) else called).attrs.get("selection", "")),
        memory=tuple(peak for rank in chosen for peak in memory_peaks(recording, rank=rank)),
        collectives=_collectives(recording),
        losses=_losses(recording, chosen),
        notes=_notes(recording, chosen, devices),
    )


def _rank(recording: Recording, rank: int) -> RankSummary:
    info = recording.rank_info(rank)
    identity = info.get("identity")
    host = identity.get("host") or identity.get("host_name") if isinstance(identity, dict) else None
    return RankSummary(rank, str(info.get("status", "unknown")), host, len(timeline(recording, rank)))


def _devices(recording: Recording, ranks: tuple[int, ...]) -> tuple[DeviceSummary, ...]:
    names = _device_names(recording, ranks)
    frame = step_breakdown(recording, ranks=ranks)
    frame = frame[frame["device_type"] != "all"]
    found = []
    for (rank, kind, index), rows in frame.groupby(["rank", "device_type", "device_index"], dropna=False, sort=False):
        steady = rows[rows["step"].notna() & (rows["phase"] == "execution") & (rows["dur"] > 0)]
        whole = rows[rows["step"].isna()]
        place = None if pd.isna(index) else int(index)
        found.append(
            DeviceSummary(
                rank=int(rank),
                device_type=str(kind),
                device_index=place,
                name=names.get((int(rank), str(kind), place)),
                window=_states(whole),
                steady=_states(steady) if len(steady) else None,
                steady_steps=len(steady),
                step_mean_ns=round(int(steady["dur"].sum()) / len(steady)) if len(steady) else None,
                step_median_ns=round(float(np.median(steady["dur"]))) if len(steady) else None,
            )
        )
    return tuple(found)


def _device_names(recording: Recording, ranks: tuple[int, ...]) -> dict[tuple[int, str, int | None], str]:
    columns = ["rank", "device_type", "device_index", "name"]
    rows = recording.table("devices", ranks=ranks, columns=columns).to_pylist()
    return {(row["rank"], row["device_type"], row["device_index"]): row["name"] for row in rows if row["name"]}


def _states(rows: pd.DataFrame) -> States:
    window, stall = int(rows["dur"].sum()), int(rows["stall_ns"].sum())
    return States(window, window - stall, stall, *(int(rows[name].sum()) for name in STATE_COLUMNS))


def _sum(parts: list[States]) -> States:
    names = States.__dataclass_fields__
    return States(*(sum(getattr(part, name) for part in parts) for name in names))


def _work(recording: Recording, rank: int | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kernels and ops of a rank; empty frames where there is no rank."""
    if rank is None:
        return pd.DataFrame(), pd.DataFrame()
    called = ops(recording, rank=rank)
    if len(called) and not int(called["device_self_ns"].sum()):
        called = called.sort_values("host_self_ns", ascending=False, kind="stable")
    return kernels(recording, rank=rank), called


def _stalls(recording: Recording, rank: int | None) -> tuple[dict[str, Any], ...]:
    """The largest groups of a rank over its steady steps, or over its windows where it has none."""
    if rank is None:
        return ()
    window, count = _steady_window(recording, rank)
    frame = stall_groups(recording, by="line", ranks=(rank,), window=window)
    if not len(frame):
        return ()
    frame = frame.sort_values("dur", ascending=False, kind="stable")
    rows = _records(frame)
    return tuple(row | {"per_step_ns": round(row["dur"] / count) if count else None} for row in rows)


def _steady_window(recording: Recording, rank: int) -> tuple[tuple[int, int] | None, int]:
    """From a rank's first steady step to the end of the last, if they are in a row, and their number."""
    from .steps import device_steps

    devices = rank_activity(recording, rank).devices
    if not devices:
        return None, 0
    cut = device_steps(recording, rank, devices[0])
    steady = np.flatnonzero(cut.steady)
    if not len(steady) or steady[-1] - steady[0] + 1 != len(steady):
        return None, 0
    return (int(cut.starts[steady[0]]), int(cut.ends[steady[-1]])), len(steady)


def _records(frame: pd.DataFrame) -> tuple[dict[str, Any], ...]:
    """The first rows as dicts of plain values; what is missing is None."""
    head = frame.head(TOP)
    rows: list[dict[str, Any]] = head.astype(object).where(head.notna(), None).to_dict("records")
    return tuple(rows)


def _collectives(recording: Recording) -> CollectiveSummary | None:
    found = collective_summary(recording)
    return found if found.parts else None


def _losses(recording: Recording, ranks: tuple[int, ...]) -> dict[str, int]:
    """How much is missing or repaired, by severity; a row without a count is one."""
    counts = {"data_loss": 0, "warning": 0, "info": 0}
    for row in recording.table("losses", ranks=ranks, columns=["severity", "count"]).to_pylist():
        counts[row["severity"]] = counts.get(row["severity"], 0) + (1 if row["count"] is None else row["count"])
    return counts


def _notes(recording: Recording, ranks: tuple[int, ...], devices: tuple[DeviceSummary, ...]) -> tuple[str, ...]:
    notes = []
    if devices and all(device.device_type == "cpu" and device.device_index is None for device in devices):
        notes.append("No device work is recorded: the training threads stand in for a device.")
    if devices and not any(device.steady_steps for device in devices):
        notes.append("No steps are marked (prof.step()), so this is about the whole recording.")
    world = recording.info.get("world_size")
    if isinstance(world, int) and world > len(recording.ranks):
        notes.append(f"{len(recording.ranks)} of {world} ranks are here: waiting for the others cannot be told apart.")
    for rank in ranks:
        status = recording.rank_info(rank).get("status")
        if status not in ("completed", None):
            notes.append(f"Rank {rank} did not complete: {status}.")
    return tuple(notes)
