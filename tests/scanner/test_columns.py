"""A whole trace: where each member of an event goes."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from stallscope.collectors.importers.scanner import (
    FLOW_CODE_BASE,
    KNOWN_INTEGERS,
    NUMBER_COLUMNS,
    Limits,
    StringTable,
)
from stallscope.collectors.importers.scanner import scan as scan_file
from stallscope.collectors.importers.scanner.python_scanner import PythonScanner

from .scans import Found, NativeScanner

Scan = Callable[..., Found]

KERNEL = {
    "ph": "X",
    "cat": "kernel",
    "name": "void gemm<float>(float*)",
    "pid": 0,
    "tid": 7,
    "ts": 5924112352.5,
    "dur": 1.25,
    "args": {
        "External id": 1,
        "device": 0,
        "context": 1,
        "stream": 7,
        "correlation": 1001,
        "grid": [512, 1, 1],
        "blocks per SM": 0.5,
        "name": "é\n",
    },
}


def trace(*events: object, **members: object) -> bytes:
    return json.dumps({"schemaVersion": 1, "traceEvents": list(events), **members}).encode()


def test_an_event_with_everything(scan: Scan) -> None:
    found = scan(trace(KERNEL))
    assert found.damage == {}
    assert found.metadata == {"schemaVersion": 1}
    assert found.events == [
        {
            "offset": 37,
            "ph": "X",
            "name": "void gemm<float>(float*)",
            "category": "kernel",
            "process": "0",
            "thread": "7",
            "ts": 5924112352500,
            "dur": 1250,
            "external_id": 1,
            "device": 0,
            "context": 1,
            "stream": 7,
            "correlation": 1001,
            "rest": {"grid": [512, 1, 1], "blocks per SM": 0.5, "name": "é\n"},
        }
    ]


def test_an_event_with_nothing(scan: Scan) -> None:
    found = scan(b'{"traceEvents":[{},{"args":{}}]}')
    assert found.events == [{"offset": 16}, {"offset": 19}]
    assert found.damage == {}


def test_numbers_and_strings_have_the_same_code(scan: Scan) -> None:
    found = scan(trace({"pid": 7, "tid": "7"}, {"pid": "7", "tid": 7}, {"pid": "", "tid": None}))
    assert [event.get("process") for event in found.events] == ["7", "7", ""]
    assert [event.get("thread") for event in found.events] == ["7", "7", None]
    assert found.strings == ["7", ""]


def test_strings_enter_the_table_in_a_fixed_order(scan: Scan) -> None:
    event = {"s": "t", "id": "0x1", "tid": "thread", "pid": "process", "cat": "category", "name": "name"}
    assert scan(trace(event)).strings == ["name", "category", "process", "thread", "0x1", "t"]


def test_a_table_of_strings_is_continued(scan: Scan) -> None:
    strings = StringTable()
    strings.values.extend(["a", "b"])
    found = scan(trace({"name": "b"}, {"name": "c"}), strings=strings)
    assert strings.values == ["a", "b", "c"]
    assert found.names == ["b", "c"]


@pytest.mark.parametrize(
    ("text", "flow"),
    [
        ("0", 0),
        ("12", 12),
        ('"12"', 12),
        (str((1 << 62) - 1), (1 << 62) - 1),
        (str(1 << 62), str(1 << 62)),
        ("-1", "-1"),
        ('"012"', "012"),
        ("1.0", "1.0"),
        ('"0x1f"', "0x1f"),
        ('{"local": 5}', '{"local":5}'),
        ("99999999999999999999999", "99999999999999999999999"),
    ],
)
def test_flow_ids(scan: Scan, text: str, flow: int | str) -> None:
    found = scan(f'{{"traceEvents":[{{"ph":"s","id":{text}}}]}}'.encode())
    assert found.events[0]["flow_id"] == flow
    assert found.damage == {}


def test_a_flow_id_that_is_text_lies_beyond_all_numbers(scan: Scan) -> None:
    batch = scan(trace({"id": "x"})).batches[0]
    assert batch.flow_id[0] == FLOW_CODE_BASE


@pytest.mark.parametrize("key", KNOWN_INTEGERS)
def test_known_integers(scan: Scan, key: str) -> None:
    values = [0, -1, 5, (1 << 63) - 1, -(1 << 63)]
    found = scan(trace(*({"ph": "X", "args": {key: value}} for value in values)))
    column = KNOWN_INTEGERS[key]
    assert [event[column] for event in found.events] == values
    assert all("rest" not in event for event in found.events)
    assert tuple(found.batches[0].numbers) == NUMBER_COLUMNS


def test_integers_as_strings(scan: Scan) -> None:
    found = scan(trace({"args": {"bytes": "366", "stream_id": "-3"}}))
    assert found.events[0]["bytes"] == 366
    assert found.events[0]["stream"] == -3


def test_an_address_keeps_its_bits(scan: Scan) -> None:
    found = scan(trace({"args": {"Addr": (1 << 64) - 1}}, {"args": {"Addr": 1 << 63}}, {"args": {"Addr": 1 << 64}}))
    values, present = found.batches[0].numbers["address"]
    assert present.tolist() == [True, True, False]
    assert values.view(np.uint64).tolist() == [(1 << 64) - 1, 1 << 63, 0]
    assert found.events[2]["rest"] == {"Addr": 1 << 64}


@pytest.mark.parametrize("value", [1 << 63, 1.5, "x", "1 ", "", None, True, [1], {"a": 1}, 7.0])
def test_what_is_no_integer_stays_in_the_rest(scan: Scan, value: object) -> None:
    found = scan(trace({"args": {"correlation": value, "device": 1}}))
    assert found.events == [{"offset": 37, "device": 1, "rest": {"correlation": value}}]


def test_integers_that_nothing_refers_to_are_dropped(scan: Scan) -> None:
    found = scan(trace({"args": {"Record function id": 5}}, {"args": {"Record function id": "x"}}))
    assert "rest" not in found.events[0]
    assert found.events[1]["rest"] == {"Record function id": "x"}


@pytest.mark.parametrize("value", ["text", None, [1, 2], 5, True])
def test_args_that_are_no_object(scan: Scan, value: object) -> None:
    found = scan(trace({"ph": "C", "args": value}))
    assert found.events[0]["rest"] == {"value": value}


def test_members_without_a_column_go_to_the_rest(scan: Scan) -> None:
    found = scan(trace({"id2": {"local": "0x1"}, "tts": 5, "bp": "e", "args": {"a": 1}, "cname": "good"}))
    assert found.events[0]["rest"] == {"id2": {"local": "0x1"}, "tts": 5, "a": 1, "cname": "good"}


def test_of_equal_keys_the_last_wins(scan: Scan) -> None:
    found = scan(
        b'{"a":1,"a":2,"traceEvents":[{"name":"x","ts":1,"name":"y","ts":2,"tid":1,"tid":null,'
        b'"args":{"k":1,"m":0,"k":[2],"device":1,"device":2},"args":{"k":3}}]}'
    )
    assert found.metadata == {"a": 2}
    assert found.events[0] | {"offset": 0} == {
        "offset": 0,
        "name": "y",
        "ts": 2000,
        "device": 2,
        "rest": {"k": 3, "m": 0},
    }
    assert found.batches[0].rest_values == ['{"k":3,"m":0}']


def test_equal_keys_among_many(scan: Scan) -> None:
    args = ",".join(f'"{i % 150}":{i}' for i in range(400))
    found = scan(f'[{{"args":{{{args}}}}}]'.encode())
    pairs = json.loads(found.batches[0].rest_values[0], object_pairs_hook=list)
    assert pairs == [(str(key), key + 300 if key < 100 else key + 150) for key in range(150)]


def test_the_rest_is_compact_and_keeps_numbers_as_written(scan: Scan) -> None:
    found = scan(b'[{"args": { "a" : [ 1.50 , {"b" : -0.0e+5} ] , "c" : "x  y" }}]')
    assert found.batches[0].rest_values == ['{"a":[1.50,{"b":-0.0e+5}],"c":"x  y"}']


def test_rest_texts_are_shared_within_a_batch(scan: Scan) -> None:
    events = [{"args": {"a": i % 2}} for i in range(10)] + [{}]
    found = scan(trace(*events), limits=Limits(batch_events=4))
    assert [batch.rest.tolist() for batch in found.batches] == [[0, 1, 0, 1], [0, 1, 0, 1], [0, 1, -1]]
    assert [batch.rest_values for batch in found.batches] == [['{"a":0}', '{"a":1}']] * 3
    assert [batch.rest_array().to_pylist() for batch in found.batches] == [['{"a":0}', '{"a":1}']] * 3


def test_metadata_before_and_after_the_events(scan: Scan) -> None:
    found = scan(
        b'{"before": {"x": [1, 2.5, "\\u00e9"]}, "traceEvents": [{"ph":"X"}],'
        b' "baseTimeNanoseconds": 1727739614000000001, "distributedInfo": {"rank": 3}, "none": null}'
    )
    assert found.metadata == {
        "before": {"x": [1, 2.5, "é"]},
        "baseTimeNanoseconds": 1727739614000000001,
        "distributedInfo": {"rank": 3},
        "none": None,
    }
    assert found.damage == {}


def test_several_lists_of_events(scan: Scan) -> None:
    found = scan(b'{"traceEvents":[{"name":"a"}],"x":1,"traceEvents":[{"name":"b"}],"y":2}')
    assert found.names == ["a", "b"]
    assert found.metadata == {"x": 1, "y": 2}
    assert found.damage == {}


def test_a_list_without_a_document(scan: Scan) -> None:
    found = scan(b' [ {"name":"a"} , {"name":"b"} ] \n')
    assert found.names == ["a", "b"]
    assert found.damage == {}


def test_no_events(scan: Scan) -> None:
    assert scan(b'{"traceEvents":[]}').damage == {}
    assert scan(b"[]").damage == {}


def test_which_scanner_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STALLSCOPE_SCANNER", "python")
    assert type(scan_file([])) is PythonScanner
    monkeypatch.delenv("STALLSCOPE_SCANNER")
    assert type(scan_file([])) is (NativeScanner or PythonScanner)
