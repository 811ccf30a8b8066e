"""Files that are cut, mixed, or something else: every whole event is kept, and the rest is counted."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from stallscope.collectors.importers.scanner import Limits

from .scans import SCANNERS, Found, scan_with

Scan = Callable[..., Found]

A = b'{"ph":"X","name":"a","ts":1,"args":{"k":[1,{"x":"}"}]}}'
B = b'{"name":"b","ph":"M","args":{"name":"python"}}'
C = b'{"ph":"i","name":"c","ts":3}'


@pytest.mark.parametrize("raw", [b"", b" \n\t ", b"\xef\xbb\xbf", b",\n"])
def test_empty(scan: Scan, raw: bytes) -> None:
    found = scan(raw)
    assert found.batches == []
    assert found.damage == {"empty": 1}


def test_byte_order_mark(scan: Scan) -> None:
    found = scan(b'\xef\xbb\xbf{"traceEvents":[' + A + b"]}")
    assert found.names == ["a"]
    assert found.events[0]["offset"] == 19
    assert found.damage == {}


@pytest.mark.parametrize(
    "raw",
    [b'{"nodes":[{"id":1,"name":"x"}],"schema":"1.0"}', b"{}", b'{"traceEvents":null}', b'{"traceEvents":{"a":1}}'],
)
def test_no_trace_events(scan: Scan, raw: bytes) -> None:
    found = scan(raw)
    assert found.batches == []
    assert found.damage == {"no_trace_events": 1}
    assert "traceEvents" not in found.metadata


def test_metadata_of_a_file_without_events(scan: Scan) -> None:
    assert scan(b'{"schema":"1.0","nodes":[]}').metadata == {"schema": "1.0", "nodes": []}


@pytest.mark.parametrize(
    "raw", [b"hello", b"\x00\x00\x00", b"\xff\xfe{\x00", b"}", b'"text"', b"null", b"PK\x03\x04 1"]
)
def test_no_json_at_all(scan: Scan, raw: bytes) -> None:
    found = scan(raw)
    assert found.batches == []
    assert found.damage == {"garbage": 1, "no_trace_events": 1}
    assert found.damage_offsets["garbage"] == 0


def test_cut_at_every_byte(scan: Scan) -> None:
    head = b'{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"V100"}],"traceEvents":['
    raw = head + A + b",\n" + B + b" ,\n" + C + b'],"traceName":"t.json","n":5}'
    ends = [len(head) + len(A), len(head) + len(A) + 2 + len(B), len(raw) - len(b'],"traceName":"t.json","n":5}')]
    whole = scan(raw)
    assert whole.damage == {}
    for cut in range(1, len(raw)):
        found = scan(raw[:cut])
        assert found.events == whole.events[: sum(end <= cut for end in ends)]
        expected = {"truncated": 1}
        if cut < len(head):
            expected["no_trace_events"] = 1
        assert found.damage == expected, cut
        assert found.metadata.items() <= whole.metadata.items()


def test_a_value_of_the_top_level_is_kept_where_the_file_ends_after_it(scan: Scan) -> None:
    found = scan(b'{"traceEvents":[],"distributedInfo":{"rank":5}')
    assert found.metadata == {"distributedInfo": {"rank": 5}}
    assert found.damage == {"truncated": 1}


def test_no_beginning(scan: Scan) -> None:
    raw = b'"cat":"x","ts":5},\n' + A + b"," + B + b'],"traceName":"t"}'
    found = scan(raw)
    assert found.names == ["a", "b"]
    assert found.metadata == {"traceName": "t"}
    assert found.damage == {"garbage": 1}


def test_trailing_commas(scan: Scan) -> None:
    found = scan(b'{"a":1,"traceEvents":[{"ph":"X","name":"a","args":{"l":[1,2,],"o":{"p":1,},},},],"b":2,}')
    assert found.events == [{"offset": 22, "ph": "X", "name": "a", "rest": {"l": [1, 2], "o": {"p": 1}}}]
    assert found.metadata == {"a": 1, "b": 2}
    assert found.damage == {}


@pytest.mark.parametrize(
    "bad",
    [
        b'{"ph":"X","name"}',
        b'{"ph":"X" "name":"x"}',
        b'{"ph":"X","args":{"l":[1,2}}',
        b'{"ph":"X","args":{"a":1],"b":2}}',
        b'{"ph":"X",,:}',
        b"{ph:1}",
        b'{"ph":}',
        b"null",
        b"17",
        b'"text"',
        b"[1,2]",
        b"\x00\x00\x00",
        b'{"ph":"X","ts":12\x0034:5}',
        b'{"ph":"X","ts":' + b"1" * 1001 + b"}",
    ],
)
def test_an_element_that_is_no_event(scan: Scan, bad: bytes) -> None:
    found = scan(b'{"traceEvents":[' + A + b"," + bad + b"," + B + b"," + C + b'],"traceName":"t"}')
    assert found.names == ["a", "b", "c"]
    assert found.damage == {"bad_event": 1}
    assert found.damage_offsets == {"bad_event": 16 + len(A) + 1}
    assert found.metadata == {"traceName": "t"}


def test_the_last_event_is_bad(scan: Scan) -> None:
    found = scan(b'{"traceEvents":[' + A + b',{"ph":"X","name"}\n ],\n "traceName": "t", "x": 1}')
    assert found.names == ["a"]
    assert found.damage == {"bad_event": 1}
    assert found.metadata == {"traceName": "t", "x": 1}


def test_members_of_a_bad_event_are_no_events(scan: Scan) -> None:
    bad = b'{"ph":"M","x" "args":{"name":"python","l":[{"name":"x"},{"name":"y"}]}}'
    found = scan(b"[" + A + b"," + bad + b"," + C + b"]")
    assert found.names == ["a", "c"]
    assert found.damage == {"bad_event": 1}


@pytest.mark.parametrize(
    "torn",
    [
        b'{"ph":"X","name":"torn","args":{"grid":[1,2,',
        b'{"ph":"X","name":"torn","args":{"grid":[',
        b'{"ph":"X","name":"torn","args":{',
        b'{"ph":"X","name":"torn","args":{"a":1},',
        b'{"ph":"X","name":"torn","args":{"a":1}',
        b"{",
    ],
)
def test_an_event_begins_inside_another(scan: Scan, torn: bytes) -> None:
    found = scan(b'{"traceEvents":[' + A + b"," + torn + C + b"," + B + b'],"traceName":"t"}')
    assert found.names == ["a", "c", "b"]
    assert found.damage == {"interleaved": 1}
    assert found.metadata == {"traceName": "t"}


@pytest.mark.parametrize(
    "torn", [b'{"ph":"X","na', b'{"ph":"X","name":"to', b'{"ph":"X","ts":12.', b'{"ph":"X","cat":"k","name"']
)
def test_an_event_begins_inside_a_string_or_number(scan: Scan, torn: bytes) -> None:
    found = scan(b'{"traceEvents":[' + A + b"," + torn + C + b"," + B + b'],"traceName":"t"}')
    assert found.names == ["a", "c", "b"]
    assert sum(found.damage.values()) == 1


def test_several_processes_wrote_to_one_file(scan: Scan) -> None:
    """Each writes blocks of its own trace at the end of the file."""
    traces = []
    for rank in range(3):
        events = b",\n".join(
            b'{"ph":"X","name":"r%d-%d","ts":%d,"args":{"x":[%d]}}' % (rank, i, i, i) for i in range(60)
        )
        traces.append(b'{"schemaVersion":1,"traceEvents":[\n' + events + b'\n],"traceName":"r%d"}\n' % rank)
    size = 512
    raw = b"".join(part for start in range(0, 4096, size) for trace in traces if (part := trace[start : start + size]))
    found = scan(raw)
    assert sum(found.damage.values()) > 0
    wanted = {f"r{rank}-{i}" for rank in range(3) for i in range(60)}
    # Two halves of different events can make one without a name, which cannot be told from a whole event.
    names = [name for name in found.names if name is not None]
    assert len(names) == len(set(names))
    assert set(names) <= wanted
    assert len(wanted - set(names)) <= len(raw) // size
    assert found.metadata["schemaVersion"] == 1


def test_documents_one_after_the_other(scan: Scan) -> None:
    found = scan(b'{"rank":0,"traceEvents":[' + A + b']}\n{"rank":1,"traceEvents":[' + C + b"]}[" + B + b"]")
    assert found.names == ["a", "c", "b"]
    assert found.metadata == {"rank": 1}
    assert found.damage == {"several_documents": 2}


def test_the_longer_trace_of_two_shines_through(scan: Scan) -> None:
    """A shorter trace was written over a longer one."""
    found = scan(b'{"traceEvents":[' + A + b'],"traceName":"t"}s":5,"dur":3},' + B + b"," + C + b'],"traceName":"u"}')
    assert found.names == ["a", "b", "c"]
    assert found.damage == {"garbage": 1}
    assert found.metadata == {"traceName": "u"}


def test_events_without_a_list_around_them(scan: Scan) -> None:
    found = scan(b'{"traceEvents":[' + A + b"]}\n" + B + b"\n" + C)
    assert found.names == ["a", "b", "c"]


def test_bytes_after_the_document(scan: Scan) -> None:
    found = scan(b'{"traceEvents":[' + A + b"]}\n\x00\x00\x00\x00")
    assert found.names == ["a"]
    assert found.damage == {"garbage": 1}


def test_bad_metadata(scan: Scan) -> None:
    found = scan(b'{"good":1,"bad":{"x" 1},"deviceProperties":[],"traceEvents":[' + A + b'],"worse":],"traceName":"t"}')
    assert found.names == ["a"]
    assert found.metadata == {"good": 1, "deviceProperties": [], "traceName": "t"}
    assert found.damage == {"bad_metadata": 2}


def nested(depth: int) -> bytes:
    """An event that has so many containers one in another, itself counted."""
    inner = depth - 2
    return b'{"ph":"X","name":"deep","args":{"a":' + b"[" * inner + b"]" * inner + b"}}"


def test_depth(scan: Scan) -> None:
    found = scan(b"[" + nested(100) + b"," + nested(101) + b"," + A + b"]")
    assert found.names == ["deep", "a"]
    assert found.damage == {"too_deep": 1}


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"ph":[', b'{"cat":[', b'[{"name":'])
def test_deep_nesting_does_not_overflow(scan: Scan, opening: bytes) -> None:
    found = scan(b'[{"ph":"X","args":' + opening * 20000)
    assert found.batches == []
    assert scan(b'{"x":' + opening * 20000).batches == []


def test_a_long_event_is_skipped(scan: Scan) -> None:
    long = b'{"ph":"X","name":"long","args":{"x":"' + b"y" * 5000 + b'"}}'
    raw = b'{"traceEvents":[' + A + b"," + long + b"," + C + b"]}"
    assert scan(raw).names == ["a", "long", "c"]
    found = scan(raw, limits=Limits(event_bytes=4000))
    assert found.names == ["a", "c"]
    assert found.damage == {"oversized_event": 1}
    assert found.damage_offsets == {"oversized_event": 16 + len(A) + 1}


def test_the_limit_of_an_event_is_exact(scan: Scan) -> None:
    for length, kept in ((len(A) - 1, []), (len(A), ["a"])):
        assert scan(b"[" + A + b"]", limits=Limits(event_bytes=length)).names == kept


def test_a_long_event_is_not_repaired(scan: Scan) -> None:
    bad = b'{"ph":"X","name":"f("x")","args":{"x":"' + b"y" * 5000 + b'"}}'
    raw = b"[" + bad + b"," + C + b"]"
    assert scan(raw).names == ['f("x")', "c"]
    found = scan(raw, limits=Limits(repair_bytes=4000))
    assert found.names == ["c"]
    assert found.damage == {"bad_event": 1}


def test_long_metadata_is_skipped(scan: Scan) -> None:
    raw = b'{"x":"' + b"y" * 5000 + b'","traceName":"t","traceEvents":[' + A + b'],"z":1}'
    found = scan(raw, limits=Limits(event_bytes=4000))
    assert found.names == ["a"]
    assert found.metadata == {"traceName": "t", "z": 1}
    assert found.damage == {"bad_metadata": 1}


def test_much_metadata_is_not_kept(scan: Scan) -> None:
    found = scan(b'{"a":"xx","b":"yy","c":"zz","traceEvents":[' + A + b"]}", limits=Limits(metadata_bytes=8))
    assert found.metadata == {"a": "xx", "b": "yy"}
    assert found.damage == {"bad_metadata": 1}


def test_the_table_of_strings_is_bounded(scan: Scan) -> None:
    raw = b"[" + b",".join(b'{"name":"n%d","pid":"n0"}' % (i % 7) for i in range(9)) + b"]"
    overflow = "(not kept: the file has too many different names)"
    found = scan(raw, limits=Limits(strings=3))
    assert found.strings == ["n0", "n1", "n2", overflow]
    assert found.names == ["n0", "n1", "n2", *[overflow] * 4, "n0", "n1"]
    assert found.damage == {"string_table_full": 4}
    found = scan(raw, limits=Limits(string_bytes=9))
    assert found.strings == ["n0", "n1", "n2", "n3", overflow]


def test_batches_end_by_count_and_by_size(scan: Scan) -> None:
    events = b",".join(b'{"name":"a","args":{"x":%d}}' % i for i in range(10))
    raw = b"[" + events + b"]"
    assert [len(batch) for batch in scan(raw, limits=Limits(batch_events=4)).batches] == [4, 4, 2]
    assert [len(batch) for batch in scan(raw, limits=Limits(batch_bytes=20)).batches] == [3, 3, 3, 1]


@pytest.mark.skipif("native" not in SCANNERS, reason="the native scanner is not built")
@pytest.mark.parametrize(
    "piece",
    [
        b'{"traceName":"',
        b'{"ph":"',
        b'{"ph":[',
        b'{"cat":[{"cat":[1],',
        b'{"name":"x\\",',
        b'{"ph":"X","name":"a"b",',
        b'{"dur":{',
        b'"',
        b",\\",
    ],
)
def test_endless_damage_takes_time_in_proportion(piece: bytes) -> None:
    """Half a megabyte takes some 0.5 s at most; it would take minutes if each beginning were read to the end."""
    started = time.process_time()
    found = scan_with("native", b'{"traceEvents":[' + piece * (500_000 // len(piece)))
    assert found.batches == []
    assert time.process_time() - started < 10
