"""Collectives, as the program calls them: kind, group, sequence number, bytes, peers; the wait as part of the slice.

Calls from Python are wrapped at the process group (``torch.distributed``'s functions all end there; what torch.compile traces
never does). Calls from C++, such as the buckets of DistributedDataParallel, come from torch's flight recorder, with the
instant at which they were enqueued. Backends whose collectives torch's own profiler describes (NCCL and those like it) are
left to it while it runs.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from ...profiler.recording.captured_rows import OpenSlice
from ...profiler.recording.collector import CaptureContext
from .collective_calls import KINDS, POINT_TO_POINT, Call, describe
from .flight_recorder import ENTRIES, VARIABLE, Entry, entries_after
from .patching import Patches

DESCRIBED_BY_TORCH = ("nccl", "rccl", "xccl", "hccl")
"""Backends that write ``record_param_comms`` into the trace."""

READ_EVERY = 5
SYNCHRONOUS_NS = 200_000
"""A wait that begins this soon after the call belongs to the call: torch.distributed waits itself unless asked not to."""

_WAITING = 4096


class CollectivesCollector:
    """Writes ``collectives`` and ``groups``, and a slice for each call."""

    name = "collectives"
    details = ("always", "low", "normal", "deep")
    needs = ("torch", "torch.distributed")

    def __init__(self) -> None:
        self._patches: Patches | None = None
        self._groups: dict[str, int] = {}
        self._called: set[tuple[str, int]] = set()
        self._waiting: dict[int, tuple[OpenSlice, int, Call, dict[str, Any]]] = {}
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
        self._write_waiting(0)
        self._read_recorder()

    def on_tick(self) -> None:
        """Writes calls that nobody waited for, and what C++ has enqueued."""
        self._ticks += 1
        if self._ticks % READ_EVERY == 0:
            self._write_waiting(1_000_000_000)
            self._read_recorder()

    # ---- calls from Python

    def _begin(self, method: str) -> Any:
        def begin(arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
            group = arguments[0]
            if self._described_by_torch(group):
                return None
            call = describe(method, arguments[1:])
            rows = self._context.rows
            return rows.begin(call.kind, "collective", rows.stack_here(2)), group, call

        return begin

    def _described_by_torch(self, group: Any) -> bool:
        return self._context.torch_recording and str(group._get_backend_name()).lower() in DESCRIBED_BY_TORCH

    def _end(self, token: tuple[OpenSlice, Any, Call], result: Any, _error: BaseException | None) -> None:
        opened, group, call = token
        end = self._context.rows.leave(opened)
        named: dict[str, Any] = {"group_id": self._group(group), "sequence_number": None, "peer_rank": None}
        if call.kind in POINT_TO_POINT:
            ranks = _ranks(group)
            named["peer_rank"] = ranks[call.peer] if ranks and call.peer is not None else call.peer
        else:
            named["sequence_number"] = group._get_sequence_number_for_group()
            self._called.add((str(group.group_name), named["sequence_number"]))
        with self._lock:
            if result is not None and len(self._waiting) < _WAITING:
                self._waiting[id(result)] = (opened, end, call, named)
                return
        self._write(opened, end, call, named)

    def _wait_begins(self, arguments: tuple[Any, ...], _named: dict[str, Any]) -> Any:
        with self._lock:
            called = self._waiting.pop(id(arguments[0]), None)
        if called is None:
            return None
        opened, end, call, named = called
        rows = self._context.rows
        if rows.now() - end < SYNCHRONOUS_NS and opened.thread_id == threading.get_native_id():
            return called
        self._write(opened, end, call, named)
        return rows.begin(f"wait for {call.kind}", "synchronization", rows.stack_here(2))

    def _wait_ends(self, token: Any, _result: Any, _error: BaseException | None) -> None:
        rows = self._context.rows
        if isinstance(token, OpenSlice):
            rows.end(token)
            return
        opened, _end, call, named = token
        self._write(opened, rows.now(), call, named)

    def _write(self, opened: OpenSlice, end: int, call: Call, named: dict[str, Any]) -> None:
        rows = self._context.rows
        slice_id = rows.write(opened, end, bytes=call.in_bytes if call.in_bytes is not None else call.out_bytes)
        rows.append(
            "collectives", slice_id=slice_id, kind=call.kind, in_bytes=call.in_bytes, out_bytes=call.out_bytes,
            dtype=call.dtype, **named,
        )  # fmt: skip

    def _write_waiting(self, older_than_ns: int) -> None:
        now = self._context.rows.now()
        with self._lock:
            due = [key for key, waiting in self._waiting.items() if now - waiting[1] >= older_than_ns]
            taken = [self._waiting.pop(key) for key in due]
        for opened, end, call, named in taken:
            self._write(opened, end, call, named)

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
        distributed = sys.modules["torch.distributed"]
        return entries_after(self._record) if distributed.is_initialized() else []

    def _read_recorder(self) -> None:
        """Writes what the flight recorder has and no wrapper saw."""
        entries = self._entries()
        if not entries:
            return
        missed = entries[0].record - self._record - 1
        self._record = entries[-1].record
        if missed > 0:
            self._context.loss(self.name, "collectives_missed", "data_loss", count=missed, ts=entries[0].ts,
                               detail="more collectives than torch's flight recorder keeps between two looks")  # fmt: skip
        groups = _groups_by_name()
        for entry in entries:
            backend, _colon, kind = entry.name.partition(":")
            known = (entry.group, entry.sequence) in self._called
            by_torch = self._context.torch_recording and backend in DESCRIBED_BY_TORCH
            if not known and not by_torch and not entry.is_p2p:
                self._write_entry(entry, kind or entry.name, groups.get(entry.group))
        self._called = {key for key in self._called if key[1] > entries[-1].sequence}

    def _write_entry(self, entry: Entry, kind: str, group: Any) -> None:
        rows = self._context.rows
        slice_id = rows.slice(
            kind, "collective", entry.ts, 0, kind="instant", thread_id=_main_thread_id(), bytes=entry.in_bytes,
        )  # fmt: skip
        rows.append(
            "collectives", slice_id=slice_id, kind=kind, in_bytes=entry.in_bytes, out_bytes=entry.out_bytes,
            dtype=entry.dtype.lower() if entry.dtype else None, sequence_number=entry.sequence,
            group_id=self._group(group) if group is not None else None,
        )  # fmt: skip


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
