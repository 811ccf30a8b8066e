"""What a recording comes to, on one screen: what its steps are made of, why the devices waited, what to do.

Assembles the answers of the other modules; works out nothing itself. ``Summary`` is what ``stallscope summary`` and the
browser show, and ``summary_document`` what ``--json`` writes: a key keeps its name and meaning (docs/cli.md).
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd

from ..profiler.recording.errors import UsageError
from .causes import CAUSES
from .collective_totals import CollectiveSummary, collective_summary, collective_totals
from .device_activity import rank_activity
from .finding_texts import duration_text
from .findings import Findings, findings
from .kernels import kernels
from .memory import memory_peaks
from .ops import ops
from .stall_groups import stall_groups
from .step_breakdown import STATE_COLUMNS, step_breakdown
from .steps import device_steps
from .summary_parts import DeviceSummary, Part, RankSummary, States, Summary, Window
from .timeline import timeline

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

TOP = 5
"""Rows of each list of the summary."""


def summary(
    recording: Recording,
    *,
    ranks: tuple[int, ...] | None = None,
    step: int | None = None,
    window: Window | None = None,
) -> Summary:
    """The summary of a recording, or of a part of it.

    Steady steps only count for averages; stalls, kernels and ops are those of the steady steps where there are any, and
    of the whole recording elsewhere.

    Args:
        recording: The recording.
        ranks: Some of its ranks; all by default.
        step: One step, as each device ran it.
        window: ``(start, end)`` in ns.

    Raises:
        UsageError: Both a step and a window are given, or a rank lacks the step.
    """
    chosen = recording.ranks if ranks is None else ranks
    part = Part(step, window)
    breakdown = _breakdown(recording, chosen, part)
    devices = _devices(recording, chosen, breakdown, part)
    found = findings(recording, ranks=chosen) if part.is_everything else None
    waits = _collectives(recording)
    focus = _focus(chosen, devices, found, waits)
    work, called = _work(recording, focus, part)
    steady = [device.steady for device in devices if device.steady is not None]
    members = tuple(_rank(recording, rank, breakdown) for rank in chosen)
    stalled = _stalls(recording, focus, part)
    return Summary(
        verdict=found.verdict if found else _verdict_of_part(part, members, stalled),
        part=part.words,
        findings=found.findings if found else (),
        cold_starts=found.cold_starts if found else (),
        identity=recording.identity,
        world_size=recording.info.get("world_size"),
        ranks=members,
        devices=devices,
        overall=_sum([member.window for member in members]),
        overall_steady=_sum(steady) if steady else None,
        focus_rank=focus,
        stalls=stalled,
        kernels=_records(work),
        ops=_records(called),
        kernels_of=str((work if len(work) else called).attrs.get("selection", "")),
        memory=tuple(peak for rank in chosen for peak in memory_peaks(recording, rank=rank)),
        collectives=waits,
        waits_of_rank=_waits(recording, "rank"),
        waits_for_rank=_waits(recording, "peer"),
        losses=_losses(recording, chosen),
        notes=_notes(recording, chosen, devices, part),
    )


def summary_document(found: Summary) -> dict[str, Any]:
    """The summary as ``--json`` writes it: ranks, devices and overall hold their states themselves."""
    document = asdict(found)
    document["ranks"] = [_flat(row) for row in document["ranks"]]
    document["devices"] = [_flat(row) for row in document["devices"]]
    return document


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """The states of the window in the place of ``window``."""
    flat: dict[str, Any] = {}
    for key, value in row.items():
        flat |= value if key == "window" else {key: value}
    return flat


def _breakdown(recording: Recording, ranks: tuple[int, ...], part: Part) -> pd.DataFrame:
    """``step_breakdown`` of the ranks; of a step only its rows, as if they were of the whole window.

    Raises:
        UsageError: No rank has the step.
    """
    frame = step_breakdown(recording, ranks=ranks, window=part.window)
    if part.step is None:
        return frame
    rows = frame[frame["step"] == part.step]
    if not len(rows):
        known = ", ".join(str(n) for n in frame["step"].dropna().unique()) or "none"
        raise UsageError(f"no step {part.step} is in the recording; it has steps {known}.")
    return rows.assign(step=pd.array([None] * len(rows), dtype="Int64"))


def _focus(
    ranks: tuple[int, ...],
    devices: tuple[DeviceSummary, ...],
    found: Findings | None,
    waits: CollectiveSummary | None,
) -> int | None:
    """The rank to look at: the one that is waited for if that is the first finding, else the one that stalls most."""
    if found and found.findings and found.findings[0].kind == "wait_for_peer" and waits and waits.peer in ranks:
        return waits.peer
    return max(devices, key=lambda device: device.window.stall_ns).rank if devices else next(iter(ranks), None)


def _verdict_of_part(part: Part, ranks: tuple[RankSummary, ...], stalled: tuple[dict[str, Any], ...]) -> str:
    """One sentence on a step or window: how long nothing ran, and what most of that was for."""
    total = sum(rank.window.window_ns for rank in ranks)
    stall = sum(rank.window.stall_ns for rank in ranks)
    if not total:
        return f"Nothing ran on a device in {part.words}."
    verdict = f"{part.words[0].upper()}{part.words[1:]}: the device is without work for {stall / total:.0%} of it"
    waits = [row for row in stalled if row["state"] == "stall"]
    if not waits or not stall:
        return f"{verdict}."
    longest = waits[0]
    return f"{verdict}; most of that, {duration_text(longest['dur'])}: {CAUSES[longest['root_cause']]}."


def _rank(recording: Recording, rank: int, breakdown: pd.DataFrame) -> RankSummary:
    info = recording.rank_info(rank)
    identity = info.get("identity")
    host = identity.get("host") or identity.get("host_name") if isinstance(identity, dict) else None
    mine = breakdown[(breakdown["rank"] == rank) & breakdown["step"].isna()]
    together = mine[mine["device_type"] == "all"]
    window = _states(together if len(together) else mine)
    return RankSummary(rank, str(info.get("status", "unknown")), host, len(timeline(recording, rank)), window)


def _devices(
    recording: Recording, ranks: tuple[int, ...], breakdown: pd.DataFrame, part: Part
) -> tuple[DeviceSummary, ...]:
    names = _device_names(recording, ranks)
    frame = breakdown[breakdown["device_type"] != "all"]
    found = []
    for _, rows in frame.groupby(["rank", "device_type", "device_index"], dropna=False, sort=False):
        steady = rows[rows["step"].notna() & (rows["phase"] == "execution") & (rows["dur"] > 0)]
        whole = rows[rows["step"].isna()]
        rank, kind, index = (rows[name].iloc[0] for name in ("rank", "device_type", "device_index"))
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


def _work(recording: Recording, rank: int | None, part: Part) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Kernels and ops of a rank; empty frames where there is no rank."""
    if rank is None:
        return pd.DataFrame(), pd.DataFrame()
    called = ops(recording, rank=rank, step=part.step, window=part.window)
    if len(called) and not int(called["device_self_ns"].sum()):
        called = called.sort_values("host_self_ns", ascending=False, kind="stable")
    return kernels(recording, rank=rank, step=part.step, window=part.window), called


def _stalls(recording: Recording, rank: int | None, part: Part) -> tuple[dict[str, Any], ...]:
    """The largest groups of a rank over the part, its steady steps, or its windows where it has none."""
    if rank is None:
        return ()
    count = _steady_steps(recording, rank) if part.is_everything else 0
    frame = stall_groups(
        recording, by="line", ranks=(rank,), step=part.step, window=part.window, steady=count > 0
    )  # fmt: skip
    if not len(frame):
        return ()
    frame = frame.sort_values("dur", ascending=False, kind="stable")
    rows = _records(frame)
    return tuple(row | {"per_step_ns": round(row["dur"] / count) if count else None} for row in rows)


def _steady_steps(recording: Recording, rank: int) -> int:
    """How many steady steps a rank's first device has."""
    devices = rank_activity(recording, rank).devices
    return device_steps(recording, rank, devices[0]).steady.count(True) if devices else 0


def _records(frame: pd.DataFrame) -> tuple[dict[str, Any], ...]:
    """The first rows as dicts of plain values; what is missing is None."""
    head = frame.head(TOP)
    rows = head.astype(object).where(head.notna(), None).to_dict("records")
    return tuple({str(key): value for key, value in row.items()} for row in rows)


def _collectives(recording: Recording) -> CollectiveSummary | None:
    found = collective_summary(recording)
    return found if found.parts else None


def _waits(recording: Recording, by: Literal["rank", "peer"]) -> dict[int, int]:
    """How long each rank waited in collectives, or was waited for; only what is known and not nothing."""
    frame = collective_totals(recording, by=by)
    frame = frame[frame[by].notna() & frame["wait_for_peer_ns"].notna()]
    return {int(rank): int(ns) for rank, ns in zip(frame[by], frame["wait_for_peer_ns"], strict=True) if ns > 0}


def _losses(recording: Recording, ranks: tuple[int, ...]) -> dict[str, int]:
    """How much is missing or repaired, by severity; a row without a count is one."""
    counts = {"data_loss": 0, "warning": 0, "info": 0}
    for row in recording.table("losses", ranks=ranks, columns=["severity", "count"]).to_pylist():
        counts[row["severity"]] = counts.get(row["severity"], 0) + (1 if row["count"] is None else row["count"])
    return counts


def _notes(
    recording: Recording, ranks: tuple[int, ...], devices: tuple[DeviceSummary, ...], part: Part
) -> tuple[str, ...]:
    notes = []
    if devices and all(device.device_type == "cpu" and device.device_index is None for device in devices):
        notes.append("No device work is recorded: the training threads stand in for a device.")
    if devices and part.is_everything and not any(device.steady_steps for device in devices):
        notes.append("No steps are marked (prof.step()), so this is about the whole recording.")
    world = recording.info.get("world_size")
    here = len(recording.ranks)
    if isinstance(world, int) and world > here:
        verb = "is" if here == 1 else "are"
        notes.append(f"{here} of {world} ranks {verb} in the recording.")
    for rank in ranks:
        status = recording.rank_info(rank).get("status")
        if status not in ("completed", None):
            notes.append(f"Rank {rank} did not complete: {status}.")
    return tuple(notes)
