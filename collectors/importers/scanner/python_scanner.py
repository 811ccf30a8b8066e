"""The scanner in Python: the reference for the native one, and what runs where that could not be built.

It reads blocks, keeps no more than the element it is at, and goes on after anything: an element that is no event, even
after repair, is counted and skipped up to the next thing that looks like one.
The native scanner does the same in ``document.hpp``; a change here is a change there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import numpy as np

from .batch import (
    FLOW_CODE_BASE,
    NUMBER_COLUMNS,
    BoolArray,
    EventBatch,
    Int32Array,
    Int64Array,
    Limits,
    StringTable,
)
from .python_lookahead import EVENT_BEGINS, RESUME
from .python_parser import BadEventError, Event, Mode, OutOfDataError, Parser, Place

MATCH_BYTES = 128
"""More than what an event or a member of the top level is recognised by."""

LOOK_BACK = 64
"""How far before a brace the character is looked for that tells whether it is the value of a member."""

_SPACE = re.compile(rb"[ \t\n\r,]*")
_BOM = b"\xef\xbb\xbf"
_PLAIN_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")


LABEL_COLUMNS = ("name", "category", "process", "thread", "flow_id", "scope")
"""The columns that are codes, in the order in which an event's strings enter the table."""

_Read = TypeVar("_Read")


class PythonScanner:
    """Scans blocks of a file; see ``batch.Scanner``."""

    def __init__(
        self, blocks: Iterable[bytes], strings: StringTable | None = None, limits: Limits | None = None
    ) -> None:
        self.strings = strings if strings is not None else StringTable()
        self.metadata: dict[str, object] = {}
        self.damage: dict[str, int] = {}
        self.damage_offsets: dict[str, int] = {}
        self._limits = limits or Limits()
        self._blocks = iter(blocks)
        self._data = b""
        self._base = 0
        """The offset of ``_data`` in the file."""
        self._at = 0
        self._last = False
        """Whether the file ends where ``_data`` does."""
        self._step: Callable[[], None] | None = self._in_file
        self._documents = 0
        self._in_member = False
        """Whether the events are a member of a top-level object, and not a list by themselves."""
        self._resumed = False
        """Whether the next event was found by looking for something like an event."""
        self._skipped_from = 0
        """The offset in the file of what is being skipped."""
        self._search_from = 0
        self._has_events = False
        self._metadata_bytes = 0
        self._rows = _Rows()

    def __iter__(self) -> Iterator[EventBatch]:
        while self._step is not None:
            try:
                self._step()
            except OutOfDataError:
                if self._last:
                    self._end()
                else:
                    self._read()
            if len(self._rows.events) >= self._limits.batch_events or self._rows.bytes > self._limits.batch_bytes:
                yield self._rows.batch()
                self._rows = _Rows()
        if not self._has_events:
            self._count(
                "empty" if not self._documents and "garbage" not in self.damage else "no_trace_events", self._at
            )
        if self._rows.events:
            yield self._rows.batch()

    def _read(self) -> None:
        """Reads at least as much again as is pending, so that a long element is not read over and over."""
        pieces = [self._data[self._at :]]
        wanted = max(1, len(pieces[0]))
        while wanted > 0:
            block = next(self._blocks, None)
            if block is None:
                self._last = True
                break
            pieces.append(bytes(block))
            wanted -= len(block)
        self._base += self._at
        self._at = 0
        self._data = b"".join(pieces)

    def _count(self, kind: str, at: int) -> None:
        self.damage[kind] = self.damage.get(kind, 0) + 1
        self.damage_offsets.setdefault(kind, self._base + at)

    # Where the scan is. Each method reads one thing and moves on, or raises OutOfDataError and changes nothing.

    def _in_file(self) -> None:
        """Outside of any document."""
        byte = self._next_byte()
        if byte == b"{":
            if self._documents and EVENT_BEGINS.match(self._ahead(MATCH_BYTES)):
                self._enter_events(self._at, in_member=True)
                self._resumed = True
                return
            self._enter_document()
            self._step = self._in_object
            self._at += 1
        elif byte == b"[":
            self._enter_document()
            self._enter_events(self._at + 1, in_member=False)
        elif byte == _BOM[:1] and self._ahead(len(_BOM)) == _BOM:
            self._at += len(_BOM)
        else:
            self._skip("garbage", self._at)

    def _in_object(self) -> None:
        """Between the members of a top-level object."""
        byte = self._next_byte()
        if byte == b"}":
            self._at += 1
            self._step = self._in_file
        elif byte == b'"':
            self._member()
        else:
            self._skip("bad_metadata", self._at)

    def _in_events(self) -> None:
        """Between the elements of traceEvents."""
        byte = self._next_byte()
        if byte == b"]":
            self._at += 1
            self._step = self._in_object if self._in_member else self._in_file
        elif byte == b"{":
            self._event()
        else:
            self._skip("bad_event", self._at)

    def _looking(self) -> None:
        """After damage: at nothing, until something looks like an event or like a member of the top level."""
        at = self._search_from - self._base
        match = RESUME.search(self._data, at)
        while match is not None:
            at = match.start()
            before = self._before(at)
            if match[0][:1] == b"{" and before != b":":
                self._enter_events(at, in_member=self._in_member or not self._has_events)
                self._resumed = True
                return
            if match[0][:1] == b'"' and before in (b",", b"{"):
                self._at = at
                self._step = self._in_object
                return
            match = RESUME.search(self._data, at + 1)
        if self._last:
            self._at = len(self._data)
            self._step = None
            return
        at = max(self._search_from - self._base, len(self._data) - MATCH_BYTES)
        self._search_from = self._base + at
        self._at = max(self._at, at - LOOK_BACK)
        raise OutOfDataError

    def _end(self) -> None:
        """At the end of the file."""
        if self._step != self._in_file:
            self._count("truncated", self._at)
        self._step = None

    def _next_byte(self) -> bytes:
        """Moves to the next byte that is neither space nor comma, and returns it."""
        match = _SPACE.match(self._data, self._at)
        assert match is not None
        self._at = match.end()
        if self._at == len(self._data):
            raise OutOfDataError
        return self._data[self._at : self._at + 1]

    def _ahead(self, count: int) -> bytes:
        """Returns the next bytes: as many as asked for, unless the file ends before."""
        if self._at + count > len(self._data) and not self._last:
            raise OutOfDataError
        return self._data[self._at : self._at + count]

    def _before(self, at: int) -> bytes:
        """Returns the last byte before an offset that is no white space; empty if that is farther away."""
        start = max(at - LOOK_BACK, self._skipped_from - self._base, 0)
        return self._data[start:at].rstrip(b" \t\n\r")[-1:]

    def _enter_document(self) -> None:
        self._documents += 1
        if self._documents > 1:
            self._count("several_documents", self._at)

    def _enter_events(self, at: int, *, in_member: bool) -> None:
        self._has_events = True
        self._in_member = in_member
        self._at = at
        self._step = self._in_events

    def _skip(self, kind: str, at: int, resume: int | None = None) -> None:
        """Counts damage, and looks for where to go on."""
        # A file ends only once, however many beginnings of events are found in what is left of it.
        if kind != "truncated" or kind not in self.damage:
            self._count(kind, at)
        self._look_from(at, resume)

    def _look_from(self, at: int, resume: int | None = None) -> None:
        self._skipped_from = self._base + at
        self._search_from = self._base + (at + 1 if resume is None else resume)
        self._step = self._looking

    # Elements.

    def _event(self) -> None:
        start = self._at
        try:
            event = self._parse(start, lambda parser: parser.event(start))
        except BadEventError as error:
            self._skip(error.kind, start, error.resume)
            return
        if self._resumed and not event.phase:
            # Part of the element that was skipped, such as the args of a damaged event.
            self._look_from(start)
            return
        self._resumed = False
        self._at = event.end
        self._rows.add(event, self._base + start, self._codes(event, start))

    def _codes(self, event: Event, start: int) -> dict[str, int]:
        codes = {}
        for label in LABEL_COLUMNS:
            text = event.labels.get(label)
            if text is None:
                codes[label] = -1
            elif label == "flow_id" and _PLAIN_NUMBER.fullmatch(text) and int(text) < FLOW_CODE_BASE:
                codes[label] = int(text)
            else:
                code, kept = self.strings.code(text, self._limits)
                if not kept:
                    self._count("string_table_full", start)
                codes[label] = code + FLOW_CODE_BASE if label == "flow_id" else code
        return codes

    def _member(self) -> None:
        start = self._at
        try:
            key, text, end = self._parse(start, lambda parser: _read_member(parser, start))
        except BadEventError as error:
            self._skip("truncated" if error.kind == "truncated" else "bad_metadata", start, error.resume)
            return
        if text is None:
            self._enter_events(end, in_member=True)
            return
        self._at = end
        self._metadata_bytes += len(text.encode())
        if self._metadata_bytes > self._limits.metadata_bytes:
            self._count("bad_metadata", start)
        elif key != "traceEvents":
            self.metadata[key] = json.loads(text)

    def _parse(self, start: int, read: Callable[[Parser], _Read]) -> _Read:
        """Returns what ``read`` makes of the bytes from ``start``, in the first mode in which it can."""
        bad = BadEventError("")
        for mode in Mode:
            if bad.kind == "truncated" and mode == Mode.BACKSLASHES:
                break
            limit = self._limits.event_bytes
            if mode != Mode.STRICT:
                limit = min(limit, self._limits.repair_bytes)
            limited = len(self._data) - start >= limit
            end = start + limit if limited else len(self._data)
            parser = Parser(self._data, end, self._last and end == len(self._data), self._last or limited, mode)
            try:
                result = read(parser)
            except BadEventError as error:
                bad = error if not bad.kind else bad
                if error.kind == "too_deep":
                    break
            except OutOfDataError:
                if not limited and not self._last:
                    raise
                bad = bad if bad.kind else BadEventError("oversized_event" if limited else "truncated")
                if bad.kind == "oversized_event":
                    break
            else:
                for note in parser.notes:
                    self._count(note, start)
                return result
        raise bad


def _read_member(parser: Parser, start: int) -> tuple[str, str | None, int]:
    """Returns key, value as JSON, and end of a member of the top level; no value at the beginning of the events."""
    at, key = parser.key(start)
    if key == "traceEvents" and parser.byte(at) == b"[":
        return key, None, at + 1
    at, value = parser.value(at, Place.MEMBER, 1)
    try:
        parser.after(at, b"}")
    except OutOfDataError:
        if not parser.last:
            raise
    return key, parser.json(value), at


class _Rows:
    """The events of a batch that is being filled."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.bytes = 0
        self._offsets: list[int] = []
        self._codes: list[dict[str, int]] = []
        self._rest: list[int] = []
        self._texts: dict[str, int] = {}

    def add(self, event: Event, offset: int, codes: dict[str, int]) -> None:
        self.events.append(event)
        self._offsets.append(offset)
        self._codes.append(codes)
        if not event.rest:
            self._rest.append(-1)
            return
        text = "{" + ",".join(f"{key}:{value}" for key, value in event.rest.items()) + "}"
        if text not in self._texts:
            self.bytes += len(text.encode())
        self._rest.append(self._texts.setdefault(text, len(self._texts)))

    def batch(self) -> EventBatch:
        """Returns the events as columns."""
        texts = [text.encode() for text in self._texts]
        return EventBatch(
            phase=np.array([event.phase for event in self.events], np.uint8),
            ts=np.array([event.ts or 0 for event in self.events], np.int64),
            dur=np.array([event.dur or 0 for event in self.events], np.int64),
            has_ts=np.array([event.ts is not None for event in self.events], np.bool_),
            has_dur=np.array([event.dur is not None for event in self.events], np.bool_),
            numbers={column: self._number(column) for column in NUMBER_COLUMNS},
            rest=np.array(self._rest, np.int32),
            rest_offsets=np.cumsum([0, *map(len, texts)], dtype=np.int32),
            rest_data=b"".join(texts),
            offset=np.array(self._offsets, np.int64),
            name=self._code("name"),
            category=self._code("category"),
            process=self._code("process"),
            thread=self._code("thread"),
            scope=self._code("scope"),
            flow_id=np.array([row["flow_id"] for row in self._codes], np.int64),
        )

    def _code(self, label: str) -> Int32Array:
        return np.array([row[label] for row in self._codes], np.int32)

    def _number(self, column: str) -> tuple[Int64Array, BoolArray]:
        values = np.array([event.numbers.get(column, 0) for event in self.events], np.int64)
        return values, np.array([column in event.numbers for event in self.events], np.bool_)
