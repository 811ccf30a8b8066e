"""A disk that takes no more: what was closed stays, what was not is said, and nothing else breaks."""

from __future__ import annotations

import contextlib
import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from stallscope.profiler.recording import part_buffer, writer
from stallscope.profiler.recording.errors import CaptureError
from stallscope.profiler.recording.layout import table_files
from stallscope.profiler.recording.reader import open_recording
from stallscope.profiler.recording.writer import RecordingWriter

from .builders import slices


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip(f"a small file system cannot be mounted here: {mounted.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_fills_up_keeps_every_part_that_was_closed(small_disk: Path) -> None:
    rows = RecordingWriter.create(small_disk / "run").rank(0)
    closed = 0
    with pytest.raises(CaptureError, match=r"cannot be written: No space left.*Free space"):
        while True:
            rows.append("slices", slices(2000, first=closed))
            rows.flush()
            closed += 2000
    assert closed > 0
    recording = open_recording(small_disk / "run")
    assert recording.table("slices").num_rows == closed
    assert recording.table("losses").num_rows == 0
    assert not list(small_disk.rglob(".*tmp")), "nothing half-written is left to take up space"


def test_rows_wait_for_space_and_are_written_when_there_is_some(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    rows = RecordingWriter.create(small_disk / "run").rank(0)
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(os.urandom(4096)):
            pass
    rows.append("slices", slices(4000))
    with pytest.raises(CaptureError, match="No space left"):
        rows.flush()
    with pytest.raises(CaptureError, match="No space left"):
        rows.close()
    ballast.unlink()
    rows.close()
    assert open_recording(small_disk / "run").table("slices").num_rows == 4000
    assert open_recording(small_disk / "run").rank_info(0)["status"] == "completed"


def no_space(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_merge_that_finds_no_space_leaves_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RecordingWriter.create(tmp_path / "run").rank(0)
    for part in range(3):
        rows.append("slices", slices(100, first=100 * part))
        rows.flush()
    monkeypatch.setattr(writer, "compact", no_space)
    rows.close()
    recording = open_recording(tmp_path / "run")
    assert len(table_files(rows.folder, "slices")) == 3
    assert recording.table("slices").num_rows == 300
    info = recording.rank_info(0)
    assert info["status"] == "completed"
    assert "No space left" in info["compaction"][0]


def test_rows_that_no_disk_takes_are_dropped_in_the_end_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_buffer, "KEPT_ROWS", 1000)
    rows = RecordingWriter.create(tmp_path / "run").rank(0)
    with monkeypatch.context() as full:
        full.setattr(part_buffer, "write_parquet", no_space)
        for part in range(5):
            rows.append("slices", slices(400, first=400 * part))
            with pytest.raises(CaptureError, match="No space left"):
                rows.flush()
    rows.close()
    recording = open_recording(tmp_path / "run")
    losses = recording.table("losses").to_pylist()
    kept = recording.table("slices").num_rows
    assert kept == 800
    assert [(row["kind"], row["severity"]) for row in losses] == [("rows_dropped", "data_loss")] * len(losses)
    assert sum(row["count"] for row in losses) == 2000 - kept


def test_the_heartbeat_outlives_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = RecordingWriter.create(tmp_path / "run").rank(0)
    monkeypatch.setattr(writer, "write_rank_file", no_space)
    with pytest.raises(CaptureError, match="No space left"):
        rows.update(note="x")
    monkeypatch.undo()
    rows.update(note="y")
    assert open_recording(tmp_path / "run").rank_info(0)["note"] == "y"


def test_a_table_that_no_row_was_given_to_has_no_file(tmp_path: Path) -> None:
    rows = RecordingWriter.create(tmp_path / "run").rank(0)
    rows.append(
        "slices",
        pa.table(
            {"slice_id": pa.array([], pa.int64())}
            | {"name": pa.array([], pa.string())}
            | {
                name: pa.array([], kind)
                for name, kind in (
                    ("track_id", pa.int64()),
                    ("kind", pa.string()),
                    ("ts", pa.int64()),
                    ("lane", pa.int32()),
                    ("depth", pa.int32()),
                    ("category", pa.string()),
                )
            }
        ),
    )
    assert rows.add_sorted("slices", []) == 0
    rows.close()
    assert not list((tmp_path / "run").rglob("*.parquet"))
