"""Public traces of real runs: both scanners, against the standard library and the reference figures."""

from __future__ import annotations

import bisect
import csv
import gzip
import json
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stallscope.collectors.importers.scanner import KNOWN_INTEGERS, Limits
from stallscope.collectors.importers.scanner.source import TraceSource

from .scans import SCANNERS, Found, assert_same, blocks, scan_with

NEEDS_NATIVE = pytest.mark.skipif("native" not in SCANNERS, reason="the native scanner is not built")

COLUMNS = {"name": "name", "cat": "category", "pid": "process", "tid": "thread", "id": "flow_id"}


def files(traces: Path) -> list[Path]:
    return sorted((traces / "kineto").rglob("*.json.gz"))


def expected_counts(traces: Path) -> dict[str, dict[str, int]]:
    counts = {}
    with (traces / "expected.csv").open() as stream:
        for row in csv.DictReader(stream):
            counts[row["file"]] = {
                kind: int(row[column])
                for kind, column in {"X": "complete", "s": "flow_start", "f": "flow_end", "i": "instant"}.items()
            } | {"events": int(row["events"])}
    return counts


def test_counts_are_those_of_the_reference(traces: Path) -> None:
    expected = expected_counts(traces)
    scanner = "native" if "native" in SCANNERS else "python"
    seen = 0
    for path in files(traces):
        key = f"{path.parent.name}/{path.name}"
        if scanner == "python" and expected[key]["events"] > 20_000:
            continue
        found = scan_counts(scanner, path)
        assert found == expected[key], key
        seen += 1
    assert seen > 5


def scan_counts(scanner: str, path: Path) -> dict[str, int]:
    source = TraceSource(path)
    scan = SCANNERS[scanner](source)
    phases = Counter[str]()
    for batch in scan:
        phases.update(map(chr, batch.phase.tolist()))
    assert scan.damage == {}
    assert source.damage == {}
    return {kind: phases[kind] for kind in "Xsfi"} | {"events": phases.total()}


SMALL = [
    "mi250_minitoy",
    "cpu_only_rank34",
    "a100_simple_add_cuda_sync",
    "mi300x_torch_compile_triton",
    "no_distributed_info",
]


@pytest.mark.parametrize("scanner", SCANNERS)
@pytest.mark.parametrize("name", SMALL)
def test_every_member_of_every_event(traces: Path, scanner: str, name: str) -> None:
    raw = gzip.decompress((traces / "kineto" / f"{name}.json.gz").read_bytes())
    found = scan_with(scanner, raw)
    trace = json.loads(raw, parse_float=Decimal)
    assert len(found.events) == len(trace["traceEvents"])
    for event, original in zip(found.events, trace["traceEvents"], strict=True):
        assert_holds(event, original)
    metadata = json.loads(raw)
    del metadata["traceEvents"]
    assert found.metadata == metadata


def assert_holds(event: dict[str, Any], original: dict[str, Any]) -> None:
    """Asserts that a scanned event holds what a parsed one does."""
    assert event.get("ph") == original.get("ph")
    for key, column in COLUMNS.items():
        if key in original:
            assert str(event[column]) == str(original[key])
    for key in ("ts", "dur"):
        assert event.get(key) == (int(Decimal(str(original[key])) * 1000) if key in original else None)
    rest = dict(event.get("rest", {}))
    for key, value in original.get("args", {}).items():
        if key == "Record function id":
            continue
        column = KNOWN_INTEGERS.get(key)
        if column is not None and key not in rest:
            assert event[column] == int(value)
        else:
            assert rest.pop(key) == json.loads(json.dumps(value, default=float))
    assert rest == {}


@NEEDS_NATIVE
def test_both_scanners_on_the_beginning_of_each_trace(traces: Path) -> None:
    for path in files(traces):
        raw = gzip.decompress(path.read_bytes())[:300_000]
        limits = Limits(batch_events=200)
        assert_same(scan_with("native", raw, limits=limits), scan_with("python", raw, limits=limits))


@pytest.mark.slow
@NEEDS_NATIVE
def test_both_scanners_on_whole_traces(traces: Path) -> None:
    for path in files(traces):
        raw = gzip.decompress(path.read_bytes())
        both = []
        for scanner in ("native", "python"):
            scan = SCANNERS[scanner]([raw])
            both.append(Found(list(scan), scan.strings.values, scan.metadata, scan.damage, scan.damage_offsets))
        assert_same(*both)


def ends_of_events(raw: bytes) -> list[int]:
    """Where each event of a valid trace ends, found with the standard library alone."""
    text = raw.decode("latin-1")
    at = text.index("[", text.index('"traceEvents"')) + 1
    decoder = json.JSONDecoder()
    ends = []
    while True:
        while text[at] in " \r\n\t,":
            at += 1
        if text[at] == "]":
            return ends
        _, at = decoder.raw_decode(text, at)
        ends.append(at)


def assert_cuts(path: Path, tmp_path: Path, plain: int, compressed: int) -> None:
    """Asserts that a cut file gives exactly the events that are whole before the cut."""
    stored = path.read_bytes()
    raw = gzip.decompress(stored)
    ends = ends_of_events(raw)
    rng = random.Random(path.name)
    for _ in range(plain):
        cut = rng.randrange(len(raw))
        assert events_in(blocks(raw[:cut], 1 << 20)) == bisect.bisect_right(ends, cut), cut
    for _ in range(compressed):
        (tmp_path / "cut").write_bytes(stored[: rng.randrange(20, len(stored))])
        source = TraceSource(tmp_path / "cut")
        pieces: list[int] = []
        count = events_in(counted(source, pieces))
        assert count == bisect.bisect_right(ends, sum(pieces)), source.size
        assert source.damage == {"damaged_gzip": 1}


def counted(source: Iterable[bytes], sizes: list[int]) -> Iterator[bytes]:
    """The blocks of a source; notes the size of each."""
    for block in source:
        sizes.append(len(block))
        yield block


def events_in(source: Iterable[bytes]) -> int:
    scan = SCANNERS["native"](source)
    count = sum(map(len, scan))
    assert scan.damage.keys() <= {"truncated", "no_trace_events", "empty"}
    return count


@NEEDS_NATIVE
@pytest.mark.parametrize("name", ["mi250_minitoy", "a100_simple_add_cuda_sync", "h100_qwen_0.5b"])
def test_cuts_at_random_bytes(traces: Path, tmp_path: Path, name: str) -> None:
    assert_cuts(traces / "kineto" / f"{name}.json.gz", tmp_path, 30, 10)


@pytest.mark.slow
@NEEDS_NATIVE
def test_a_hundred_cuts_of_each_trace(traces: Path, tmp_path: Path) -> None:
    """A hundred cuts at random bytes of each file, and a hundred of its gzip stream: every whole event, and no other.

    The standard library's parser says once where each event of the file ends. What a cut stream still decompresses to
    is the source's word, which ``test_source.py`` and ``tests/importers/test_cut_files.py`` hold to zlib's; the latter
    also takes some cuts of every file on to a recording.
    """
    for path in files(traces):
        assert_cuts(path, tmp_path, 100, 100)
