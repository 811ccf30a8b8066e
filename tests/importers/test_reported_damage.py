"""Damage as users met it, end to end: which events are in the recording, and what does it say of the rest?"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stallscope.profiler.recording.errors import FormatError
from stallscope.profiler.recording.reader import Recording, open_recording

from .small_traces import rows

FIRST = b'{"ph":"X","cat":"cpu_op","name":"first","pid":1,"tid":1,"ts":10,"dur":5,"args":{"a":1}}'
LAST = b'{"ph":"X","cat":"cpu_op","name":"last","pid":1,"tid":1,"ts":90,"dur":5}'


@dataclass(frozen=True)
class Damage:
    """Bytes between two whole events, the name of what they give (None: nothing), and what is said of them."""

    between: bytes
    name: str | None
    losses: dict[str, tuple[int, str]]
    args: dict[str, Any] | None = None


def event(name: bytes, args: bytes = b"{}") -> bytes:
    return b'{"ph":"X","cat":"cpu_op","name":"' + name + b'","pid":1,"tid":1,"ts":20,"dur":5,"args":' + args + b"}"


def warned(kind: str) -> dict[str, tuple[int, str]]:
    return {kind: (1, "warning")}


def lost(kind: str) -> dict[str, tuple[int, str]]:
    return {kind: (1, "data_loss")}


REPORTED = {
    "backslashes of a Windows path": Damage(
        event(rb"C:\work\x.py(3): run"), r"C:\work\x.py(3): run", warned("repaired_string")
    ),
    "quotes inside a name": Damage(event(b'x.py(3): <lambda "f">'), 'x.py(3): <lambda "f">', warned("repaired_string")),
    "a line break inside a name": Damage(event(b"one\ntwo"), "one\ntwo", warned("control_character")),
    "control characters": Damage(event(b"one\x1b[0mtwo"), "one\x1b[0mtwo", warned("control_character")),
    "bytes of another encoding": Damage(event(b"caf\xe9"), "caf�", warned("bad_utf8")),
    "half of a surrogate pair": Damage(event(rb"one\ud83dtwo"), "one�two", warned("bad_utf8")),
    "an infinite bandwidth": Damage(
        event(b"copy", b'{"memory bandwidth (GB/s)":inf,"b":2}'), "copy", warned("not_finite"),
        {"memory bandwidth (GB/s)": None, "b": 2},
    ),
    "NaN": Damage(event(b"nan", b'{"x":NaN}'), "nan", warned("not_finite"), {"x": None}),
    "a number beyond 64 bits": Damage(
        event(b"big", b'{"Comms Id":18446744073709551616000}'), "big", {}, {"Comms Id": 18446744073709551616000}
    ),
    "a comma too many in args": Damage(event(b"comma", b'{"x":1,}'), "comma", {}, {"x": 1}),
    "Python's True": Damage(event(b"true", b'{"x":True}'), "true", warned("bad_value"), {"x": True}),
    "no args and no category": Damage(b'{"ph":"X","name":"bare","pid":1,"tid":1,"ts":20,"dur":5}', "bare", {}),
    "an empty process and thread": Damage(
        b'{"ph":"X","name":"window","pid":"","tid":"","ts":20,"dur":5}', "window", {}
    ),
    "a stamp below 0": Damage(b'{"ph":"X","name":"early","pid":1,"tid":1,"ts":-7.5,"dur":5}', "early", {}),
    "a stamp that is no number": Damage(
        b'{"ph":"X","name":"when","pid":1,"tid":1,"ts":"soon","dur":5}', None,
        warned("bad_time") | lost("without_time_stamp"),
    ),
    "no stamp": Damage(b'{"ph":"X","name":"when","pid":1,"tid":1,"dur":5}', None, lost("without_time_stamp")),
    "no duration": Damage(b'{"ph":"X","name":"open","pid":1,"tid":1,"ts":20}', "open", warned("without_duration")),
    "a negative duration": Damage(
        b'{"ph":"X","name":"back","pid":1,"tid":1,"ts":20,"dur":-3}', "back", warned("negative_duration")
    ),
    "an event that is none": Damage(b'{"ph":"X","name":"x",,"ts" 5}', None, lost("bad_event")),
    "an event cut by another process's": Damage(
        b'{"ph":"X","cat":"cpu_op","name":"torn",' + event(b"whole"), "whole", lost("interleaved")
    ),
    "an event cut inside a text by another process's": Damage(
        b'{"ph":"X","cat":"cpu_op","na' + event(b"whole"), "whole", lost("bad_event")
    ),
    "a phase that nobody knows": Damage(
        b'{"ph":"Q","name":"odd","pid":1,"tid":1,"ts":20}', None, lost("unsupported_phase")
    ),
}  # fmt: skip


def opened(folder: Path, content: bytes) -> Recording:
    path = folder / "rank0.json"
    path.write_bytes(content)
    return open_recording(path)


def found_losses(recording: Recording) -> dict[str, tuple[int, str]]:
    return {kind: (count, severity) for kind, count, severity in rows(recording, "losses", "kind", "count", "severity")}


def names(recording: Recording) -> list[str]:
    return [name for _, name in sorted(rows(recording, "slices", "ts", "name"))]


@pytest.mark.parametrize("what", REPORTED)
def test_reported(tmp_path: Path, what: str) -> None:
    damage = REPORTED[what]
    recording = opened(tmp_path, b'{"traceEvents":[' + b",".join((FIRST, damage.between, LAST)) + b"]}")
    middle = [] if damage.name is None else [damage.name]
    assert sorted(names(recording)) == sorted(["first", *middle, "last"])
    assert found_losses(recording) == damage.losses
    for name, args in rows(recording, "slices", "name", "args"):
        if name == damage.name and damage.args is not None:
            assert json.loads(args) == damage.args


WHOLE = b'{"traceEvents":[' + FIRST + b"," + LAST + b"]}"


@pytest.mark.parametrize(
    ("content", "kept", "losses"),
    [
        (b"\xef\xbb\xbf" + WHOLE, ["first", "last"], {}),
        (b"[" + FIRST + b"," + LAST + b"]", ["first", "last"], {}),
        (b'{"traceEvents":[' + FIRST + b"," + LAST + b",]}", ["first", "last"], {}),
        (b'{"traceEvents":[' + FIRST + b"," + LAST[:40], ["first"], lost("truncated")),
        (b'{"traceEvents":[' + FIRST + b"," + LAST, ["first", "last"], lost("truncated")),
        (WHOLE + b" and more", ["first", "last"], lost("garbage")),
        (WHOLE + WHOLE, ["first", "first", "last", "last"], {"several_documents": (1, "info")}),
        (gzip.compress(WHOLE) + b"tail", ["first", "last"], warned("gzip_trailing_bytes")),
        (gzip.compress(WHOLE)[:-4], ["first", "last"], lost("damaged_gzip")),
    ],
    ids=[
        "byte order mark", "a bare list", "a comma too many", "cut in an event", "cut after an event",
        "bytes behind it", "written twice", "bytes behind gzip", "gzip without its end",
    ],
)  # fmt: skip
def test_whole_files(tmp_path: Path, content: bytes, kept: list[str], losses: dict[str, tuple[int, str]]) -> None:
    recording = opened(tmp_path, content)
    assert names(recording) == kept
    assert found_losses(recording) == losses


@pytest.mark.parametrize(
    "content", [b"", b"   ", b"PAR1", b'{"schema":"1.1.0","nodes":[]}', gzip.compress(b"no JSON", mtime=0)]
)
def test_what_is_no_trace_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(FormatError, match=r"rank0\.json"):
        opened(tmp_path, content)
