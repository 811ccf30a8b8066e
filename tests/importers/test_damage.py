"""Each kind of damage that real files have, from the file to the rows of the recording."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stallscope.collectors.importers.losses import DETAILS, severity_of
from stallscope.collectors.importers.torch_profiler import TorchProfilerImporter
from stallscope.profiler.recording.errors import FormatError
from stallscope.profiler.recording.reader import Recording, open_recording

from .small_traces import import_files, imported, kernel, losses, op, rows, slices, write

FIRST = '{"ph":"X","cat":"cpu_op","name":"first","pid":1,"tid":1,"ts":10,"dur":5,"args":{"a":1}}'
LAST = '{"ph":"X","cat":"cpu_op","name":"last","pid":1,"tid":1,"ts":90,"dur":5}'


def import_text(folder: Path, text: str | bytes, name: str = "rank0.json") -> Recording:
    file = folder / name
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return import_files(folder / "recording", file)


def between(folder: Path, middle: str | bytes) -> Recording:
    """A trace with something between two whole events."""
    data = middle if isinstance(middle, bytes) else middle.encode()
    return import_text(folder, b'{"traceEvents":[' + FIRST.encode() + b"," + data + b"," + LAST.encode() + b"]}")


EVENT = '{"ph":"X","cat":"cpu_op","name":"%s","pid":1,"tid":1,"ts":20,"dur":5,"args":{"x":%s}}'

DAMAGED = {
    "not_finite": (EVENT % ("middle", "NaN"), 3),
    "repaired_string": (EVENT % (r"mid\xdle", "1"), 3),
    "control_character": (EVENT % ("mid\x01dle", "1"), 3),
    "bad_utf8": ((EVENT % ("mid#dle", "1")).encode().replace(b"#", b"\xff"), 3),
    "bad_event": ('{"ph":"X","name":"middle","ts":20,,"dur" 5}', 2),
    "bad_time": (EVENT.replace('"ts":20', '"ts":"soon"') % ("middle", "1"), 2),
    "time_overflow": (EVENT.replace('"ts":20', '"ts":1e30') % ("middle", "1"), 2),
    "bad_value": (EVENT % ("middle", "True"), 3),
    "interleaved": ('{"ph":"X","cat":"cpu_op","name":"cut",' + (EVENT % ("middle", "1")), 3),
}


@pytest.mark.parametrize("kind", DAMAGED)
def test_damage_is_counted_and_the_whole_events_are_kept(kind: str, tmp_path: Path) -> None:
    middle, kept = DAMAGED[kind]
    recording = between(tmp_path, middle)
    names = [name for (name,) in rows(recording, "slices", "name")]
    assert len(names) == kept
    assert {"first", "last"}.issubset(names)
    assert losses(recording)[kind] >= 1
    assert [state for (state,) in rows(recording, "segments", "state")] == ["damaged"]
    for (args,) in rows(recording, "slices", "args"):
        assert args is None or isinstance(json.loads(args), dict)


def test_a_row_of_losses_says_what_and_where(tmp_path: Path) -> None:
    recording = between(tmp_path, DAMAGED["bad_event"][0])
    (row,) = [row for row in rows(recording, "losses") if row["kind"] == "bad_event"]
    assert row["severity"] == "data_loss"
    offset = len('{"traceEvents":[' + FIRST + ",")
    assert row["detail"].endswith(f"(the first at byte {offset})")
    assert row["segment_id"] == rows(recording, "segments", "segment_id")[0][0]


def test_every_kind_has_words() -> None:
    for kind in ("truncated", "without_time_stamp", "negative_duration", "device_op_without_launch"):
        assert len(DETAILS[kind].split()) > 3
    assert severity_of("truncated") == "data_loss"
    assert severity_of("negative_duration") == "warning"
    assert severity_of("device_op_without_launch") == "info"


def test_a_list_without_an_object_around_it(tmp_path: Path) -> None:
    recording = import_text(tmp_path, f"[{FIRST},{LAST}]")
    assert set(slices(recording)) == {"first", "last"}
    assert losses(recording) == {}


def test_a_byte_order_mark(tmp_path: Path) -> None:
    assert set(slices(import_text(tmp_path, b"\xef\xbb\xbf" + f"[{FIRST}]".encode()))) == {"first"}


def test_bytes_after_the_end(tmp_path: Path) -> None:
    recording = import_text(tmp_path, f'{{"traceEvents":[{FIRST}]}}{{"traceEvents":[{LAST}]}}')
    assert set(slices(recording)) == {"first", "last"}
    assert losses(recording) == {"several_documents": 1}


def test_metadata_behind_the_events(tmp_path: Path) -> None:
    text = f'{{"traceEvents":[{FIRST}],"distributedInfo":{{"rank":5,"world_size":8}},"baseTimeNanoseconds":7000}}'
    recording = import_text(tmp_path, text)
    assert recording.ranks == (5,)
    assert recording.info["world_size"] == 8
    assert rows(recording, "slices", "ts") == [(17_000,)]


def test_a_trace_without_events_is_an_empty_recording(tmp_path: Path) -> None:
    recording = imported(tmp_path, [])
    assert recording.table("slices").num_rows == 0
    assert recording.rank_info(0)["import"]["events"] == {}


@pytest.mark.parametrize("text", ['{"nodes": [], "schema": "1.0"}', '{"a": 1}'])
def test_a_file_of_something_else_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no list of trace events"):
        import_text(tmp_path, text)


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        (b"", "empty"),
        (b"<html>", "begins with neither"),
        (b'{"nodes": [{"id": 1}]}', "no trace events"),
        (b'{"schemaVersion": 1, "traceEv', None),
        (b'[{"ph": "X", "name": "a"', None),
        (b'\xef\xbb\xbf {"traceEvents": [', None),
    ],
)
def test_sniff_says_why_not(head: bytes, reason: str | None) -> None:
    answer = TorchProfilerImporter().sniff(head, "a.bin")
    assert answer is None if reason is None else answer is not None and reason in answer


def test_the_content_decides_what_is_gzip_and_what_is_a_trace(tmp_path: Path) -> None:
    import gzip

    file = tmp_path / "trace.txt"
    file.write_bytes(gzip.compress(f'{{"traceEvents":[{FIRST}]}}'.encode()))
    assert rows(open_recording(file), "slices", "name") == [("first",)]


def test_a_negative_duration_becomes_none_and_the_original_stays_in_args(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("backwards", 10, -3, y=1), op("after", 20, 1)])
    row = slices(recording)["backwards"]
    assert (row["kind"], row["dur"]) == ("complete", 0)
    assert json.loads(row["args"]) == {"original_dur_ns": -3000, "y": 1}
    assert losses(recording)["negative_duration"] == 1


def test_a_slice_without_duration_is_unfinished(tmp_path: Path) -> None:
    events = [op("whole", 1, 5), {"ph": "X", "cat": "cpu_op", "name": "open", "pid": 100, "tid": 100, "ts": 2}]
    recording = imported(tmp_path, events)
    row = slices(recording)["open"]
    assert (row["kind"], row["dur"]) == ("unfinished", None)
    assert losses(recording)["without_duration"] == 1


def test_an_event_without_a_stamp_is_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("a", 1, 1), {"ph": "X", "name": "nowhere", "pid": 1, "tid": 1}])
    assert set(slices(recording)) == {"a"}
    assert losses(recording)["without_time_stamp"] == 1


@pytest.mark.parametrize("ts", [9.1e15, -9.1e15])
def test_a_stamp_of_centuries_is_none(ts: float, tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("a", 1, 1), op("far", ts, 1)], baseTimeNanoseconds=1_700_000_000_000_000_000)
    assert set(slices(recording)) == {"a"}
    assert losses(recording)["without_time_stamp"] == 1


def test_device_operations_that_were_not_stamped_are_counted_and_left_out(tmp_path: Path) -> None:
    far = 4_458_676_522_690.655
    recording = imported(tmp_path, [op("a", far, 1), kernel("k", far + 5, 2), kernel("lost", 0, 0)])
    assert set(slices(recording)) == {"a", "k"}
    assert losses(recording)["zero_time_stamp"] == 1
    (segment,) = rows(recording, "segments")
    assert segment["dur"] == 7000


def test_a_trace_that_begins_at_zero_keeps_its_first_kernel(tmp_path: Path) -> None:
    recording = imported(tmp_path, [kernel("first", 0, 2), kernel("second", 5, 2)])
    assert set(slices(recording)) == {"first", "second"}


def test_unknown_phases_are_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("a", 1, 1), {"ph": "N", "name": "object", "ts": 1, "pid": 1, "tid": 1}])
    assert losses(recording)["unsupported_phase"] == 1


def test_no_unit_of_time_is_lost_to_floating_point(tmp_path: Path) -> None:
    file = write(tmp_path / "rank0.json", [], baseTimeNanoseconds=1_727_739_614_000_000_000)
    event = FIRST.replace('"ts":10,', '"ts":5924112345.679,').replace('"dur":5', '"dur":0.001')
    file.write_text(file.read_text().replace('"traceEvents": []', f'"traceEvents": [{event}]'))
    recording = import_files(tmp_path / "recording", file)
    assert rows(recording, "slices", "ts", "dur") == [(1_727_745_538_112_345_679, 1)]


def test_epoch_microseconds_with_three_decimals_are_exact(tmp_path: Path) -> None:
    event = FIRST.replace('"ts":10,', '"ts":1727745538112345.679,')
    absolute = import_text(tmp_path, f"[{event}]")
    assert rows(absolute, "slices", "ts") == [(1_727_745_538_112_345_679,)]
