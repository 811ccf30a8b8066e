"""Strings that are no JSON: what a reader sees instead, and that it is counted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .scans import Found

Scan = Callable[..., Found]


def event_with(name: bytes) -> bytes:
    return (
        b'{"traceEvents":[{"ph":"X","name":"before","ts":1},{"ph":"X","name":'
        + name
        + b',"ts":2,"args":{"k":'
        + name
        + b',"stream":7}},{"ph":"X","name":"after","ts":3}],"last":1}'
    )


REPAIRED = [
    # Escapes that JSON does not know.
    (rb'"a\xb"', r"a\xb"),
    (rb'"a\u12G"', r"a\u12G"),
    (rb'"\u"', r"\u"),
    (rb'"a\u00e9\q"', "aé\\q"),
    # Windows paths with bare backslashes, also where every escape is one of JSON's.
    (rb'"C:\Users\name\temp.py(12): f"', r"C:\Users\name\temp.py(12): f"),
    (rb'"C:\temp\new"', r"C:\temp\new"),
    (rb'"D:\python\lib\"', "D:\\python\\lib\\"),
    (rb'"\\server\share"', r"\server\share"),
    # Quotes inside.
    (b'"foo("bar")"', 'foo("bar")'),
    (b'"foo("bar", "baz")"', 'foo("bar", "baz")'),
    (b'"<lambda x: x["key"]>"', '<lambda x: x["key"]>'),
    (b'"{"a": 1}"', '{"a": 1}'),
    (b'"""', '"'),
]


@pytest.mark.parametrize(("written", "meant"), REPAIRED)
def test_repaired(scan: Scan, written: bytes, meant: str) -> None:
    found = scan(event_with(written))
    assert found.names == ["before", meant, "after"]
    assert found.events[1]["rest"] == {"k": meant}
    assert found.events[1]["ts"] == 2000
    assert found.events[1]["stream"] == 7
    assert found.damage == {"repaired_string": 2}
    assert found.damage_offsets == {"repaired_string": found.events[1]["offset"]}
    assert found.metadata == {"last": 1}


VALID = [
    (rb'"a\"b"', 'a"b'),
    (rb'"\"\\\/\b\f\n\r\t\u0041"', '"\\/\b\f\n\r\tA'),
    (rb'"C:\\temp\\new"', r"C:\temp\new"),
    (rb'"\ud83d\ude00\u20ac"', "\U0001f600€"),
    ('"\U0001f600é"'.encode(), "\U0001f600é"),
    (rb'"{\"a\": \"b\"}, {\"ph\": 1"', '{"a": "b"}, {"ph": 1'),
    (rb'"x\\"', "x\\"),
    (b'""', ""),
    (b'"\x7f"', "\x7f"),
]


@pytest.mark.parametrize(("written", "meant"), VALID)
def test_valid_strings_are_not_repaired(scan: Scan, written: bytes, meant: str) -> None:
    found = scan(event_with(written))
    assert found.names == ["before", meant, "after"]
    assert found.events[1]["rest"] == {"k": meant}
    assert found.damage == {}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (b'"a\xffb"', "a\ufffdb"),
        (b'"\xc3\xa9\xc3"', "é\ufffd"),
        (b'"\xf0\x9f\x98"', "\ufffd"),
        (b'"\xed\xa0\x80"', "\ufffd\ufffd\ufffd"),
        (b'"\xc0\xaf"', "\ufffd\ufffd"),
        (b'"\xf4\x90\x80\x80"', "\ufffd\ufffd\ufffd\ufffd"),
        (rb'"\ud83d"', "\ufffd"),
        (rb'"\ude00\ud83d x"', "\ufffd\ufffd x"),
        (rb'"\ud83d\ud83d\ude00"', "\ufffd\U0001f600"),
    ],
)
def test_bad_utf8(scan: Scan, written: bytes, meant: str) -> None:
    found = scan(event_with(written))
    assert found.names == ["before", meant, "after"]
    assert found.events[1]["rest"] == {"k": meant}
    assert found.damage == {"bad_utf8": 2}


def test_texts_that_only_differ_in_bad_bytes_are_one_text(scan: Scan) -> None:
    found = scan(b'[{"name":"a\xff"},{"name":"a\xfe"}]')
    assert found.batches[0].name.tolist() == [0, 0]


@pytest.mark.parametrize("control", [b"\n", b"\t", b"\x00", b"\x1f", b"a\r\nb\x0b"])
def test_control_characters(scan: Scan, control: bytes) -> None:
    found = scan(event_with(b'"a' + control + b'b"'))
    meant = f"a{control.decode()}b"
    assert found.names == ["before", meant, "after"]
    assert found.events[1]["rest"] == {"k": meant}
    assert found.damage == {"control_character": 2}


def test_a_lone_backslash_before_the_last_quote_of_an_object(scan: Scan) -> None:
    found = scan(rb'{"traceEvents":[{"ph":"X","args":{"path":"C:\dir\"}},{"ph":"X","name":"after"}]}')
    assert found.events[0]["rest"] == {"path": "C:\\dir\\"}
    assert found.names == [None, "after"]
    assert found.damage == {"repaired_string": 1}


def test_embedded_json_is_kept_where_another_string_is_repaired(scan: Scan) -> None:
    found = scan(
        rb'[{"ph":"X","name":"f("x")","args":{"conf":"[{\"a\": \"b\"}, {\"c\": 1}]","n":1}},{"ph":"X","name":"after"}]'
    )
    assert found.events[0]["rest"] == {"conf": '[{"a": "b"}, {"c": 1}]', "n": 1}
    assert found.names == ['f("x")', "after"]
    assert found.damage == {"repaired_string": 1}


@pytest.mark.parametrize("between", [b", ", b",\n    ", b","])
def test_no_closing_quote(scan: Scan, between: bytes) -> None:
    found = scan(
        b'[{"name": "first"}, {"ph": "X", "name": "void gemm<float, 3>(int, long)' + between + b'"ts": 5, "dur": 1,'
        b' "pid": "CUDA functions' + between + b'"tid": 3, "args": {"a": 1}}, {"name": "last"}]'
    )
    assert found.events[1] | {"offset": 0} == {
        "offset": 0,
        "ph": "X",
        "name": "void gemm<float, 3>(int, long)",
        "process": "CUDA functions",
        "thread": "3",
        "ts": 5000,
        "dur": 1000,
        "rest": {"a": 1},
    }
    assert found.names == ["first", "void gemm<float, 3>(int, long)", "last"]
    assert found.damage == {"repaired_string": 2}


def test_no_closing_quote_at_the_end_of_an_event(scan: Scan) -> None:
    found = scan(b'[{"ph": "X", "name": "first}, {"ph": "X", "name": "second"}, {"ph": "X", "name": "third"}]')
    assert found.names == ["second", "third"]
    assert sum(found.damage.values()) == 1


def test_quotes_in_lists(scan: Scan) -> None:
    found = scan(b'[{"ph":"X","args":{"a": ["x", "f("y")", "z"], "b": ["g("u")"]}}]')
    assert found.events[0]["rest"] == {"a": ["x", 'f("y")', "z"], "b": ['g("u")']}
    assert found.damage == {"repaired_string": 2}


def test_metadata_is_repaired_too(scan: Scan) -> None:
    found = scan(b'{"a":"x("y")","b":"C:\\dir\\","traceName":"C:\\temp\\t.json","traceEvents":[{"ph":"X"}],"c":NaN}')
    assert found.metadata == {"a": 'x("y")', "b": "C:\\dir\\", "traceName": "C:\\temp\\t.json", "c": None}
    assert len(found.events) == 1
    assert found.damage == {"repaired_string": 3, "not_finite": 1}
