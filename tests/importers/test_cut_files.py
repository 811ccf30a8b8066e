"""Real files cut at random bytes, plain and inside the gzip stream: each event that is whole before it is kept.

``tests/scanner/test_real_traces.py`` cuts each file at a hundred bytes of either kind and counts what the scanner
finds, exactly. Here cuts of each file go the whole way to a recording, whose rows and losses must add up to what was
found.
"""

from __future__ import annotations

import bisect
import gzip
import json
import random
import zlib
from pathlib import Path

import pytest

from stallscope.profiler.recording.reader import Recording

from .small_traces import import_files, losses

SOME = ("a100_event_sync_multi_stream", "cpu_only_rank34", "mi250_minitoy", "h100_qwen_0.5b", "no_distributed_info")
CUTS_OF_SOME, CUTS_OF_ALL = 8, 6


def ends_of_events(text: str) -> list[int]:
    """Where each event ends, in bytes, told by the standard library's parser."""
    decoder = json.JSONDecoder(strict=False)
    place = text.index("[", text.index('"traceEvents"')) + 1
    ends, behind, counted = [], place, len(text[:place].encode())
    while True:
        start = behind
        while text[start] in " \n\r\t,":
            start += 1
        if text[start] == "]":
            return ends
        _, end = decoder.raw_decode(text, start)
        counted += len(text[behind:end].encode())
        ends.append(counted)
        behind = end


def check(recording: Recording, whole: int, was_cut: bool) -> None:
    (rank,) = recording.ranks
    info = recording.rank_info(rank)["import"]
    found = sum(info["events"].values())
    assert whole <= found <= whole + 1
    lost = losses(recording)
    if was_cut:
        assert {"truncated", "damaged_gzip"}.intersection(lost)
    complete = info["events"].get("X", 0)
    kinds = recording.table("slices")["kind"].to_pylist()
    assert kinds.count("complete") + kinds.count("unfinished") + lost.get("without_time_stamp", 0) == complete
    assert kinds.count("instant") + recording.table("memory").num_rows == info["events"].get("i", 0)


def cut_everywhere(path: Path, folder: Path, count: int) -> None:
    packed = path.read_bytes()
    raw = gzip.decompress(packed)
    ends = ends_of_events(raw.decode("utf-8", "surrogateescape"))
    dice = random.Random(path.name)
    for number in range(count):
        at = dice.randint(1, len(raw) - 1)
        file = folder / "rank0.json"
        file.write_bytes(raw[:at])
        check(import_files(folder / f"plain{number}", file), bisect.bisect_right(ends, at), was_cut=True)
        at = dice.randint(20, len(packed) - 1)
        file.write_bytes(packed[:at])
        reached = len(zlib.decompressobj(31).decompress(packed[:at]))
        check(import_files(folder / f"gzip{number}", file), bisect.bisect_right(ends, reached), was_cut=True)


@pytest.mark.parametrize("name", SOME)
def test_cut_at_random_bytes(name: str, traces: Path, tmp_path: Path) -> None:
    cut_everywhere(traces / "kineto" / f"{name}.json.gz", tmp_path, CUTS_OF_SOME)


@pytest.mark.slow
def test_every_file_cut_at_random_bytes(traces: Path, tmp_path: Path) -> None:
    for path in sorted((traces / "kineto").rglob("*.json.gz")):
        folder = tmp_path / path.name
        folder.mkdir()
        cut_everywhere(path, folder, CUTS_OF_ALL)


def test_a_file_cut_before_its_first_event_is_an_empty_recording_that_says_so(tmp_path: Path) -> None:
    file = tmp_path / "rank2.json"
    file.write_text('{"schemaVersion": 1, "deviceProp')
    recording = import_files(tmp_path / "recording", file)
    assert recording.ranks == (2,)
    assert recording.table("slices").num_rows == 0
    assert losses(recording)["truncated"] == 1
