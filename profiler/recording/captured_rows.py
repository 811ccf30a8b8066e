"""Rows of a recording while they are being captured: buffered in the training process, drained by the session.

Appending is what the training thread pays for, so a row is one append to a deque, which needs no lock. Ids are handed
out here. Slices of one thread nest by what is open when they begin, and stand in a lane of their own on the
thread's track: the others are torch.profiler's, whose slices are converted later by another process and nest among
themselves.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from .ids import attempt_base, thread_track_id
from .schema import TABLES

LANE = 1000
"""The lane of a thread's track that live collectors write to: above all those that importers use."""

MAX_FRAMES = 256
"""The innermost frames that are kept of a stack."""

MAX_STACKS = 200_000
"""Different stacks of one recording; beyond it, further ones are counted and left out."""

_ROOT = Path(__file__).resolve().parents[2]
OWN_FOLDERS = tuple(f"{_ROOT / room}{os.sep}" for room in ("profiler", "collectors", "cli", "facade"))
"""Where our own code lies: its frames are left out of every stack."""

PROGRAM_RUNNER = str(_ROOT / "profiler" / "session" / "program.py")
"""The file that runs the user's program under ``stallscope record``: what stands outside it is not the user's."""

PROGRAM_RECORDER = str(_ROOT / "profiler" / "session" / "recorded_program.py")
"""The file that calls the runner, and what comes before and after the program."""


@dataclass(slots=True, eq=False)
class OpenSlice:
    """A slice that has begun: what ``end`` needs to write its row."""

    slice_id: int
    track_id: int
    ts: int
    name: str
    category: str
    depth: int
    parent_id: int | None
    stack_id: int | None
    thread_id: int


class CapturedRows:
    """Rows of all tables of one rank's attempt, on their way to the writer.

    Args:
        rank: The rank.
        attempt: Which start of the rank.
        process_id: The process that captures.
    """

    def __init__(self, rank: int, attempt: int, process_id: int) -> None:
        self.rank, self.attempt, self.process_id = rank, attempt, process_id
        self._pending: dict[str, deque[dict[str, Any]]] = {name: deque() for name in TABLES}
        base = attempt_base(rank, attempt)
        self._slice_ids, self._track_ids = count(base), count(base)
        self._stack_ids, self._frame_ids, self._group_ids = count(base), count(base), count(base)
        self._thread_tracks: dict[int, int] = {}
        self._counter_tracks: dict[tuple[Any, ...], int] = {}
        self._frames: dict[tuple[str, str, int], int] = {}
        self._stacks: dict[tuple[int, ...], int | None] = {}
        self._read_stacks: dict[bytes, int | None] = {}
        self._stack_of_frames: dict[tuple[int, ...], int] = {}
        self._kept_alive: list[CodeType] = []
        self._open: dict[int, list[OpenSlice]] = {}
        self._lock = threading.RLock()
        self.stacks_left_out = 0

    now = staticmethod(time.time_ns)
    """The recording's clock: real time in ns, which is what torch.profiler stamps its events with too."""

    def append(self, table: str, **fields: Any) -> None:
        """Adds a row as it is; ``rank`` is filled in where the table has it."""
        if "rank" not in fields and table not in ("flows", "groups", "modules", "stacks", "frames", "sources"):
            fields["rank"] = self.rank
        self._pending[table].append(fields)

    def drain(self) -> Iterator[tuple[str, dict[str, list[Any]]]]:
        """Takes the rows that are there now, as columns of each table that has any."""
        for name, pending in self._pending.items():
            rows = [pending.popleft() for _ in range(len(pending))]
            if rows:
                yield name, {column.name: [row.get(column.name) for row in rows] for column in TABLES[name].columns}

    def pending_rows(self) -> int:
        """How many rows wait to be drained."""
        return sum(len(pending) for pending in self._pending.values())

    # ---- tracks

    def thread_track(self, thread_id: int | None = None, name: str | None = None) -> int:
        """The track of a thread, by its id in the operating system; of the calling thread if none is given."""
        if thread_id is None:
            thread_id = threading.get_native_id()
        track = self._thread_tracks.get(thread_id)
        if track is None:
            with self._lock:
                track = thread_track_id(self.rank, self.attempt, thread_id)
                if thread_id not in self._thread_tracks:
                    self._thread_tracks[thread_id] = track
                    self._add_thread_track(track, thread_id, name)
        return track

    def _add_thread_track(self, track: int, thread_id: int, name: str | None) -> None:
        if name is None:
            names = [thread.name for thread in threading.enumerate() if thread.native_id == thread_id]
            name = names[0] if names else f"thread {thread_id}"
        self.append("tracks", track_id=track, kind="thread", name=name, process_id=self.process_id, thread_id=thread_id)

    def counter_track(
        self, name: str, unit: str | None = None, device_type: str | None = None, device_index: int | None = None
    ) -> int:
        """The track of a counter, made when it is first asked for."""
        key = (name, device_type, device_index)
        track = self._counter_tracks.get(key)
        if track is None:
            with self._lock:
                track = self._counter_tracks[key] = next(self._track_ids)
                self.append(
                    "tracks", track_id=track, kind="counter", name=name, unit=unit, process_id=self.process_id,
                    device_type=device_type, device_index=device_index,
                )  # fmt: skip
        return track

    def counter(self, track_id: int, ts: int, value: float | None) -> None:
        """A counter's value from ``ts`` on."""
        self._pending["counters"].append({"rank": self.rank, "track_id": track_id, "ts": ts, "value": value})

    # ---- slices

    def begin(self, name: str, category: str, stack_id: int | None = None) -> OpenSlice:
        """Opens a slice on the calling thread; give it to ``end``."""
        thread_id = threading.get_native_id()
        open_slices = self._open.setdefault(thread_id, [])
        parent = open_slices[-1] if open_slices else None
        opened = OpenSlice(
            next(self._slice_ids), self.thread_track(thread_id), time.time_ns(), name, category,
            parent.depth + 1 if parent else 0, parent.slice_id if parent else None, stack_id, thread_id,
        )  # fmt: skip
        open_slices.append(opened)
        return opened

    def end(self, opened: OpenSlice, **fields: Any) -> int:
        """Closes a slice, with what other columns it has; returns its id. Slices left open inside it end with it."""
        return self.write(opened, self.leave(opened), **fields)

    def leave(self, opened: OpenSlice) -> int:
        """Ends a slice without writing it yet; returns when. What begins now is no longer inside it."""
        end = time.time_ns()
        open_slices = self._open.get(opened.thread_id, [])
        if opened in open_slices:
            del open_slices[open_slices.index(opened) :]
        return end

    def write(self, opened: OpenSlice, end: int, **fields: Any) -> int:
        """Writes a slice that was left at ``end``; returns its id."""
        self._add_slice(opened, "complete", max(0, end - opened.ts), fields)
        return opened.slice_id

    def slice(
        self,
        name: str,
        category: str,
        ts: int,
        dur: int | None,
        *,
        kind: str = "complete",
        thread_id: int | None = None,
        **fields: Any,
    ) -> int:
        """A slice that is known only when it is over, inside what is open on its thread; returns its id."""
        if thread_id is None:
            thread_id = threading.get_native_id()
        around = [opened for opened in self._open.get(thread_id, ()) if opened.ts <= ts]
        parent = around[-1] if around else None
        made = OpenSlice(
            next(self._slice_ids), self.thread_track(thread_id), ts, name, category,
            parent.depth + 1 if parent else 0, parent.slice_id if parent else None, fields.pop("stack_id", None),
            thread_id,
        )  # fmt: skip
        self._add_slice(made, kind, dur, fields)
        return made.slice_id

    def close_open_slices(self) -> None:
        """Writes what is still open as unfinished; for the end of a recording."""
        for open_slices in self._open.values():
            for opened in open_slices:
                self._add_slice(opened, "unfinished", None, {})
            open_slices.clear()

    def _add_slice(self, made: OpenSlice, kind: str, dur: int | None, fields: dict[str, Any]) -> None:
        self._pending["slices"].append(
            {
                "slice_id": made.slice_id,
                "rank": self.rank,
                "track_id": made.track_id,
                "kind": kind,
                "ts": made.ts,
                "dur": dur,
                "lane": LANE,
                "depth": made.depth,
                "name": made.name,
                "category": made.category,
                "parent_id": made.parent_id,
                "stack_id": made.stack_id,
                **fields,
            }
        )

    def group_id(self) -> int:
        """A new id for a process group."""
        return next(self._group_ids)

    # ---- stacks

    def stack_here(self, skip: int = 0) -> int | None:
        """The caller's stack, without ``skip`` further innermost frames and without our own frames."""
        return self.stack_of(sys._getframe(skip + 1))

    def stack_of(self, frame: FrameType | None) -> int | None:
        """The stack that ends in this frame: the lines that run, not the lines of the defs. None if none is left."""
        frames: list[FrameType] = []
        while frame is not None and len(frames) < MAX_FRAMES:
            frames.append(frame)
            frame = frame.f_back
        # By identity: hashing a code object reads all of its constants. ``_kept_alive`` keeps identities unique.
        key = (*[id(one.f_code) for one in frames], *[one.f_lasti for one in frames])
        if key in self._stacks:
            return self._stacks[key]
        with self._lock:
            return self._intern(key, frames)

    def stack_of_bytes(self, stack: bytes, frames_in: Callable[[bytes], list[tuple[str, int, str]]]) -> int | None:
        """The stack that some bytes stand for; ``frames_in`` gives its frames, innermost first, the first time."""
        if stack in self._read_stacks:
            return self._read_stacks[stack]
        with self._lock:
            if len(self._read_stacks) >= MAX_STACKS:
                self.stacks_left_out += 1
                return None
            frames = frames_in(stack)
            files = [file for file, _, _ in frames]
            if PROGRAM_RUNNER in files:
                frames = frames[: files.index(PROGRAM_RUNNER)]
            elif PROGRAM_RECORDER in files:
                frames = []  # before the program's first line, or after its last: ours, not the program's
            ids = [self._frame(*frame) for frame in frames if not frame[0].startswith(OWN_FOLDERS)]
            self._read_stacks[stack] = self._add_stack(ids)
        return self._read_stacks[stack]

    def _add_stack(self, innermost_first: list[int]) -> int | None:
        """The id of the stack of these frames; several instructions of a line make one stack."""
        if not innermost_first:
            return None
        frame_ids = tuple(innermost_first[::-1])
        if frame_ids not in self._stack_of_frames:
            self._stack_of_frames[frame_ids] = next(self._stack_ids)
            self.append("stacks", stack_id=self._stack_of_frames[frame_ids], frame_ids=list(frame_ids))
        return self._stack_of_frames[frame_ids]

    def _intern(self, key: tuple[int, ...], frames: list[FrameType]) -> int | None:
        if len(self._stacks) >= MAX_STACKS:
            self.stacks_left_out += 1
            return None
        self._kept_alive.extend(one.f_code for one in frames)
        ids = []
        for one in frames:
            if one.f_code.co_filename == PROGRAM_RUNNER:
                break
            if not one.f_code.co_filename.startswith(OWN_FOLDERS):
                ids.append(self._frame(one.f_code.co_filename, one.f_lineno, one.f_code.co_qualname))
        self._stacks[key] = self._add_stack(ids)
        return self._stacks[key]

    def _frame(self, file: str, line: int | None, function: str) -> int:
        key = (file, function, line or 0)
        if key not in self._frames:
            self._frames[key] = next(self._frame_ids)
            self.append("frames", frame_id=self._frames[key], file=file, line=line, function=function)
        return self._frames[key]

    def files_seen(self) -> set[str]:
        """The source files of every frame so far."""
        return {file for file, _function, _line_number in list(self._frames)}
