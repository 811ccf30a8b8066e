"""Segments of torch's profiler are read with their rank, whether the run converted them or not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stallscope.profiler.recording import pending, segments
from stallscope.profiler.recording.cache_folder import cache_folder
from stallscope.profiler.recording.errors import FormatError
from stallscope.profiler.recording.reader import open_recording
from stallscope.profiler.recording.segment import RAW, Segment
from stallscope.profiler.recording.segments import convert_segment, write_sidecar
from stallscope.profiler.recording.writer import RankWriter, RecordingWriter

from .builders import slices


class CountImporter:
    """Reads a segment whose file holds how many slices it has."""

    name = "count"
    version = 1
    conversions = 0

    def import_segment(self, path: Path, writer: RankWriter, segment: Segment) -> None:
        type(self).conversions += 1
        text = path.read_text()
        if not text.isdigit():
            raise FormatError(f"{path} holds no number.")
        writer.append("slices", slices(int(text), seed=segment.segment_id, first=writer.reserve_ids(int(text))))


@pytest.fixture
def importer(monkeypatch: pytest.MonkeyPatch) -> type[CountImporter]:
    class Fresh(CountImporter):
        conversions = 0

    for module in (segments, pending):
        monkeypatch.setattr(module, "segment_importer", Fresh)
    return Fresh


def recorded(path: Path, *texts: str) -> Path:
    """A closed rank with ten slices of its own and a raw segment for each text; returns the attempt's folder."""
    writer = RecordingWriter.create(path).rank(0)
    writer.append("slices", slices(10))
    writer.close()
    for number, text in enumerate(texts):
        first_id = (number + 1) * 1000
        segment = Segment(f"segment-{number:05d}", 0, 0, number + 1, 1, first_id, 0, 10)
        write_sidecar(writer.folder, segment)
        (writer.folder / RAW / f"{segment.name}.json").write_text(text)
    return writer.folder


def ids(table: pa.Table) -> list[int]:
    return sorted(table.column("slice_id").to_pylist())


EXPECTED = [*range(10), *range(1000, 1005), *range(2000, 2007)]


def test_segments_that_nobody_converted_are_converted_into_the_cache(
    tmp_path: Path, importer: type[CountImporter]
) -> None:
    recorded(tmp_path / "run", "5", "7")
    before = sorted((tmp_path / "run").rglob("*"))
    told: list[Any] = []
    recording = open_recording(tmp_path / "run", progress=lambda *what: told.append(what))
    assert ids(recording.table("slices")) == EXPECTED
    keys = list(zip(*(recording.table("slices").column(name).to_pylist() for name in ("track_id", "ts")), strict=True))
    assert keys == sorted(keys)
    assert recording.sql("select count(*) n from slices").to_pylist() == [{"n": len(EXPECTED)}]
    assert told[0] == ("converting segment-00000 of rank 0", 0.0)
    assert sorted((tmp_path / "run").rglob("*")) == before, "the recording may be read-only"
    assert ids(open_recording(tmp_path / "run").table("slices")) == EXPECTED
    assert importer.conversions == 2, "found in the cache the second time"
    assert all(path.is_relative_to(cache_folder()) for path in recording.files("slices")[1:])


def test_segments_that_the_run_converted_are_read_in_place(tmp_path: Path, importer: type[CountImporter]) -> None:
    attempt = recorded(tmp_path / "run", "5", "7")
    before = open_recording(tmp_path / "run").fingerprint
    for segment in segments.pending_segments(attempt):
        convert_segment(attempt, segment)
    conversions = importer.conversions
    recording = open_recording(tmp_path / "run")
    assert ids(recording.table("slices")) == EXPECTED
    assert importer.conversions == conversions
    assert len(recording.fingerprint) == len(before)


def test_a_segment_that_cannot_be_read_is_counted_and_the_rest_is_read(
    tmp_path: Path, importer: type[CountImporter]
) -> None:
    recorded(tmp_path / "run", "5", "garbage")
    recording = open_recording(tmp_path / "run")
    assert ids(recording.table("slices")) == EXPECTED[:15]
    (loss,) = recording.table("losses").to_pylist()
    assert (loss["kind"], loss["severity"]) == ("damaged_file", "data_loss")
    assert loss["detail"].startswith("raw/segment-00001.json: ")


def test_a_running_rank_converts_its_own_segments(tmp_path: Path, importer: type[CountImporter]) -> None:
    writer = RecordingWriter.create(tmp_path / "run").rank(0)
    segment = Segment("segment-00000", 0, 0, 1, 1, 1000, 0, 10)
    write_sidecar(writer.folder, segment)
    (writer.folder / RAW / "segment-00000.json").write_text("5")
    assert open_recording(tmp_path / "run").table("slices").num_rows == 0
    assert importer.conversions == 0
