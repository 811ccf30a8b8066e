"""Reads one event, or one member of the top level, from a buffer: first as JSON, then, where that fails, by repair.

The native scanner does the same in ``parser.hpp``; a change here is a change there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from .batch import DROPPED_INTEGERS, KNOWN_INTEGERS
from .python_lookahead import closes, nested_event, next_member, opens_member, opens_top_member, value_ends
from .python_text import MAX_TOKEN, decode_string, integer, json_string, nanoseconds, word_json

MAX_DEPTH = 100
"""The deepest nesting of an event, itself counted."""

LOOKAHEAD = 512
"""How far a repair looks past a quote to tell whether it ends the string."""

_SPACE = re.compile(rb"[ \t\n\r]*")
_CLEAN = re.compile(rb'"([^"\\\x00-\x1f\x80-\xff]*)"')
_STOP = re.compile(rb'["\\]')
_TOKEN = re.compile(rb'[^ \t\n\r,:{}\[\]"]*')

# Shortcuts for what nearly all of a trace is made of; each gives what the grammar below would.
_SIMPLE_MEMBER = re.compile(
    rb'[ \t\n\r,]*+"([^"\\\x00-\x1f\x80-\xff]*+)"[ \t\n\r]*+:[ \t\n\r]*+'
    rb'(?:"([^"\\\x00-\x1f\x80-\xff]*+)"|([^ \t\n\r,:{}\[\]"]{1,1000}+))[ \t\n\r]*+(?=[,}])'
)
_ELEMENT = (
    rb'(?:"[^"\\\x00-\x1f\x80-\xff]*+"|-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?(?=[ \t\n\r,\]])'
    rb"|true|false|null)[ \t\n\r]*+"
)
_SIMPLE_ARRAY = re.compile(rb"\[[ \t\n\r]*+(?:" + _ELEMENT + rb"(?:,[ \t\n\r]*+" + _ELEMENT + rb")*+)?\]")
_SIMPLE_ELEMENT = re.compile(r'"[^"]*+"|[^ \t\n\r,\[\]]++')


class OutOfDataError(Exception):
    """The buffer ends before the event does."""


class BadEventError(Exception):
    """This is no event.

    Attributes:
        kind: A kind of damage.
        resume: Where to look for the next event, if that is not right after the beginning of this one.
    """

    def __init__(self, kind: str, resume: int | None = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.resume = resume


class Mode(IntEnum):
    """How a string's end is told."""

    STRICT = 0
    """The first quote without a backslash."""
    QUOTES = 1
    """The first quote after which JSON could go on; a quote with a backslash only if a further member follows."""
    BACKSLASHES = 2
    """The same, and a quote with a backslash also if the object ends after it."""


class Place(IntEnum):
    """Where a string stands."""

    KEY = 0
    MEMBER = 1
    ELEMENT = 2


class Kind(IntEnum):
    """What a value is."""

    STRING = 0
    WORD = 1
    CONTAINER = 2


class Value(NamedTuple):
    """A value: the text of a string or word, and what kind it is; containers as compact JSON."""

    kind: Kind
    text: str
    token: bytes
    """The bytes of a word or of a string's text; empty for a container."""


@dataclass(slots=True)
class Event:
    """One event as read, before its strings have codes."""

    phase: int = 0
    labels: dict[str, str] = field(default_factory=dict)
    ts: int | None = None
    dur: int | None = None
    numbers: dict[str, int] = field(default_factory=dict)
    rest: dict[str, str] = field(default_factory=dict)
    end: int = 0


_LABELS = {"name": "name", "cat": "category", "pid": "process", "tid": "thread", "id": "flow_id"}
_LABELS |= {"scope": "scope", "s": "scope"}


class Parser:
    """Reads from ``data`` up to ``end``, and raises ``OutOfDataError`` there.

    Args:
        data: The buffer.
        end: Where it ends for this event.
        last: Whether the file ends there, too.
        final: Whether more of the file would not move ``end``.
        mode: How strings end.
    """

    def __init__(self, data: bytes, end: int, last: bool, final: bool, mode: Mode) -> None:
        self.data = data
        self.end = end
        self.last = last
        self.final = final
        self.mode = mode
        self.notes: list[str] = []

    def event(self, start: int) -> Event:
        """Returns the event that begins at ``start`` with a brace."""
        event = Event()
        at = start + 1
        while True:
            simple = self._simple_member(at)
            if simple is not None:
                at, key, value = simple
                self._assign(event, key, value)
                continue
            at, name = self._member(at)
            if name is None:
                if self.mode != Mode.STRICT and not event.phase:
                    # Every real event has one: the repair has gone astray.
                    raise BadEventError("bad_event")
                event.end = at
                return event
            if name == "args" and self.byte(at) == b"{":
                at = self._arguments(event, at)
            else:
                at, value = self.value(at, Place.MEMBER, 1)
                self._assign(event, name, value)
            at = self.after(at, b"}")

    def _arguments(self, event: Event, start: int) -> int:
        at = start + 1
        while True:
            simple = self._simple_member(at)
            if simple is not None:
                at, key, value = simple
                self._add_argument(event, key, value)
                continue
            at, name = self._member(at)
            if name is None:
                return at
            at, value = self.value(at, Place.MEMBER, 2)
            self._add_argument(event, name, value)
            at = self.after(at, b"}")

    def _simple_member(self, at: int) -> tuple[int, str, Value] | None:
        """Returns end, key and value of the next member, if both are plain."""
        if self.mode != Mode.STRICT:
            return None
        match = _SIMPLE_MEMBER.match(self.data, at, self.end)
        if match is None:
            return None
        key, text, token = match.groups()
        if text is not None:
            return match.end(), key.decode(), Value(Kind.STRING, text.decode(), text)
        return match.end(), key.decode(), Value(Kind.WORD, token.decode(errors="replace"), token)

    def _assign(self, event: Event, key: str, value: Value) -> None:
        label = _LABELS.get(key)
        if label is not None:
            text = self._label(value)
            if text is None:
                event.labels.pop(label, None)
            else:
                event.labels[label] = text
        elif key == "ph":
            one = value.kind == Kind.STRING and len(value.text) == 1 and value.text.isascii()
            event.phase = ord(value.text) if one else 0
            self.json(value)
        elif key == "ts":
            event.ts = self._time(value)
        elif key == "dur":
            event.dur = self._time(value)
        elif key == "bp":
            self.json(value)
        else:
            self._add_argument(event, "value" if key == "args" else key, value)

    def _label(self, value: Value) -> str | None:
        if value.kind != Kind.WORD:
            return value.text
        return None if self.json(value) == "null" else value.text

    def _time(self, value: Value) -> int | None:
        if value.kind == Kind.CONTAINER:
            self.notes.append("bad_time")
            return None
        return nanoseconds(value.token.strip(b" \t\n\r"), self.notes)

    def _add_argument(self, event: Event, key: str, value: Value) -> None:
        column = KNOWN_INTEGERS.get(key)
        if column is not None or key in DROPPED_INTEGERS:
            number = integer(value.token, column or "")
            if number is not None:
                if column is not None:
                    event.numbers[column] = number
                return
        event.rest[json_string(key)] = self.json(value)

    def json(self, value: Value) -> str:
        """Returns a value as compact JSON."""
        if value.kind == Kind.CONTAINER:
            return value.text
        if value.kind == Kind.STRING:
            return json_string(value.text)
        return word_json(value.token, self.notes)

    # The grammar.

    def byte(self, at: int) -> bytes:
        """Returns the byte at an offset."""
        if at >= self.end:
            raise OutOfDataError
        return self.data[at : at + 1]

    def space(self, at: int) -> int:
        """Returns where the white space from an offset ends."""
        match = _SPACE.match(self.data, at, self.end)
        assert match is not None
        if match.end() == self.end:
            raise OutOfDataError
        return match.end()

    def _member(self, at: int) -> tuple[int, str | None]:
        """Returns where the value of the next member begins and its key, or the end of the object and None."""
        at = self.space(at)
        while self.byte(at) == b",":
            at = self.space(at + 1)
        byte = self.byte(at)
        if byte == b"}":
            return at + 1, None
        if byte != b'"':
            raise BadEventError("interleaved" if byte == b"{" else "bad_event")
        return self.key(at)

    def key(self, at: int) -> tuple[int, str]:
        """Returns where the value of the member at an offset begins, and its key."""
        at, key = self.string(at, Place.KEY)
        at = self.space(at)
        if self.byte(at) != b":":
            raise BadEventError("bad_event")
        return self.space(at + 1), key

    def after(self, at: int, closing: bytes) -> int:
        """Returns where to go on after a value: at the comma, which the next round skips, or at the closing bracket."""
        at = self.space(at)
        byte = self.byte(at)
        if byte in (b",", closing):
            return at
        raise BadEventError("interleaved" if byte == b"{" else "bad_event")

    def value(self, at: int, place: Place, depth: int) -> tuple[int, Value]:
        """Returns where the value at an offset ends, and the value; ``depth`` is the number of containers around it."""
        byte = self.byte(at)
        if byte == b'"':
            at, text = self.string(at, place)
            return at, Value(Kind.STRING, text, text.encode())
        if byte in b"{[":
            pieces: list[str] = []
            at = self._container(at, depth + 1, pieces)
            return at, Value(Kind.CONTAINER, "".join(pieces), b"")
        match = _TOKEN.match(self.data, at, self.end)
        assert match is not None
        token = match[0]
        if not token or len(token) > MAX_TOKEN:
            raise BadEventError("bad_event")
        if match.end() == self.end:
            raise OutOfDataError
        return match.end(), Value(Kind.WORD, token.decode(errors="replace"), token)

    def _container(self, at: int, depth: int, pieces: list[str]) -> int:
        """Adds an object or array as compact JSON to ``pieces`` and returns where it ends."""
        if depth > MAX_DEPTH:
            raise BadEventError("too_deep", at)
        if self.byte(at) == b"{":
            return self._object(at + 1, depth, pieces)
        simple = _SIMPLE_ARRAY.match(self.data, at, self.end) if self.mode == Mode.STRICT else None
        if simple is not None and len(simple[0]) <= MAX_TOKEN:
            pieces.append(f"[{','.join(_SIMPLE_ELEMENT.findall(simple[0].decode()))}]")
            return simple.end()
        return self._array(at + 1, depth, pieces)

    def _object(self, at: int, depth: int, pieces: list[str]) -> int:
        pieces.append("{")
        comma = ""
        while True:
            at, key = self._member(at)
            if key is None:
                pieces.append("}")
                return at
            pieces.append(f"{comma}{json_string(key)}:")
            comma = ","
            at = self._nested(at, Place.MEMBER, depth, pieces)
            at = self.after(at, b"}")

    def _array(self, at: int, depth: int, pieces: list[str]) -> int:
        pieces.append("[")
        comma = ""
        while True:
            at = self.space(at)
            while self.byte(at) == b",":
                at = self.space(at + 1)
            if self.byte(at) == b"]":
                pieces.append("]")
                return at + 1
            pieces.append(comma)
            comma = ","
            at = self._nested(at, Place.ELEMENT, depth, pieces)
            at = self.after(at, b"]")

    def _nested(self, at: int, place: Place, depth: int, pieces: list[str]) -> int:
        if self.byte(at) in b"{[":
            if place == Place.ELEMENT and self.byte(at) == b"{" and nested_event(self.data, at, self._window(at)):
                raise BadEventError("interleaved")
            return self._container(at, depth + 1, pieces)
        at, value = self.value(at, place, depth)
        pieces.append(self.json(value))
        return at

    def _window(self, at: int) -> int:
        """Returns the end of what may be looked at from an offset, the same wherever the blocks of the file end."""
        if at + LOOKAHEAD > self.end and not self.final:
            raise OutOfDataError
        return min(at + LOOKAHEAD, self.end)

    # Strings.

    def string(self, at: int, place: Place) -> tuple[int, str]:
        """Returns where the string at an offset ends (past its quote), and its text."""
        if self.mode == Mode.STRICT:
            match = _CLEAN.match(self.data, at, self.end)
            if match is not None:
                return match.end(), match[1].decode()
        stop, end, repaired = self._string_end(at + 1, place)
        text, escapes = decode_string(self.data[at + 1 : stop], self.notes)
        if repaired or escapes:
            self.notes.append("repaired_string")
        return end, text

    def _string_end(self, start: int, place: Place) -> tuple[int, int, bool]:
        """Returns where the text of a string ends, where to go on, and whether that took a repair."""
        at = start
        repaired = False
        while True:
            match = _STOP.search(self.data, at, self.end)
            if match is None:
                raise OutOfDataError
            at = match.start()
            if match[0] == b"\\":
                quote = self.byte(at + 1) == b'"'
                if quote and self.mode != Mode.STRICT and self._ends_escaped(at + 2, place):
                    return at + 1, at + 2, True
                at += 2
                continue
            # Keys are chosen by programs: a quote in one is more likely to be where damage begins.
            if self.mode == Mode.STRICT or place == Place.KEY or self._ends(at + 1, place):
                return at, at + 1, repaired
            comma = self._missing_quote(start, at)
            if comma is not None and place == Place.MEMBER:
                return *comma, True
            repaired = True
            at += 1

    def _ends(self, at: int, place: Place) -> bool:
        """Whether the quote before an offset may end a string."""
        end = self._window(at)
        closing = b"}" if place == Place.MEMBER else b"]"
        return value_ends(self.data, at, end, closing, last=self.last and end == self.end)

    def _ends_escaped(self, at: int, place: Place) -> bool:
        r"""Whether the quote before an offset ends a string although a backslash is before it, as in ``"C:\"``."""
        if place != Place.MEMBER:
            return False
        end = self._window(at)
        if next_member(self.data, at, end):
            return True
        return self.mode == Mode.BACKSLASHES and closes(self.data, at, end, b"}", last=self.last and end == self.end)

    def _missing_quote(self, start: int, at: int) -> tuple[int, int] | None:
        """Where a string without closing quote ended, if the quote at an offset opens the next member of the event."""
        window = self._window(at)
        if opens_top_member(self.data, at, window):
            raise BadEventError("bad_event")
        if not opens_member(self.data, at, window):
            return None
        before = self.data[max(start, at - LOOKAHEAD) : at].rstrip(b" \t\n\r")
        if before.endswith(b"{"):
            raise BadEventError("interleaved")
        if before.endswith(b'"'):
            raise BadEventError("bad_event")
        if not before.endswith(b","):
            return None
        comma = max(start, at - LOOKAHEAD) + len(before) - 1
        return start + len(self.data[start:comma].rstrip(b" \t\n\r")), comma
