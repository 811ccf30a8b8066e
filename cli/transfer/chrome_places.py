"""Which pid and tid a track has in a Chrome trace.

The trace's own numbers stay where they can: a thread keeps its process and thread id, a stream its device and stream
number. Perfetto drops a slice that overlaps another on one tid without nesting, so each further lane of a track gets a
tid of its own, and two ranks that use the same pid are told apart.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

FIRST_FREE_PID = 1_000_000_000
FIRST_FREE_TID = 2_000_000_000
"""Made-up ids start above what Linux gives to processes and threads (at most 2**22) and below 2**31."""

DEVICE_SORT_OFFSET = 5_000_000
"""Devices stand below the processes of their rank, as torch.profiler sorts them."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where slices of one lane of a track go."""

    pid: int
    tid: int


class Places:
    """The pid and tid of every lane of every track, and the metadata events that name them.

    Args:
        tracks: Rows of the table ``tracks``.
        processes: Rows of the table ``processes``.
        name_ranks: Whether process names carry their rank, as where there are several.
    """

    def __init__(self, tracks: list[dict[str, Any]], processes: list[dict[str, Any]], *, name_ranks: bool) -> None:
        self._names_ranks = name_ranks
        self._owner_of_pid: dict[int, tuple[Any, ...]] = {}
        self._pid_of_owner: dict[tuple[Any, ...], int] = {}
        self._taken: set[tuple[int, int]] = set()
        self._free_tid = FIRST_FREE_TID
        self._tracks = {track["track_id"]: track for track in tracks}
        self._process_names = {(row["rank"], row["process_id"]): row["name"] or row["role"] for row in processes}
        self._lanes: dict[tuple[int, int], Place] = {}
        for track in tracks:
            self._lanes[track["track_id"], 0] = self._first_lane(track)

    def of(self, track_id: int, lane: int = 0) -> Place:
        """The place of a lane of a track; a lane above 0 gets one when it is first asked for."""
        place = self._lanes.get((track_id, lane))
        if place is None:
            place = self._lanes[track_id, lane] = Place(self._lanes[track_id, 0].pid, self._new_tid())
        return place

    def track(self, track_id: int) -> dict[str, Any]:
        """The row of the table ``tracks``."""
        return self._tracks[track_id]

    def metadata(self) -> Iterator[str]:
        """The events that name and sort the processes and threads, as JSON texts."""
        for owner, pid in self._pid_of_owner.items():
            name, sort_index = self._process_label(owner)
            yield _metadata("process_name", pid, 0, "name", name)
            yield _metadata("process_sort_index", pid, 0, "sort_index", sort_index)
        for (track_id, lane), place in self._lanes.items():
            track = self._tracks[track_id]
            if track["kind"] == "counter":
                continue
            suffix = f" (overlap {lane})" if lane else ""
            yield _metadata("thread_name", place.pid, place.tid, "name", f"{track['name']}{suffix}")
            if track["sort_key"] is not None:
                yield _metadata("thread_sort_index", place.pid, place.tid, "sort_index", track["sort_key"])

    def _first_lane(self, track: dict[str, Any]) -> Place:
        on_device = track["kind"] not in ("thread", "counter")
        if on_device:
            owner = (track["rank"], "device", track["device_type"], track["device_index"])
            wanted_pid, wanted_tid = track["device_index"], track["stream_id"]
        else:
            owner = (track["rank"], "process", track["process_id"], None)
            wanted_pid, wanted_tid = track["process_id"], track["thread_id"]
        pid = self._pid(owner, wanted_pid)
        tid = wanted_tid if wanted_tid is not None and wanted_tid >= 0 else self._new_tid()
        if (pid, tid) in self._taken:
            tid = self._new_tid()
        self._taken.add((pid, tid))
        return Place(pid, tid)

    def _pid(self, owner: tuple[Any, ...], wanted: int | None) -> int:
        if owner not in self._pid_of_owner:
            pid = wanted
            if pid is None or pid < 0 or pid in self._owner_of_pid:
                pid = next(n for n in range(FIRST_FREE_PID, FIRST_FREE_TID) if n not in self._owner_of_pid)
            self._owner_of_pid[pid] = owner
            self._pid_of_owner[owner] = pid
        return self._pid_of_owner[owner]

    def _new_tid(self) -> int:
        self._free_tid += 1
        return self._free_tid - 1

    def _process_label(self, owner: tuple[Any, ...]) -> tuple[str, int]:
        rank, side, first, second = owner
        prefix = f"rank {rank} " if self._names_ranks else ""
        if side == "device":
            label = f"{first or 'device'} {second if second is not None else ''}".strip()
            return f"{prefix}{label}", DEVICE_SORT_OFFSET + rank
        name = self._process_names.get((rank, first)) or "process"
        return f"{prefix}{name}", rank


def _metadata(event: str, pid: int, tid: int, key: str, value: str | int) -> str:
    return f'{{"ph":"M","name":"{event}","pid":{pid},"tid":{tid},"ts":0,"args":{{"{key}":{json.dumps(value)}}}}}'
