"""Collectives, as the program calls them: kind, group, sequence number, bytes, peers; the wait as part of the slice.

Calls from Python are wrapped at the process group (``torch.distributed``'s functions all end there; what torch.compile
traces never does). Calls from C++, such as the buckets of DistributedDataParallel, come from torch's flight recorder,
with the instant at which they were enqueued. Its numbers count collectives alone, so they are the same on every rank.
Backends whose collectives torch's own profiler describes (NCCL and those like it) are left to it while it runs; for
the others conversion joins what is noted here to torch's slices (recording.collective_notes).
"""

from __future__ import annotations

import os
import sys
import threading
from collections import deque
from dataclasses import dataclass, replace
from typing import Any

from ...profiler.recording.captured_rows import OpenSlice
from ...profiler.recording.collective_notes import Note, append_notes
from ...profiler.recording.collector import CaptureContext
from ...profiler.recording.segment import RAW, Segment
from .collective_calls import KINDS, POINT_TO_POINT, Call, describe
from .flight_recorder import ENTRIES, VARIABLE, Entry, entries_after
from .patching import Patches

DESCRIBED_BY_TORCH = ("nccl", "rccl", "xccl", "hccl")
"""Backends that write ``record_param_comms`` into the trace."""

DTYPES = {
    "Float": "float32", "Double": "float64", "Half": "float16", "BFloat16": "bfloat16", "Long": "int64", "Int": "int32",
    "Short": "int16", "Char": "int8", "Byte": "uint8", "Bool": "bool",
}  # fmt: skip
"""Element types as the flight recorder names them -> as torch does."""

READ_EVERY = 5
SYNCHRONOUS_NS = 200_000
"""A wait that begins this soon after the call belongs to it: torch.distributed waits itself unless asked not to."""

_WAITING = 4096


@dataclass(frozen=True, slots=True)
class Finished:
    """A call from Python that has returned.

    Attributes:
        opened: Its slice.
        end: When it returned [ns].
        call: What it was.
        group: The process group.
        traced: Whether torch's profiler ran.
        group_number: The group's own count of calls, sends included; for where there is no flight recorder.
    """

    opened: OpenSlice
    end: int
    call: Call
    group: Any
    traced: bool
    group_number: int | None


class CollectivesCollector:
    """Writes ``collectives`` and ``groups``, and a slice for each call."""

    name = "collectives"
    details = ("always", "low", "normal", "deep")
    needs = ("torch", "torch.distributed")

    def __init__(self) -> None:
        self._patches: Patches | None = None
        self._groups: dict[str, int] = {}
        self._waiting: dict[int, Finished] = {}
        self._finished: deque[Finished] = deque()
        self._record = -1
        self._ticks = 0
        self._set_variable = False
        self._lock = threading.Lock()

    def available(self) -> str | None:
        """Where torch is built with distributed."""
        import torch.distributed

        return None if torch.distributed.is_available() else "this torch is built without distributed"

    def start(self, context: CaptureContext) -> None:
        """Wraps the process group, and turns the flight recorder on for groups that are made from now on."""
        from torch._C._distributed_c10d import ProcessGroup, Work

        self._context = context
        if VARIABLE not in os.environ:
            os.environ[VARIABLE] = str(ENTRIES)
            self._set_variable = True
        self._patches = Patches(context, self.name)
        for method in KINDS:
            self._patches.around(ProcessGroup, method, self._begin(method), self._end)
        self._patches.around(Work, "wait", self._wait_begins, self._wait_ends)
        last = self._entries()
        self._record = last[-1].record if last else -1

    def stop(self) -> None:
        """Takes the wrappers off and writes what is left."""
        if self._patches is not None:
            self._patches.remove()
        if self._set_variable:
            os.environ.pop(VARIABLE, None)
        self._finish_waiting(0)
        self._write()

    def on_tick(self) -> None:
        """Writes calls that nobody waited for, and what C++ has enqueued."""
        self._ticks += 1
        if self._ticks % READ_EVERY == 0:
            self._finish_waiting(1_000_000_000)
            self._write()

    def on_segment(self, _segment: Segment) -> None:
        """The trace so far is about to be converted: what belongs to it must be noted by then."""
        self._finish_waiting(0)
        self._write()

    def _was_traced(self, ts: int) -> bool:
        """Whether torch's profiler ran then; entries are written before a further segment ends."""
        since = self._context.torch_recording_since
        begin, end = self._context.torch_recorded
        return begin <= ts < end or (since is not None and ts >= since)

    # ---- calls from Python

    def _begin(self, method: str) -> Any:
        def begin(arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
            group = arguments[0]
            if self._described_by_torch(group):
                return None
            self._group(group)
            call = describe(method, arguments[1:])
            if call.peer is not None:
                ranks = _ranks(group)
                call = replace(call, peer=ranks[call.peer] if ranks else call.peer)
            rows = self._context.rows
            return rows.begin(call.kind, "collective", rows.stack_here(2)), group, call

        return begin

    def _described_by_torch(self, group: Any) -> bool:
        return (
            self._context.torch_recording_since is not None
            and str(group._get_backend_name()).lower() in DESCRIBED_BY_TORCH
        )

    def _end(self, token: tuple[OpenSlice, Any, Call], result: Any, _error: BaseException | None) -> None:
        opened, group, call = token
        finished = Finished(
            opened, self._context.rows.leave(opened), call, group, self._context.torch_recording_since is not None,
            None if call.kind in POINT_TO_POINT else _sequence_number(group),
        )  # fmt: skip
        with self._lock:
            if result is not None and len(self._waiting) < _WAITING:
                self._waiting[id(result)] = finished
                return
        self._finish(finished, finished.end)

    def _wait_begins(self, arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
        with self._lock:
            called = self._waiting.pop(id(arguments[0]), None)
        if called is None:
            return None
        rows = self._context.rows
        if rows.now() - called.end < SYNCHRONOUS_NS and called.opened.thread_id == threading.get_native_id():
            return called
        self._finish(called, called.end)
        return rows.begin(f"wait for {called.call.kind}", "synchronization", rows.stack_here(2))

    def _wait_ends(self, token: Any, _result: Any, _error: BaseException | None) -> None:
        rows = self._context.rows
        if isinstance(token, OpenSlice):
            rows.end(token)
        else:
            self._finish(token, rows.now())

    def _finish(self, called: Finished, end: int) -> None:
        """Writes the slice; the row waits for the number that the flight recorder has for it."""
        call = called.call
        self._context.rows.write(
            called.opened, end, bytes=call.in_bytes if call.in_bytes is not None else call.out_bytes
        )  # fmt: skip
        self._finished.append(called)

    def _finish_waiting(self, older_than_ns: int) -> None:
        now = self._context.rows.now()
        with self._lock:
            due = [key for key, waiting in self._waiting.items() if now - waiting.end >= older_than_ns]
            taken = [self._waiting.pop(key) for key in due]
        for called in taken:
            self._finish(called, called.end)

    # ---- groups

    def _group(self, group: Any) -> int:
        name = str(group.group_name)
        if name not in self._groups:
            self._groups[name] = self._context.rows.group_id()
            self._context.rows.append(
                "groups", group_id=self._groups[name], name=name, description=str(group.group_desc) or None,
                ranks=_ranks(group), kind=_kind_of_group(str(group.group_desc)),
            )  # fmt: skip
        return self._groups[name]

    # ---- calls from C++

    def _entries(self) -> list[Entry]:
        """Also after the program has destroyed its groups: the recorder outlives them."""
        return entries_after(self._record)

    def _write(self) -> None:
        """Writes all calls so far, each with its number from the recorder; and those that only the recorder saw."""
        entries = self._new_entries()
        calls: list[Finished] = []
        while self._finished:
            calls.append(self._finished.popleft())
        notes: list[Note] = []
        for called in sorted(calls, key=lambda called: called.opened.ts):
            entry = _entry_of(called, entries)
            number = called.group_number
            if entry is not None:
                entries.remove(entry)
                number = entry.sequence
            self._add(self._note_of_call(called, number), called.traced, notes)
        groups = _groups_by_name() if entries else {}
        for entry in entries:
            backend, _colon, kind = entry.name.partition(":")
            traced = self._was_traced(entry.ts)
            if not entry.is_p2p and not (traced and backend in DESCRIBED_BY_TORCH):
                self._add(self._note_of_entry(entry, kind or entry.name, groups.get(entry.group)), traced, notes)
        if notes:
            append_notes(self._context.folder / RAW, notes)

    def _add(self, note: Note, traced: bool, notes: list[Note]) -> None:
        """While torch traces, its slice of the collective will be the row; else ours is."""
        if traced:
            notes.append(note)
        else:
            self._context.rows.append("collectives", **note.row())

    def _new_entries(self) -> list[Entry]:
        entries = self._entries()
        if not entries:
            return []
        missed = entries[0].record - self._record - 1
        self._record = entries[-1].record
        if missed > 0:
            self._context.loss(
                self.name, "collectives_missed", "data_loss", count=missed, ts=entries[0].ts,
                detail="more collectives than torch's flight recorder keeps between two looks",
            )  # fmt: skip
        return entries

    def _note_of_call(self, called: Finished, number: int | None) -> Note:
        call = called.call
        return Note(
            call.kind, called.opened.ts, called.opened.slice_id, self._group(called.group), number, call.in_bytes,
            call.out_bytes, call.dtype, call.peer,
        )  # fmt: skip

    def _note_of_entry(self, entry: Entry, kind: str, group: Any) -> Note:
        slice_id = self._context.rows.slice(
            kind, "collective", entry.ts, 0, kind="instant", thread_id=_main_thread_id(), bytes=entry.in_bytes,
        )  # fmt: skip
        known = self._groups.get(entry.group)
        return Note(
            kind, entry.ts, slice_id, self._group(group) if known is None and group is not None else known,
            entry.sequence,
            entry.in_bytes, entry.out_bytes, DTYPES.get(entry.dtype or "", entry.dtype), None,
        )  # fmt: skip


def _entry_of(called: Finished, entries: list[Entry]) -> Entry | None:
    """The recorder's entry that was made inside the call, on its group."""
    name = str(called.group.group_name)
    for entry in entries:
        if entry.group == name and called.opened.ts <= entry.ts <= called.end:
            return entry
    return None


def _sequence_number(group: Any) -> int | None:
    """None for a group of several backends (``cpu:gloo,cuda:nccl``, which is also the default): it has no number."""
    try:
        return int(group._get_sequence_number_for_group())
    except RuntimeError:
        return None


def _ranks(group: Any) -> list[int] | None:
    distributed = sys.modules["torch.distributed"]
    try:
        return list(distributed.get_process_group_ranks(group))
    except (KeyError, RuntimeError, ValueError):
        return None


def _groups_by_name() -> dict[str, Any]:
    world = sys.modules["torch.distributed"].distributed_c10d._world
    return {str(name): group for group, name in world.pg_names.items()}


def _kind_of_group(description: str) -> str:
    """dp, fsdp, tp, pp, ep or other, from the description that frameworks give their groups."""
    text = description.lower()
    for kind, words in (
        ("fsdp", ("fsdp", "shard")), ("pp", ("pipeline", "pp")), ("ep", ("expert", "ep")),
        ("tp", ("tensor_parallel", "tp")), ("dp", ("data_parallel", "replicate", "dp", "ddp")),
    ):  # fmt: skip
        if any(
            word in text.replace("mesh_", "").split("_") or word in (text if len(word) > 2 else "") for word in words
        ):
            return kind
    return "other"


def _main_thread_id() -> int:
    return threading.main_thread().native_id or 0
