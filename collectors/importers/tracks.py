"""Which process and thread, or device and stream, an event lies on; and what the trace says about them.

A pid and tid name a thread of the host, or a device and one of its streams, and the same two numbers may do both in one
file (device 0 and stream 0 beside a thread that the profiler could not name). So a track is (pid, tid, side).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from .names import ASYNC, DEVICE, HOST

Codes = npt.NDArray[np.int32]
Keys = npt.NDArray[np.int64]

COUNTER = 3
"""The side of a counter's track."""

_RANK = re.compile(r"(?<![a-z])rank[ _:=\[-]?(?P<rank>\d{1,6})(?!\d)", re.IGNORECASE)
_INTEGER = re.compile(r"-?\d{1,18}")
_LAST_INTEGER = re.compile(r"(\d{1,18})\s*$")


def integer_of(text: str) -> int | None:
    """The integer that a text is, or None."""
    return int(text) if _INTEGER.fullmatch(text) else None


@dataclass(slots=True)
class Track:
    """One track as the trace tells of it; None is unknown.

    Attributes:
        process: The pid as text.
        thread: The tid as text; for a counter its series, for an asynchronous track its category.
        side: HOST, DEVICE, ASYNC or COUNTER.
        number: Its number in order of first use.
        stream, device, context: The one value that its events carry, for a device's track.
        track_id: The id that it must have in the recording, where that is fixed.
    """

    process: str
    thread: str
    side: int
    number: int
    stream: int | None = None
    device: int | None = None
    context: int | None = None
    track_id: int | None = None


@dataclass(slots=True)
class Label:
    """What metadata events say of one process or thread."""

    name: str | None = None
    labels: str | None = None
    sort_index: int | None = None


class Tracks:
    """Numbers the tracks of one trace and keeps their names.

    Args:
        strings: The texts behind the scanner's codes; may grow while batches arrive.
    """

    def __init__(self, strings: Sequence[str]) -> None:
        self._strings = strings
        self._number: dict[tuple[int, int, int], int] = {}
        self._by_key: dict[int, int] = {}
        self.all: list[Track] = []
        self.all_in_order: list[Track] = []
        self.processes: dict[str, Label] = defaultdict(Label)
        self.threads: dict[tuple[str, str], Label] = defaultdict(Label)
        self._values: dict[str, defaultdict[int, set[int]]] = {
            name: defaultdict(set) for name in ("stream", "device", "context")
        }

    def __len__(self) -> int:
        return len(self.all)

    def encode(self, process: Codes, thread: Codes, side: npt.NDArray[np.int8]) -> Codes:
        """The track of each event, new ones included."""
        keys = (process.astype(np.int64) + 1) << 34 | (thread.astype(np.int64) + 1) << 2 | side
        encoded = pa.array(keys).dictionary_encode()
        numbers = [self._of_key(key) for key in encoded.dictionary.to_numpy().tolist()]
        codes: Codes = np.array(numbers, np.int32)[encoded.indices.to_numpy()]
        return codes

    def find(self, process: Codes, thread: Codes, side: int) -> Codes:
        """The track of each event, -1 where it has no slices on that side."""
        keys = (process.astype(np.int64) + 1) << 34 | (thread.astype(np.int64) + 1) << 2 | side
        encoded = pa.array(keys).dictionary_encode()
        numbers = [self._by_key.get(key, -1) for key in encoded.dictionary.to_numpy().tolist()]
        codes: Codes = np.array(numbers, np.int32)[encoded.indices.to_numpy()]
        return codes

    def _of_key(self, key: int) -> int:
        number = self._by_key.get(key)
        if number is None:
            process, thread = (key >> 34) - 1, ((key >> 2) & 0xFFFFFFFF) - 1
            number = self._by_key[key] = self._add(self._text(process), self._text(thread), key & 3)
        return number

    def add(self, process: str, thread: str, side: int) -> int:
        """The number of a track that no event names by pid and tid alone; a new one on first use."""
        for track in self.all:
            if (track.process, track.thread, track.side) == (process, thread, side):
                return track.number
        return self._add(process, thread, side)

    def _add(self, process: str, thread: str, side: int) -> int:
        self.all.append(Track(process, thread, side, len(self.all)))
        return len(self.all) - 1

    def _text(self, code: int) -> str:
        return self._strings[code] if code >= 0 else ""

    def note_device_values(self, name: str, track: Codes, values: Keys, present: npt.NDArray[np.bool_]) -> None:
        """Notes which streams, devices or contexts the events of each track carry.

        Negative and huge numbers (0xFFFFFFFF) are how drivers write "of no stream".
        """
        if not present.any():
            return
        known = values[present]
        clipped = np.where((known < 0) | (known > 0x7FFFFFFE), -1, known)
        for key in pa.array(track[present].astype(np.int64) << 32 | (clipped + 1)).unique().to_pylist():
            self._values[name][key >> 32].add((key & 0xFFFFFFFF) - 1)

    def note_metadata(self, name: str, process: int, thread: int, args: bytes) -> None:
        """Notes what a metadata event (ph M) says; one of an unknown name, or without sense, changes nothing."""
        try:
            members = json.loads(args)
        except ValueError:
            return
        if not isinstance(members, dict):
            return
        if name.startswith("process_"):
            label = self.processes[self._text(process)]
        elif name.startswith("thread_"):
            label = self.threads[self._text(process), self._text(thread)]
        else:
            return
        if name.endswith("_name") and members.get("name"):
            label.name = str(members["name"])
        elif name.endswith("_labels") and members.get("labels"):
            label.labels = str(members["labels"])
        elif name.endswith("_sort_index") and isinstance(members.get("sort_index"), int):
            label.sort_index = members["sort_index"] if abs(members["sort_index"]) < 1 << 62 else None

    def settle(self, known_id: Callable[[Track], int | None] | None = None) -> Codes:
        """Ends the collecting: orders the tracks and finds stream, device and context of those on a device.

        Args:
            known_id: The track_id that a track must have, if it must; such tracks come first, by that id.

        Returns:
            Number in order of first use -> final number: threads, then devices and counters, each by its ids.
        """
        for track in self.all:
            if track.side == DEVICE:
                self._settle(track)
            track.track_id = known_id(track) if known_id else None
        self.all_in_order = sorted(self.all, key=_place)
        final = np.empty(len(self.all), np.int32)
        for number, track in enumerate(self.all_in_order):
            final[track.number] = number
        return final

    def ranks_of_processes(self) -> dict[str, int]:
        """Pid as text -> the rank that its process is named after; empty unless the file holds several ranks."""
        found: dict[str, int] = {}
        for process in {track.process for track in self.all} | set(self.processes):
            label = self.processes.get(process, Label())
            texts = (text for text in (process, label.name, label.labels) if text)
            match = next((match for match in map(_RANK.search, texts) if match), None)
            if match:
                found[process] = int(match["rank"])
        return found if len(set(found.values())) > 1 else {}

    def _settle(self, track: Track) -> None:
        for name in ("stream", "device", "context"):
            seen = {value for value in self._values[name][track.number] if value >= 0}
            if len(seen) == 1:
                setattr(track, name, seen.pop())
        if track.device is None:
            track.device = integer_of(track.process)
        if track.stream is None and not self._values["stream"][track.number]:
            found = _LAST_INTEGER.search(track.thread)
            track.stream = int(found[1]) if found else None


def _place(track: Track) -> tuple[Any, ...]:
    side = {HOST: 0, ASYNC: 1, DEVICE: 2, COUNTER: 3}[track.side]
    return (track.track_id is None, track.track_id or 0, side, _key(track.process), _key(track.thread), track.number)


def _key(text: str) -> tuple[int, int, str]:
    number = integer_of(text)
    return (1, 0, text) if number is None else (0, number, text)
