"""The two scanners give the same, to the byte, whatever they are fed, in whatever blocks; never less than is whole."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stallscope.collectors.importers.scanner import Limits

from .scans import SCANNERS, Found, assert_same, events_without_position, scan_with

pytestmark = pytest.mark.skipif("native" not in SCANNERS, reason="the native scanner is not built")

HEAD = b'{\n  "schemaVersion": 1, "deviceProperties": [\n {"id": 0, "name": "V100"}],\n  "traceEvents": [\n'
EVENTS = [
    b"""{
    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 12, "tid": 13,
    "ts": 5924112347.678, "dur": 6.082,
    "args": {
      "External id": 1,"Record function id": 0, "Input Dims": [[4096, 1], []], "Ev Idx": 0
    }
  }""",
    rb'{"ph":"X","cat":"kernel","name":"void f<int>(char*, \"x\")","pid":0,"tid":7,"ts":5,"dur":1e1,"args":{"stream":7,'
    rb'"correlation":5,"grid":[1,1,1],"o":{"p":{"q":null}},"bandwidth":1.5,"path":"C:\\dir\\f.py"}}',
    b'{"ph": "s", "id": 5, "pid": 12, "tid": "13", "ts": "5924112347.828", "cat": "ac2g", "name": "ac2g"}',
    b'{"ph": "f", "id": "0x5", "pid": 0, "tid": 7, "ts": -5.0, "cat": "ac2g", "name": "ac2g", "bp": "e"}',
    '{"name": "thread_name", "ph": "M", "ts": 0, "pid": "Spans", "tid": "", "args": {"name": "é\U0001f600"}}'.encode(),
    b'{"ph":"i","s":"t","name":"[memory]","ts":1.1,"args":{"Bytes":-512,"Addr":18446744073709551615,"Device Type":1}}',
    rb'{"ph":"C","args":"text","name":"n\u00e9\ud83d\ude00","id2":{"local":"0x1"}}',
    b"{}",
]
TAIL = b'\n  ],\n  "traceName": "/tmp/t.json", "baseTimeNanoseconds": 1727739614000000000\n}\n'
WHOLE = HEAD + b",\n  ".join(EVENTS) + TAIL

# What damage is made of: bytes that mean something to a scanner, and pieces of events.
PIECES = [bytes([byte]) for byte in b'{}[]",:\\ \n\t0e-.N\x00\xff\xc3u'] + [
    b'"ph":"X"',
    b'{"ph":"X","name":"y"}',
    b'{"name"',
    b'"ts":',
    b'"args":{',
    b'\\"',
    b"\\u12",
    b"\\ud83d",
    b"NaN",
    b"-Infinity",
    b'"traceEvents":[',
    b'"traceName":"t"',
    b"]}",
    b"},{",
    b'"}, {"',
    b"\xf0\x9f\x98\x80",
    b"   ",
    b'",\n"ts":5',
    b'"a","b"',
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """The whole trace after some cuts, insertions, replacements, repetitions and swaps."""
    raw = bytearray(WHOLE)
    for _ in range(draw(st.integers(1, 6))):
        at = draw(st.integers(0, len(raw)))
        length = draw(st.sampled_from([0, 1, 1, 2, 5, 30, 200]))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            del raw[at : at + length]
        elif kind == 1:
            raw[at:at] = draw(st.sampled_from(PIECES))
        elif kind == 2:
            raw[at : at + length] = draw(st.sampled_from(PIECES))
        elif kind == 3:
            raw[at:at] = raw[at : at + length]
        else:
            other = draw(st.integers(0, len(raw)))
            raw[at:at] = raw[other : other + length]
    if draw(st.booleans()):
        del raw[draw(st.integers(0, len(raw))) :]
    return bytes(raw)


def both(raw: bytes, *, size: int = 1 << 20, limits: Limits | None = None) -> Found:
    """Scans with both scanners, asserts that they agree, and returns what they found."""
    native = scan_with("native", raw, size=size, limits=limits)
    assert_same(native, scan_with("python", raw, size=size, limits=limits))
    return native


def whole_events(raw: bytes) -> int:
    """How many events of a cut, valid trace are whole, counted with the standard library alone."""
    text = raw.decode(errors="ignore")
    start = text.find('"traceEvents": [')
    if start < 0:
        return 0
    at = start + len('"traceEvents": [')
    decoder = json.JSONDecoder()
    count = 0
    while True:
        while at < len(text) and text[at] in " \n,":
            at += 1
        try:
            value, at = decoder.raw_decode(text, at)
        except ValueError:
            return count
        count += isinstance(value, dict)


MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@MANY
@given(raw=damaged())
def test_damaged_traces(raw: bytes) -> None:
    both(raw)


@MANY
@given(raw=damaged(), size=st.sampled_from([1, 2, 7, 64, 513, 4096]))
def test_blocks_do_not_matter(raw: bytes, size: int) -> None:
    assert_same(both(raw, size=size), scan_with("native", raw))


SMALL = st.builds(
    Limits,
    event_bytes=st.integers(1, 400),
    repair_bytes=st.integers(1, 400),
    strings=st.integers(0, 10),
    string_bytes=st.integers(0, 100),
    metadata_bytes=st.integers(0, 100),
    batch_events=st.integers(1, 5),
    batch_bytes=st.integers(0, 300),
)


@MANY
@given(raw=damaged(), limits=SMALL, size=st.sampled_from([1, 100, 1 << 20]))
def test_limits(raw: bytes, limits: Limits, size: int) -> None:
    both(raw, size=size, limits=limits)


@MANY
@given(raw=st.lists(st.sampled_from([*PIECES, *EVENTS, HEAD]), max_size=40).map(b"".join))
def test_heaps_of_pieces(raw: bytes) -> None:
    both(raw)


@MANY
@given(body=st.lists(st.sampled_from(PIECES) | st.binary(max_size=4), max_size=12).map(b"".join))
def test_strings(body: bytes) -> None:
    both(b'[{"ph":"X","name":"' + body + b'","ts":1,"args":{"k":"' + body + b'"}},{"ph":"X","name":"after"}]')


@MANY
@given(token=st.text("0123456789+-.eEnaifx", max_size=24))
def test_numbers(token: str) -> None:
    both(
        f'[{{"ts":{token},"dur":"{token}","pid":{token},"id":{token},"args":{{"k":{token},"stream":{token}}}}}]'.encode()
    )


ELEMENTS = [
    "1",
    "-0",
    "2.5e3",
    "01",
    "1.",
    "-",
    "null",
    "nullx",
    "true",
    "NaN",
    '"a b"',
    '"\\n"',
    '"',
    "[",
    "]",
    "{}",
    ",",
    " ",
]


@MANY
@given(items=st.lists(st.sampled_from(ELEMENTS), max_size=12), separator=st.sampled_from(["", ",", " , "]))
def test_lists(items: list[str], separator: str) -> None:
    both(f'[{{"ph":"X","args":{{"k":[{separator.join(items)}]}}}},{{"ph":"X","name":"after"}}]'.encode())


def test_cuts_keep_every_whole_event() -> None:
    whole = scan_with("native", WHOLE)
    assert whole.damage == {}
    assert len(whole.events) == len(EVENTS)
    for cut in range(len(WHOLE)):
        found = both(WHOLE[:cut])
        assert found.events == whole.events[: whole_events(WHOLE[:cut])]


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_a_whole_trace_in_blocks(size: int) -> None:
    assert_same(both(WHOLE, size=size), scan_with("native", WHOLE))


def test_a_byte_of_damage_costs_at_most_the_event_it_is_in() -> None:
    """A byte inserted, lost or changed: each other event is found as it is without the damage."""
    rng = random.Random(5)
    raw = HEAD + b",\n  ".join(EVENTS[:-1] * 3) + TAIL
    whole = keys(scan_with("native", raw))
    for _ in range(400):
        at = rng.randrange(len(HEAD), len(raw) - len(TAIL))
        byte = rng.choice([bytes([byte]) for byte in b'{}[]":,\\x\n\x00\xff']) if rng.random() < 0.8 else b""
        damaged = raw[:at] + byte + raw[at + rng.randrange(2) :]
        found = keys(both(damaged))
        assert (whole - found).total() <= 1
        assert (found - whole).total() <= 1


def keys(found: Found) -> Counter[str]:
    """The events, without where they are, and how often each is there."""
    return Counter(json.dumps(event, sort_keys=True) for event in events_without_position(found))
