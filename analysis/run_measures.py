"""What one run comes to, in numbers that another run's can be held against.

The run is the unit of every comparison (see ``run_statistics``), so all that a comparison, a budget or a history needs
of a run is kept here, in exact integers: how long its steady steps took and what they were made of, what it cost to
get there, what it held, moved and compiled. ``as_json`` makes a file of it that is small enough to commit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from ..profiler.recording.errors import FormatError
from .copies import copies
from .fallbacks import fallbacks
from .memory import memory_peaks
from .run_communication import communication
from .run_environment import environment
from .run_facts import (
    CommunicationMeasures,
    CopyMeasure,
    FallbackMeasure,
    LaneMeasures,
    MemoryMeasure,
    RunMeasures,
)
from .run_startup import compilation, spans
from .run_time_parts import lanes
from .run_work import work_tables
from .same_steps import counted
from .stall_rows import ANALYSIS_VERSION
from .steps import LEFT_OUT, host_steps

if TYPE_CHECKING:
    import pandas as pd

    from ..profiler.recording.reader import Recording

__all__ = ["RunMeasures", "as_json", "from_json", "run_measures"]

FORMAT = "stallscope run"
FORMAT_VERSION = 1

Progress = Callable[[str, float | None], None]


def run_measures(
    recording: Recording,
    *,
    name: str = "",
    ranks: tuple[int, ...] | None = None,
    tables: bool = True,
    steps: frozenset[int] | None = None,
    progress: Progress | None = None,
) -> RunMeasures:
    """The measures of one run.

    Times are those of the steady steps, as each device ran them; a recording without steady steps counts as one step,
    from each device's first operation to its last, and says so in ``unit``.

    Args:
        recording: The recording of the run.
        name: What to call the run; its label by default.
        ranks: Some of its ranks; all by default.
        steps: The numbers of the steady steps that count; by default all but one that the recording cuts off.
        tables: Whether to add the kernels, ops and lines of the steady steps; without them it takes half as long.
        progress: Told what is being worked out.

    Raises:
        UsageError: A rank is not in the recording.
    """
    told = progress or (lambda _label, _share: None)
    chosen = recording.ranks if ranks is None else ranks
    for rank in ranks or ():
        recording.attempts(rank)  # says which ranks there are if this is none of them
    label = name or str(recording.info.get("label") or recording.path.name)
    told(f"measuring {label}", None)
    recording = counted(recording, chosen, steps)
    measured = lanes(recording, chosen)
    startup = spans(recording, chosen)
    work = work_tables(recording, chosen) if tables else ((), (), ())
    losses = _losses(recording, chosen)
    status, missing = _status(recording, chosen)
    return RunMeasures(
        format=FORMAT,
        version=FORMAT_VERSION,
        analysis_version=ANALYSIS_VERSION,
        name=label,
        fingerprint=recording.fingerprint,
        created_ns=recording.info.get("created_ns"),
        status=status,
        ranks=tuple(chosen),
        world_size=recording.info.get("world_size"),
        missing_ranks=missing,
        unit=measured.unit,
        lanes=measured.lanes,
        stall_places=measured.places,
        steps_ns=measured.steps_ns,
        step_numbers=measured.numbers,
        all_steps=startup.all_steps,
        preparation_steps=startup.preparation_steps,
        cold_start_ns=startup.cold_start_ns,
        preparation_ns=startup.preparation_ns,
        execution_ns=startup.execution_ns,
        completion_ns=startup.completion_ns,
        memory=_memory(recording, chosen),
        compilation=compilation(recording, chosen),
        fallbacks=_fallbacks(recording, chosen),
        copies=_copies(recording, chosen, measured.lanes),
        communication=_communication(recording, chosen, measured.unit),
        losses=losses,
        environment=environment(recording, chosen, measured.lanes),
        kernels=work[0],
        ops=work[1],
        lines=work[2],
        left_out=_left_out(recording, chosen),
    )


def as_json(measures: RunMeasures, *, tables: bool = True) -> str:
    """The measures as JSON text, one document; ``from_json`` gives the same measures back.

    Args:
        measures: The measures.
        tables: Whether to keep kernels, ops and lines; without them it is a few kB.
    """
    kept = measures if tables else replace(measures, kernels=(), ops=(), lines=())
    return msgspec.json.format(msgspec.json.encode(kept), indent=1).decode()


def from_json(text: str | bytes, *, source: str = "the summary") -> RunMeasures:
    """The measures that ``as_json`` wrote.

    Args:
        text: The document.
        source: What to call it in an error, such as its path.

    Raises:
        FormatError: It is not such a document, or a newer version wrote it.
    """
    try:
        head = msgspec.json.decode(text, type=_Head)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FormatError(f"{source} is not the summary of a run: {error}.") from None
    if head.format != FORMAT or head.version != FORMAT_VERSION:
        raise FormatError(
            f"{source} has format {head.format!r}, version {head.version}; expected {FORMAT!r}, {FORMAT_VERSION}.",
            hint="Write it again with this version of stallscope.",
        )
    try:
        return msgspec.json.decode(text, type=RunMeasures)
    except msgspec.DecodeError as error:
        raise FormatError(f"{source}: {error}.", hint="Write it again with this version of stallscope.") from None


class _Head(msgspec.Struct):
    """What tells a summary from any other document."""

    format: str
    version: int


def _status(recording: Recording, ranks: tuple[int, ...]) -> tuple[str, int]:
    """``completed`` where every rank did, else the first other status; and how many ranks of the job are missing."""
    found = [str(recording.rank_info(rank).get("status", "unknown")) for rank in ranks]
    world = recording.info.get("world_size")
    missing = max(world - len(recording.ranks), 0) if isinstance(world, int) else 0
    return next((status for status in found if status != "completed"), "completed" if found else "unknown"), missing


def _left_out(recording: Recording, ranks: tuple[int, ...]) -> tuple[int, ...]:
    cuts = [host_steps(recording, rank) for rank in ranks]
    return tuple(
        sorted(
            {
                number
                for cut in cuts
                for number, phase in zip(cut.numbers.tolist(), cut.phases, strict=True)
                if phase == LEFT_OUT
            }
        )
    )


def _losses(recording: Recording, ranks: tuple[int, ...]) -> dict[str, int]:
    """How much is missing or repaired, by severity; a row without a count is one."""
    counts = {"data_loss": 0, "warning": 0, "info": 0}
    for row in recording.table("losses", ranks=ranks, columns=["severity", "count"]).to_pylist():
        counts[row["severity"]] = counts.get(row["severity"], 0) + (1 if row["count"] is None else row["count"])
    return counts


def _memory(recording: Recording, ranks: tuple[int, ...]) -> tuple[MemoryMeasure, ...]:
    return tuple(
        MemoryMeasure(
            peak.rank, peak.device_type, peak.device_index, peak.basis, peak.peak_allocated_bytes,
            peak.peak_reserved_bytes,
        )
        for rank in ranks
        for peak in memory_peaks(recording, rank=rank)
    )  # fmt: skip


def _fallbacks(recording: Recording, ranks: tuple[int, ...]) -> tuple[FallbackMeasure, ...]:
    """Fallbacks of the whole recording, most time first: one a place in the source, over all ranks."""
    sums: dict[tuple[str, str, str | None, int | None, str | None], list[int]] = {}
    for rank in ranks:
        for row in _rows(fallbacks(recording, rank=rank)):
            key = (row["op"], row["root_op"], row["file"], row["line"], row["function"])
            one = sums.setdefault(key, [0, 0])
            one[0] += row["count"]
            one[1] += row["host_ns"]
    found = [
        FallbackMeasure(op, root_op, count, ns, file, line, function)
        for (op, root_op, file, line, function), (count, ns) in sums.items()
    ]
    return tuple(sorted(found, key=lambda one: (-one.host_ns, one.op, one.root_op, one.file or "", one.line or 0)))


def _copies(
    recording: Recording, ranks: tuple[int, ...], measured: tuple[LaneMeasures, ...]
) -> tuple[CopyMeasure, ...]:
    """Copies of the steady steps by direction, over the ranks that have device steps."""
    sums: dict[str, list[int]] = {}
    for rank in [rank for rank in ranks if any(lane.rank == rank for lane in measured)]:
        for row in _rows(copies(recording, rank=rank)):
            one = sums.setdefault(row["direction"], [0, 0, 0, 0])
            for place, key in enumerate(("count", "bytes", "without_bytes_count", "total_ns")):
                one[place] += row[key] or 0
    return tuple(CopyMeasure(direction, *values) for direction, values in sorted(sums.items()))


def _communication(recording: Recording, ranks: tuple[int, ...], unit: str) -> CommunicationMeasures | None:
    return communication(recording, ranks, steady=unit == "step")


def _rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    head = frame.astype(object).where(frame.notna(), None)
    return [{str(key): value for key, value in row.items()} for row in head.to_dict("records")]
