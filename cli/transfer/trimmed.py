"""A recording of only a part of the time, with everything that this part refers to.

Slices are kept whole: those that overlap the window, the slices at the other end of their arrows (a kernel's launch may
lie long before it), and whatever contains any of these. Ids stay as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ...profiler.recording.schema import TABLES
from ...profiler.recording.writer import RankWriter, RecordingWriter

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording

Ids = npt.NDArray[np.int64]

WHOLE_TABLES = ("processes", "devices", "clocks", "segments", "tracks", "groups", "modules", "sources")
"""Small tables that say what other rows mean; kept as they are."""

_OWN_FIELDS = frozenset(
    {"rank", "attempt", "run_id", "schema_version", "status", "started_ns", "ended_ns", "heartbeat_ns", "writer"}
)
"""Fields of rank.json that say who wrote these files, which is the trimmed recording's own business."""


@dataclass(frozen=True, slots=True)
class Part:
    """What to keep of a rank.

    Attributes:
        window: Half-open, ns.
        step: Keep this step's rows of ``steps``, and no other step's; None: every step that lies inside the window.
    """

    window: tuple[int, int]
    step: int | None = None


def trim_recording(
    recording: Recording, parts: Mapping[int, Part], output: Path, *, force: bool = False
) -> dict[str, int]:
    """Writes a recording of a part of each rank; returns the rows of each table.

    Args:
        recording: Where from.
        parts: Rank -> what to keep of it.
        output: The folder to write.
        force: Replace a recording that is there.

    Raises:
        CaptureError: The output cannot be written, or holds something else.
    """
    rows: dict[str, int] = {}
    info = recording.info
    with RecordingWriter.create(
        output,
        label=info.get("label"),
        world_size=info.get("world_size"),
        settings=info.get("settings"),
        identity=recording.identity,
        force=force,
    ) as writer:
        for rank, part in sorted(parts.items()):
            with writer.rank(rank) as rank_writer:
                for name, table in _kept(recording, rank, part):
                    rank_writer.append(name, table)
                    rows[name] = rows.get(name, 0) + table.num_rows
                _close(rank_writer, recording.rank_info(rank), part)
    return rows


def _close(writer: RankWriter, source: dict[str, Any], part: Part) -> None:
    kept = {key: value for key, value in source.items() if key not in _OWN_FIELDS}
    status = "failed" if source.get("status") == "failed" else "completed"
    origin = {"window_ns": list(part.window), "step": part.step, "status": source.get("status")}
    writer.close(status, **kept, trimmed_from=origin)


def _kept(recording: Recording, rank: int, part: Part) -> list[tuple[str, pa.Table]]:
    """Every table's rows of a part of a rank."""
    flows = recording.table("flows", ranks=rank)
    slices = _slices(recording, rank, part, flows)
    ids = slices["slice_id"].to_numpy()
    memory = recording.table("memory", ranks=rank, window=part.window)
    samples = recording.table("samples", ranks=rank, window=part.window)
    collectives = recording.table("collectives", ranks=rank)
    stacks = _stacks(recording, rank, slices, memory, samples)
    return [
        *((name, recording.table(name, ranks=rank)) for name in WHOLE_TABLES),
        ("slices", slices),
        ("flows", flows.filter(_both(_is_among(flows["from_slice_id"], ids), _is_among(flows["to_slice_id"], ids)))),
        ("collectives", collectives.filter(_of_slices(collectives, ids))),
        ("memory", memory),
        ("samples", samples),
        ("counters", _counters(recording, rank, part.window)),
        ("stacks", stacks),
        ("frames", _frames(recording, rank, stacks)),
        ("steps", _steps(recording, rank, part)),
        ("losses", _losses(recording, rank, part.window)),
    ]


def _slices(recording: Recording, rank: int, part: Part, flows: pa.Table) -> pa.Table:
    inside = recording.table("slices", ranks=rank, window=part.window, columns=["slice_id"])["slice_id"].to_numpy()
    every = recording.table("slices", ranks=rank)
    ids = every["slice_id"].to_numpy()
    parents = dict(zip(ids.tolist(), every["parent_id"].to_pylist(), strict=True))
    source, target = flows["from_slice_id"].to_numpy(), flows["to_slice_id"].to_numpy()
    touches = np.isin(source, inside) | np.isin(target, inside)
    wanted = set(np.concatenate([inside, source[touches], target[touches]]).tolist())
    for slice_id in list(wanted):
        parent = parents.get(slice_id)
        while parent is not None and parent not in wanted:
            wanted.add(parent)
            parent = parents.get(parent)
    return every.filter(pa.array(np.isin(ids, np.fromiter(wanted, np.int64, len(wanted)))))


def _stacks(recording: Recording, rank: int, *users: pa.Table) -> pa.Table:
    used = [table["stack_id"].drop_null().to_numpy() for table in users]
    stacks = recording.table("stacks", ranks=rank)
    return stacks.filter(_is_among(stacks["stack_id"], np.concatenate(used)))


def _frames(recording: Recording, rank: int, stacks: pa.Table) -> pa.Table:
    frames = recording.table("frames", ranks=rank)
    used = pc.list_flatten(stacks["frame_ids"]).to_numpy()
    return frames.filter(_is_among(frames["frame_id"], used))


def _counters(recording: Recording, rank: int, window: tuple[int, int]) -> pa.Table:
    """The values in the window, and of each counter the last before it, which holds until the next."""
    every = recording.table("counters", ranks=rank)
    track, ts = every["track_id"].to_numpy(), every["ts"].to_numpy()
    keep = (ts >= window[0]) & (ts < window[1])
    before = np.flatnonzero(ts < window[0])
    before = before[np.lexsort((ts[before], track[before]))]
    last = np.append(track[before][1:] != track[before][:-1], True) if len(before) else np.zeros(0, bool)
    keep[before[last]] = True
    return every.filter(pa.array(keep))


def _steps(recording: Recording, rank: int, part: Part) -> pa.Table:
    steps = recording.table("steps", ranks=rank)
    if part.step is not None:
        return steps.filter(pc.equal(steps["step"], part.step))
    ends = pc.add(steps["ts"], steps["dur"])
    inside = pc.and_(pc.greater_equal(steps["ts"], part.window[0]), pc.less_equal(ends, part.window[1]))
    return steps.filter(inside)


def _losses(recording: Recording, rank: int, window: tuple[int, int]) -> pa.Table:
    """The losses at no time or in the window, and one that says that the rest was left out."""
    losses = recording.table("losses", ranks=rank)
    ts = losses["ts"]
    reaches = pc.greater_equal(pc.add(ts, pc.fill_null(losses["dur"], 0)), window[0])
    timely = pc.and_(reaches, pc.less(ts, window[1]))
    own = {
        "rank": rank,
        "collector": "trim",
        "kind": "trimmed",
        "severity": "info",
        "ts": window[0],
        "dur": window[1] - window[0],
        "detail": "only this part of the original recording is here",
    }
    kept = losses.filter(pc.or_kleene(pc.is_null(ts), timely))
    note = pa.Table.from_pylist([own], schema=TABLES["losses"].schema)
    return pa.concat_tables([kept.cast(note.schema), note]).unify_dictionaries()


def _of_slices(collectives: pa.Table, ids: Ids) -> pa.ChunkedArray:
    host = _is_among(collectives["slice_id"], ids)
    return pc.or_(host, _is_among(collectives["device_slice_id"], ids))


def _is_among(column: pa.ChunkedArray, ids: Ids) -> pa.ChunkedArray:
    return pc.is_in(column, value_set=pa.array(ids, pa.int64()), skip_nulls=True)


def _both(left: pa.ChunkedArray, right: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.and_(left, right)
