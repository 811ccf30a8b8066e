"""From what was collected of one trace to the rows of every table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ...profiler.recording.ids import LARGEST_THREAD_ID, device_track_id, other_track_id, thread_track_id
from ...profiler.recording.segment import Segment
from ...profiler.recording.writer import RankWriter
from .collectives import Collectives, collectives
from .devices import device_rows, device_type
from .freed_memory import release_freed_memory
from .identity import base_time_ns, identity_of
from .launches import forward_backward, launches
from .losses import Losses
from .memory_events import memory_table
from .names import DEVICE, HOST, WORK
from .python_stacks import modules, python_stacks
from .reading import Reading
from .scanner.source import TraceSource
from .slice_table import Ids, SliceTable
from .slices import UNFINISHED, Numbers, Slices
from .steps import step_rows
from .synchronizations import synchronizations
from .track_table import process_rows, track_rows
from .tracks import Track, integer_of

Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int32]


class TraceRows:
    """One trace, read, and written as one segment of a rank.

    Args:
        path: Its file.
        source: The file's bytes, read to the end.
        reading: What was collected.
    """

    def __init__(self, path: Path, source: TraceSource, reading: Reading) -> None:
        self._path, self._source, self._reading = path, source, reading
        self.metadata = reading.metadata
        self._arrow_counts: dict[str, int] = {}

    def rank_fields(self, importer: str, version: int) -> dict[str, Any]:
        """What rank.json says of the import: the file, and its events as counted by phase."""
        return {
            "identity": identity_of(self.metadata),
            "import": {
                "file": self._path.name,
                "bytes": self._source.size,
                "sha256": self._source.sha256,
                "importer": importer,
                "version": version,
                "events": dict(sorted(self._reading.phases.items())),
                "arrows": self._arrow_counts,
            },
        }

    def write(
        self,
        writer: RankWriter,
        segment_id: int,
        *,
        guessed_rank: bool = False,
        ranks_in_file: int = 1,
        live: Segment | None = None,
    ) -> None:
        """Writes every table of the trace.

        Args:
            writer: The rank.
            segment_id: The segment's id.
            guessed_rank: Neither the trace nor its name says the rank.
            ranks_in_file: How many ranks the file holds.
            live: The segment that a running program recorded, if the file is one: its threads have known tracks.
        """
        reading = self._reading
        known = None if live is None else _live_tracks(writer, live)
        numbers = reading.tracks.settle(known)
        closed, durations, lonely_ends = reading.open_slices.finish()
        slices = reading.slices.finish(reading.pairs, reading.tracks, numbers, (closed, durations))
        release_freed_memory()
        slices.lay_out()
        release_freed_memory()
        ids = self._ids(writer, segment_id, slices)
        losses = Losses(segment_id)
        losses.add("rank_guessed", int(guessed_rank), detail=f"taken for rank {writer.rank}")
        losses.add("several_ranks_in_one_file", ranks_in_file if ranks_in_file > 1 else 0)
        kind_of_device = device_type(self.metadata, reading.pairs.raw_categories, reading.pairs.names)
        self._write_places(writer, ids, slices, kind_of_device, live)
        memory = reading.memory.finish(numbers)
        if memory.ts.size:
            first = writer.reserve_ids(memory.ts.size)
            writer.add_sorted("memory", memory_table(memory, slices, ids, first, kind_of_device))
        del memory
        release_freed_memory()
        self._write_flows(writer, ids, slices, losses)
        release_freed_memory()
        self._write_slices(writer, ids, slices)
        counters = reading.series.table(numbers, ids.track_ids, ids.base_ns)
        if counters is not None:
            writer.add_sorted("counters", counters)
        self._add_losses(losses, ids, slices, lonely_ends)
        if losses.rows:
            writer.append("losses", losses.columns())

    def _ids(self, writer: RankWriter, segment_id: int, slices: Slices) -> Ids:
        tracks = slices.tracks.all_in_order
        fresh = sum(track.track_id is None for track in tracks)
        first = writer.reserve_ids(fresh)
        track_ids = [track.track_id for track in tracks if track.track_id is not None]
        return Ids(
            rank=writer.rank,
            segment_id=segment_id,
            base_ns=base_time_ns(self.metadata),
            slice_base=writer.reserve_ids(len(slices)),
            track_ids=np.array([*track_ids, *range(first, first + fresh)], np.int64),
            stack_base=0,
            module_base=0,
        )

    def ranks_of_processes(self) -> dict[str, int]:
        """Pid as text -> the rank that the process is named after; empty unless there are several ranks."""
        return self._reading.tracks.ranks_of_processes()

    def _write_places(
        self, writer: RankWriter, ids: Ids, slices: Slices, kind_of_device: str, live: Segment | None
    ) -> None:
        """Writes segments, clocks, processes, devices, tracks and steps."""
        host = self.metadata.get("host_name")
        tracks = slices.tracks
        rows = track_rows(tracks, ids.track_ids, kind_of_device)
        writer.append("tracks", rows)
        start, end = _window(slices)
        writer.append("steps", step_rows(slices, ids))
        writer.append("devices", device_rows(self.metadata, kind_of_device, tracks.all_in_order))
        if live is not None:
            return
        writer.append("processes", process_rows(tracks, host if isinstance(host, str) else None))
        damaged = bool(self._source.damage or self._reading.damage)
        writer.append(
            "segments",
            {
                "segment_id": [ids.segment_id],
                "ts": [start + ids.base_ns],
                "dur": [end - start],
                "raw_file": [self._path.name],
                "sha256": [self._source.sha256],
                "state": ["damaged" if damaged else "converted"],
            },
        )
        writer.append(
            "clocks",
            {
                "clock_id": [writer.reserve_ids(1)],
                "ts": [start + ids.base_ns],
                "offset_ns": [ids.base_ns],
                "method": ["trace_base"],
            },
        )

    def _write_slices(self, writer: RankWriter, ids: Ids, slices: Slices) -> None:
        stacks = self._reading.stacks
        stack = python_stacks(slices, stacks)
        found, module = modules(slices)
        release_freed_memory()
        ids = Ids(
            **{name: getattr(ids, name) for name in ("rank", "segment_id", "base_ns", "slice_base", "track_ids")},
            stack_base=writer.reserve_ids(len(stacks)),
            module_base=writer.reserve_ids(len(found.names)),
        )
        writer.add_sorted("slices", SliceTable(slices, ids, stack, module).batches())
        if stacks.frames:
            base = writer.reserve_ids(len(stacks.frames))
            frames = list(stacks.frames)
            writer.append(
                "frames",
                {
                    "frame_id": np.arange(base, base + len(frames)),
                    "file": [frame[0] for frame in frames],
                    "line": [frame[1] for frame in frames],
                    "function": [frame[2] for frame in frames],
                },
            )
            writer.add_sorted("stacks", _stack_batches(stacks, ids.stack_base, base))
        if found.names:
            number = np.arange(len(found.names)) + ids.module_base
            parent = np.array(found.parents, np.int64)
            writer.append(
                "modules",
                {
                    "module_id": number,
                    "parent_id": pa.array(parent + ids.module_base, mask=parent < 0),
                    "path": found.names,
                    "class_name": found.classes,
                },
            )

    def _write_flows(self, writer: RankWriter, ids: Ids, slices: Slices, losses: Losses) -> None:
        arrows = self._reading.arrows.finish()
        self._arrow_counts = {
            "matched": len(arrows),
            "starts_without_end": arrows.unmatched_starts,
            "ends_without_start": arrows.unmatched_ends,
        }
        losses.add("flow_without_start", arrows.unmatched_ends)
        losses.add("flow_without_end", arrows.unmatched_starts)
        losses.add("repeated_flow_start", arrows.repeated_starts)
        call, operation = launches(slices, arrows)
        work = slices.pairs.device_work()
        is_work = work[slices.pair[operation]]
        losses.add("device_op_without_launch", _count(work, slices.pair) - int(np.count_nonzero(is_work)))
        early = is_work & (slices.ts[operation] < slices.ts[call])
        losses.add("device_op_before_launch", int(np.count_nonzero(early)))
        links = {"launch": (call, operation), "forward_backward": forward_backward(slices, arrows)}
        links |= synchronizations(slices, (call, operation))
        self._write_collectives(writer, ids, collectives(slices, (call, operation), self.metadata))
        table = _flow_table(links, ids.slice_base)
        if table.num_rows:
            writer.add_sorted("flows", table)

    def _write_collectives(self, writer: RankWriter, ids: Ids, found: Collectives) -> None:
        if found.groups.rows:
            first = writer.reserve_ids(len(found.groups.rows))
            writer.append("groups", found.groups.columns(first))
        if found.kind:
            writer.append("collectives", found.columns(ids, first if found.groups.rows else 0))

    def _add_losses(self, losses: Losses, ids: Ids, slices: Slices, lonely_ends: int) -> None:
        reading = self._reading
        for kind, count in sorted(reading.damage.items()):
            offset = reading.damage_offsets.get(kind)
            losses.add(kind, count, detail="" if offset is None else f"the first at byte {offset}")
        for kind, count in sorted(self._source.damage.items()):
            losses.add(kind, count)
        for kind, count in sorted(reading.lost.items()):
            losses.add(kind, count)
        losses.add("without_duration", reading.rows_of["without_duration"])
        losses.add("negative_duration", reading.slices.negative_durations)
        losses.add("zero_time_stamp", reading.slices.without_stamp)
        losses.add("end_without_begin", lonely_ends)
        unfinished = int(np.count_nonzero(slices.kind == UNFINISHED))
        losses.add("begin_without_end", unfinished - reading.rows_of["without_duration"])
        losses.add("counter_without_value", reading.series.without_value)
        beside = np.flatnonzero((slices.lane > 0) & (slices.pairs.layer[slices.pair] == WORK))
        tracks, counts = np.unique(slices.track_of(beside), return_counts=True)
        for track, count in zip(tracks.tolist(), counts.tolist(), strict=True):
            losses.add("overlapping_slices", count, track_id=int(ids.track_ids[track]))


def _window(slices: Slices) -> tuple[int, int]:
    """The first start and the last end, as in the file; (0, 0) for a trace without slices."""
    if not len(slices):
        return 0, 0
    return int(slices.ts.min()), int((slices.ts + slices.dur).max())


def _live_tracks(writer: RankWriter, live: Segment) -> Any:
    """The id of a track that other segments, or the running program's own collectors, write to as well."""
    taken: set[int] = set()

    def known_id(track: Track) -> int | None:
        process, thread = integer_of(track.process), integer_of(track.thread)
        place = json.dumps([track.process, track.thread, track.side])
        start = writer.rank, writer.attempt
        if track.side == DEVICE:
            found = device_track_id(*start, track.device, track.stream, place)
        elif (
            track.side == HOST and process == live.process_id and thread is not None and 0 < thread <= LARGEST_THREAD_ID
        ):
            found = thread_track_id(*start, thread)
        else:
            found = other_track_id(*start, place)
        if found in taken:
            return None
        taken.add(found)
        return found

    return known_id


def _stack_batches(stacks: Any, stack_base: int, frame_base: int) -> Any:
    first = stack_base
    for length, frames in stacks.paths():
        offsets = np.concatenate(([0], np.cumsum(length))).astype(np.int32)
        lists = pa.ListArray.from_arrays(pa.array(offsets), pa.array(frames + frame_base))
        yield pa.table({"stack_id": np.arange(first, first + length.size), "frame_ids": lists})
        first += length.size


def _count(flags: npt.NDArray[np.bool_], codes: Numbers) -> int:
    """How many of the codes are flagged."""
    return int(np.bincount(codes, minlength=flags.size)[flags].sum())


def _flow_table(links: dict[str, tuple[Rows, Rows]], slice_base: int) -> pa.Table:
    """The rows of ``flows`` in their order."""
    source = np.concatenate([link[0] for link in links.values()])
    target = np.concatenate([link[1] for link in links.values()])
    code = np.repeat(np.arange(len(links), dtype=np.int32), [link[0].size for link in links.values()])
    order = np.lexsort((target, source))
    return pa.table(
        {
            "from_slice_id": source[order].astype(np.int64) + slice_base,
            "to_slice_id": target[order].astype(np.int64) + slice_base,
            "kind": pa.DictionaryArray.from_arrays(pa.array(code[order]), pa.array(list(links))),
        }
    )
