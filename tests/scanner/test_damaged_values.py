"""Numbers, words and time stamps that are no JSON, or not what they should be."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .scans import SCANNERS, Found, scan_with

Scan = Callable[..., Found]

INT64 = range(-(1 << 63), 1 << 63)


def with_ts(text: str) -> bytes:
    return f'[{{"ph":"X","ts":{text},"dur":{text},"name":"n"}}]'.encode()


@pytest.mark.parametrize("text", ["NaN", "nan", "-nan", "Infinity", "-Infinity", "inf", "+INF", "1.#INF", "-nan(ind)"])
def test_not_finite(scan: Scan, text: str) -> None:
    found = scan(
        f'[{{"ph":"X","ts":{text},"dur":"{text}","pid":{text},"name":"n",'
        f'"args":{{"bandwidth":{text},"stream":{text},"list":[1,{text}]}}}}]'.encode()
    )
    assert found.events == [
        {
            "offset": 1,
            "ph": "X",
            "name": "n",
            "rest": {"bandwidth": None, "stream": None, "list": [1, None]},
        }
    ]
    assert found.damage == {"not_finite": 6}


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("True", True),
        ("False", False),
        ("None", None),
        ("0x1f", "0x1f"),
        ("007", "007"),
        (".5", ".5"),
        ("5.", "5."),
        ("+5", "+5"),
        ("1e", "1e"),
        ("undefined", "undefined"),
        ("\x01", "\x01"),
    ],
)
def test_words_that_are_no_json(scan: Scan, text: str, kept: object) -> None:
    found = scan(f'[{{"ph":"X","args":{{"k":{text},"l":[{text}]}}}}]'.encode())
    assert found.events[0]["rest"] == {"k": kept, "l": [kept]}
    assert found.damage == {"bad_value": 2}


def test_words_with_bytes_that_are_no_text(scan: Scan) -> None:
    found = scan(b'[{"ph":"X","pid":\xff\xfe,"args":{"k":a\xffb}}]')
    assert found.events[0]["process"] == "\ufffd\ufffd"
    assert found.events[0]["rest"] == {"k": "a\ufffdb"}


def test_integers_beyond_64_bits_are_kept_as_written(scan: Scan) -> None:
    found = scan(b'[{"args":{"Comms Id":123456789012345678901234567890,"correlation":18446744073709551616}}]')
    assert found.events[0]["rest"] == {"Comms Id": 123456789012345678901234567890, "correlation": 1 << 64}
    assert found.damage == {}


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("0", 0),
        ("1", 1000),
        ("-1", -1000),
        ("0.001", 1),
        ("0.0009", 0),
        ("-0.0019", -1),
        ("5924112352.500", 5924112352500),
        ("1727739614000000.123", 1727739614000000123),
        ("1727739614000000.1239999", 1727739614000000123),
        ("1.5e9", 1500000000000),
        ("15E-1", 1500),
        ("1e-3", 1),
        ("1e-4", 0),
        ("0e999999999999", 0),
        ("1e-999999999999", 0),
        ("9223372036854775.807", (1 << 63) - 1),
        ("-9223372036854775.808", -(1 << 63)),
        ("00012.5", 12500),
        (".5", 500),
        ("5.", 5000),
        ("+5", 5000),
        ('"123.4"', 123400),
        ('" 123.4 "', 123400),
        ('"1e3"', 1000000),
    ],
)
def test_time_stamps(scan: Scan, text: str, ns: int) -> None:
    found = scan(with_ts(text))
    assert found.events == [{"offset": 1, "ph": "X", "name": "n", "ts": ns, "dur": ns}]
    assert found.damage == {}


@pytest.mark.parametrize(
    "text", ["9223372036854775.808", "-9223372036854775.809", "1e300", "-1e99999999999", "9" * 900]
)
def test_time_stamps_beyond_int64(scan: Scan, text: str) -> None:
    found = scan(with_ts(text))
    assert found.events == [{"offset": 1, "ph": "X", "name": "n"}]
    assert found.damage == {"time_overflow": 2}


@pytest.mark.parametrize(
    "text", ["true", '""', '"abc"', '"1 2"', "[1]", '{"a":1}', "1.2.3", "--1", "0x10", '"1e"', "-", '"."']
)
def test_what_is_no_time(scan: Scan, text: str) -> None:
    found = scan(with_ts(text))
    assert found.events == [{"offset": 1, "ph": "X", "name": "n"}]
    assert found.damage == {"bad_time": 2}


def test_null_is_no_damage(scan: Scan) -> None:
    found = scan(b'[{"ph":null,"name":null,"ts":null,"dur":null,"id":null,"pid":null}]')
    assert found.events == [{"offset": 1}]
    assert found.damage == {}


@pytest.mark.parametrize(
    ("text", "phase"), [('"X"', "X"), ('""', None), ('"XX"', None), ("5", None), ('"é"', None), ("[]", None)]
)
def test_phases(scan: Scan, text: str, phase: str | None) -> None:
    found = scan(f'[{{"ph":{text},"name":"n"}}]'.encode())
    assert found.events[0].get("ph") == phase
    assert found.names == ["n"]


def test_labels_that_are_no_strings(scan: Scan) -> None:
    found = scan(b'[{"name":[1, {"a": 2}],"cat":true,"pid":7.0,"tid":-1,"s":{}}]')
    assert found.events == [
        {"offset": 1, "name": '[1,{"a":2}]', "category": "true", "process": "7.0", "thread": "-1", "scope": "{}"}
    ]


DECIMALS = st.from_regex(r"-?(0|[1-9][0-9]{0,18})(\.[0-9]{1,8})?([eE][+-]?[0-9]{1,2})?", fullmatch=True)


@pytest.mark.parametrize("scanner", SCANNERS)
@given(text=DECIMALS)
def test_time_stamps_are_exact(scanner: str, text: str) -> None:
    """Against Decimal, as the reference of the shared traces does it."""
    ns = int(Decimal(text) * 1000)
    event = scan_with(scanner, with_ts(text)).events[0]
    assert event.get("ts") == (ns if ns in INT64 else None)


@pytest.mark.parametrize("scanner", SCANNERS)
@given(ns=st.integers(-(1 << 63), (1 << 63) - 1))
def test_every_ns_survives(scanner: str, ns: int) -> None:
    sign, (us, rest) = "-" if ns < 0 else "", divmod(abs(ns), 1000)
    assert scan_with(scanner, with_ts(f"{sign}{us}.{rest:03}")).events[0]["ts"] == ns
