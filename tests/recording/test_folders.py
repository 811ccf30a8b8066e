"""Whose folder it is: foreign folders, other runs, restarts, several ranks at once, read-only, newer, damaged."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stallscope.profiler.recording import rank_status
from stallscope.profiler.recording.errors import CaptureError, FormatError, UsageError
from stallscope.profiler.recording.layout import table_files
from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.schema import SCHEMA_VERSION
from stallscope.profiler.recording.writer import RankWriter, RecordingWriter

from .builders import slices

REPOSITORY = Path(__file__).resolve().parents[2]


def record(path: Path, *, parts: int = 1, run_id: str | None = None, close: bool = True) -> RankWriter:
    writer = RecordingWriter.create(path, run_id=run_id, label="a run").rank(0)
    for part in range(parts):
        writer.append("slices", slices(100, first=100 * part))
        writer.flush()
    if close:
        writer.close()
    return writer


# Folders in the way.


def test_a_folder_of_something_else_is_never_written_into(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(
        CaptureError, match=r"files that are not a recording's, such as thesis.tex; nothing was written"
    ):
        RecordingWriter.create(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]


def test_force_records_beside_what_is_not_a_recordings(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    RecordingWriter.create(tmp_path, force=True).rank(0).close()
    assert (tmp_path / "thesis.tex").read_text() == "years of work"
    assert open_recording(tmp_path).ranks == (0,)


def test_another_runs_recording_is_kept_unless_forced(tmp_path: Path) -> None:
    record(tmp_path)
    with pytest.raises(CaptureError, match=r"holds the recording 'a run' of another run.*Choose another folder"):
        RecordingWriter.create(tmp_path)
    assert open_recording(tmp_path).table("slices").num_rows == 100
    RecordingWriter.create(tmp_path, label="the next", force=True).rank(3).close()
    replaced = open_recording(tmp_path)
    assert (replaced.ranks, replaced.info["label"]) == ((3,), "the next")


def test_force_keeps_the_ranks_that_this_run_has_written_already(tmp_path: Path) -> None:
    record(tmp_path, run_id="old")
    for rank in (1, 0):
        RecordingWriter.create(tmp_path, run_id="new", force=True).rank(rank).close()
    assert open_recording(tmp_path).ranks == (0, 1)
    assert open_recording(tmp_path).info["run_id"] == "new"


def test_force_does_not_follow_a_link(tmp_path: Path) -> None:
    record(tmp_path / "precious")
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ranks").symlink_to(tmp_path / "precious" / "ranks")
    with pytest.raises(CaptureError, match="is a link"):
        RecordingWriter.create(tmp_path / "run", force=True)
    assert open_recording(tmp_path / "precious").table("slices").num_rows == 100


# Ranks and attempts.


def test_a_restarted_rank_is_a_new_attempt_and_both_are_kept(tmp_path: Path) -> None:
    record(tmp_path, run_id="job", parts=1)
    record(tmp_path, run_id="job", parts=3)
    recording = open_recording(tmp_path)
    assert recording.attempts(0) == (0, 1)
    assert recording.table("slices").num_rows == 300
    assert recording.at_attempt(0, 0).table("slices").num_rows == 100
    assert recording.at_attempt(0, 0).fingerprint != recording.fingerprint
    with pytest.raises(UsageError, match="rank 0 has no attempt 2; it has 0, 1"):
        recording.at_attempt(0, 2)
    with pytest.raises(CaptureError, match="attempt 1 of rank 0 is already in"):
        RecordingWriter.create(tmp_path, run_id="job").rank(0, attempt=1)


def test_the_ids_of_two_attempts_differ(tmp_path: Path) -> None:
    writer = RecordingWriter.create(tmp_path)
    first, second = writer.rank(0), writer.rank(0)
    assert first.reserve_ids(1) != second.reserve_ids(1)


RANK_PROCESS = """
import sys
from stallscope.profiler.recording.writer import RecordingWriter
from tests.recording.builders import slices

path, rank = sys.argv[1], int(sys.argv[2])
recording = RecordingWriter.create(path, run_id="job", world_size=2, label=f"from rank {rank}")
with recording.rank(rank) as writer:
    for part in range(20):
        writer.append("slices", slices(50, seed=part, rank=rank, first=50 * part))
        writer.flush()
"""


def test_two_ranks_write_one_recording_at_once_from_two_processes(tmp_path: Path) -> None:
    path = str(tmp_path / "run")
    ranks = [subprocess.Popen([sys.executable, "-c", RANK_PROCESS, path, rank], cwd=REPOSITORY) for rank in ("1", "0")]
    assert [process.wait(timeout=60) for process in ranks] == [0, 0]
    recording = open_recording(path)
    assert recording.ranks == (0, 1)
    assert recording.info["label"] == "from rank 0"
    for rank in (0, 1):
        assert recording.rank_info(rank)["status"] == "completed"
        ids = recording.table("slices", ranks=rank).column("slice_id").to_numpy()
        assert sorted(ids - (rank << 40)) == list(range(1000))


def test_many_ranks_claim_a_new_folder_at_once(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def start(rank: int) -> None:
        RecordingWriter.create(tmp_path / "run", run_id="job").rank(rank).close()

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(start, range(32)))
    assert open_recording(tmp_path / "run").ranks == tuple(range(32))


def test_one_rank_started_from_many_processes_gets_as_many_attempts(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        attempts = list(
            pool.map(lambda _: RecordingWriter.create(tmp_path / "run", run_id="job").rank(0).attempt, range(16))
        )
    assert sorted(attempts) == list(range(16))


# Statuses.


def change_rank_file(folder: Path, changes: dict[str, Any]) -> None:
    path = folder / "rank.json"
    fields = json.loads(path.read_text())
    process = fields["writer"] | changes.get("writer", {})
    path.write_text(json.dumps(fields | changes | {"writer": process}))


def status(path: Path) -> str:
    return str(open_recording(path).rank_info(0)["status"])


HOUR_AGO = time.time_ns() - 3600 * 10**9


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "running"),
        ({"heartbeat_ns": HOUR_AGO}, "running"),  # stopped or busy, but its process lives
        ({"writer": {"process_start": 1}}, "killed"),  # another process has its number now
        ({"writer": {"process_id": 2**22 + 1}}, "killed"),
        ({"writer": {"boot_id": "before the reboot"}}, "killed"),
        ({"writer": {"process_id_namespace": "pid:[1]"}}, "running"),
        ({"writer": {"process_id_namespace": "pid:[1]"}, "heartbeat_ns": HOUR_AGO}, "killed"),
        ({"writer": {"host": "elsewhere"}}, "running"),
        ({"writer": {"host": "elsewhere"}, "heartbeat_ns": HOUR_AGO}, "unknown"),
        ({"status": "completed", "writer": {"process_id": 2**22 + 1}}, "completed"),
        ({"status": "failed"}, "failed"),
        ({"status": "sleeping"}, "unknown"),
        ({"status": None}, "unknown"),
    ],
)
def test_running_is_believed_only_while_the_process_lives(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    writer = record(tmp_path, close=False)
    change_rank_file(writer.folder, changes)
    assert status(tmp_path) == expected


def test_a_heartbeat_from_the_future_of_another_host_counts_as_fresh(tmp_path: Path) -> None:
    writer = record(tmp_path, close=False)
    change_rank_file(writer.folder, {"writer": {"host": "clock ahead"}, "heartbeat_ns": time.time_ns() + 10**9})
    assert status(tmp_path) == "running"


def test_a_run_that_raises_says_failed_and_with_what(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), RecordingWriter.create(tmp_path).rank(0) as writer:
        writer.append("slices", slices(10))
        raise ZeroDivisionError("1 / 0")
    info = open_recording(tmp_path).rank_info(0)
    assert (info["status"], info["exception"]) == ("failed", {"type": "ZeroDivisionError", "message": "1 / 0"})
    assert open_recording(tmp_path).table("slices").num_rows == 10


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b"\xff\xfe"])
def test_a_damaged_rank_file_gives_status_unknown_and_the_reason(tmp_path: Path, content: bytes) -> None:
    writer = record(tmp_path)
    (writer.folder / "rank.json").write_bytes(content)
    info = open_recording(tmp_path).rank_info(0)
    assert info["status"] == "unknown"
    assert "rank.json" in info["problem"]
    assert open_recording(tmp_path).table("slices").num_rows == 100


def test_a_heartbeat_thread_closes_parts_and_shows_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stallscope.profiler.recording import writer as writer_module

    monkeypatch.setattr(writer_module, "PART_SECONDS", 0.0)
    writer = RecordingWriter.create(tmp_path).rank(0, heartbeat_s=0.02)
    before = json.loads((writer.folder / "rank.json").read_text())["heartbeat_ns"]
    monkeypatch.setattr(writer_module, "PART_SECONDS", 0.05)
    writer.append("slices", slices(10))
    deadline = time.monotonic() + 10
    while not table_files(writer.folder, "slices") and time.monotonic() < deadline:
        time.sleep(0.01)
    assert open_recording(tmp_path).table("slices").num_rows == 10
    assert json.loads((writer.folder / "rank.json").read_text())["heartbeat_ns"] > before
    writer.close()


def test_a_closed_rank_takes_no_rows(tmp_path: Path) -> None:
    writer = record(tmp_path)
    writer.close()
    with pytest.raises(CaptureError, match="is closed"):
        writer.append("slices", slices(1))


# What a reader meets.


def test_a_read_only_recording_opens_and_nothing_in_it_changes(tmp_path: Path) -> None:
    record(tmp_path / "run", parts=3)
    before = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (tmp_path / "run").rglob("*")}
    for path in [*(tmp_path / "run").rglob("*"), tmp_path / "run"]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        recording = open_recording(tmp_path / "run")
        assert recording.table("slices").num_rows == 300
        assert recording.sql("select count(*) n from slices").to_pylist() == [{"n": 300}]
        assert recording.cache.data("x", 1, lambda: b"computed") == b"computed"
        assert len(recording.fingerprint) == 64
        after = {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in (tmp_path / "run").rglob("*")}
        assert after == before
    finally:
        for path in [tmp_path / "run", *(tmp_path / "run").rglob("*")]:
            path.chmod(0o755)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write into a read-only folder")
def test_a_read_only_folder_cannot_be_recorded_into(tmp_path: Path) -> None:
    tmp_path.chmod(0o555)
    with pytest.raises(CaptureError, match="cannot be written: Permission denied"):
        RecordingWriter.create(tmp_path / "run")


def test_a_path_below_a_file_cannot_be_recorded_into(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CaptureError, match="cannot be written"):
        RecordingWriter.create(tmp_path / "file" / "run")


def test_a_recording_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    record(tmp_path)
    info = json.loads((tmp_path / "recording.json").read_text())
    (tmp_path / "recording.json").write_text(json.dumps(info | {"schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(FormatError, match=rf"schema {SCHEMA_VERSION + 1}; .* up to schema {SCHEMA_VERSION}.*newer"):
        open_recording(tmp_path)


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"schema_version": "one"}'])
def test_a_recording_file_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    record(tmp_path)
    (tmp_path / "recording.json").write_text(content)
    with pytest.raises(FormatError, match=r"recording\.json"):
        open_recording(tmp_path)


def test_ranks_whose_rank_0_never_came_to_write_open(tmp_path: Path) -> None:
    record(tmp_path)
    (tmp_path / "recording.json").unlink()
    assert open_recording(tmp_path).table("slices").num_rows == 100
    assert open_recording(tmp_path).info == {}


def damage(file: Path, kind: str) -> None:
    content = bytearray(file.read_bytes())
    if kind == "cut":
        del content[len(content) // 2 :]
    elif kind == "empty":
        content.clear()
    elif kind == "footer":
        content[-20:-8] = b"\xff" * 12
    else:
        group = pq.ParquetFile(file).metadata.row_group(0)
        start = group.column(group.num_columns - 1).dictionary_page_offset
        content[start + 40 : start + 60] = bytes(byte ^ 0xFF for byte in content[start + 40 : start + 60])
    file.write_bytes(content)


@pytest.mark.parametrize("kind", ["cut", "empty", "footer", "page"])
def test_a_damaged_part_is_counted_and_the_rest_is_read(tmp_path: Path, kind: str) -> None:
    writer = record(tmp_path, parts=3, close=False)
    files = table_files(writer.folder, "slices")
    damage(files[1].path, kind)
    recording = open_recording(tmp_path)
    assert recording.table("slices").num_rows == 200
    losses = recording.table("losses").to_pylist()
    assert [(row["kind"], row["severity"], row["rank"]) for row in losses] == [("damaged_file", "data_loss", 0)]
    assert losses[0]["detail"].startswith("slices/part-00001.parquet: ")
    assert recording.fingerprint


def test_the_whole_row_groups_of_a_damaged_file_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from stallscope.profiler.recording import part_buffer

    monkeypatch.setattr(part_buffer, "RUN_GROUP_ROWS", 50)
    writer = record(tmp_path, close=False)
    file = table_files(writer.folder, "slices")[0].path
    damage(file, "page")
    recording = open_recording(tmp_path)
    assert recording.table("slices").num_rows == 50
    assert "50 rows cannot be read" in recording.table("losses").to_pylist()[0]["detail"]


def test_a_writer_does_not_merge_a_damaged_part_away(tmp_path: Path) -> None:
    writer = record(tmp_path, parts=3, close=False)
    damage(table_files(writer.folder, "slices")[1].path, "cut")
    writer.close()
    assert len(table_files(writer.folder, "slices")) == 3
    assert open_recording(tmp_path).table("slices").num_rows == 200


def rewrite(recording: Recording, change: Any) -> None:
    """Changes the table in the one file of slices, as another version of the writer might have written it."""
    file = recording.files("slices")[0]
    pq.write_table(change(pq.read_table(file, partitioning=None)), file)


def test_columns_that_a_reader_does_not_know_are_ignored(tmp_path: Path) -> None:
    record(tmp_path)
    recording = open_recording(tmp_path)
    before = recording.table("slices")
    rewrite(recording, lambda table: table.append_column("mood", pa.array(["fine"] * table.num_rows)))
    assert open_recording(tmp_path).table("slices").equals(before)
    assert open_recording(tmp_path).sql("select * from slices").column_names == before.column_names


def test_a_nullable_column_that_a_file_lacks_is_null(tmp_path: Path) -> None:
    record(tmp_path)
    rewrite(open_recording(tmp_path), lambda table: table.drop_columns(["args", "short_name"]))
    table = open_recording(tmp_path).table("slices")
    assert table.column("args").null_count == table.column("short_name").null_count == 100
    assert open_recording(tmp_path).sql("select count(args) n, count(name) m from slices").to_pylist() == [
        {"n": 0, "m": 100}
    ]


def test_a_required_column_that_a_file_lacks_is_an_error_naming_it(tmp_path: Path) -> None:
    record(tmp_path)
    rewrite(open_recording(tmp_path), lambda table: table.drop_columns(["name"]))
    with pytest.raises(FormatError, match="column 'name' is missing"):
        open_recording(tmp_path).table("slices")


def test_plain_text_where_a_dictionary_is_usual_reads_the_same(tmp_path: Path) -> None:
    record(tmp_path)
    before = open_recording(tmp_path).table("slices").to_pylist()
    rewrite(
        open_recording(tmp_path),
        lambda table: table.set_column(
            table.schema.get_field_index("name"), "name", table.column("name").cast(pa.string())
        ),
    )
    assert open_recording(tmp_path).table("slices").to_pylist() == before


def test_parts_that_are_merged_while_they_are_read_are_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from stallscope.profiler.recording import table_reader

    writer = record(tmp_path, parts=3, close=False)
    recording = open_recording(tmp_path)
    real = table_reader.table_files
    calls = []

    def listed_then_merged(folder: Path, table: str) -> Any:
        files = real(folder, table)
        calls.append(files)
        if len(calls) == 1:
            writer.close()
        return files

    monkeypatch.setattr(table_reader, "table_files", listed_then_merged)
    assert recording.table("slices").num_rows == 300
    assert len(calls) == 2


def test_a_copy_has_the_same_fingerprint_and_a_further_row_another(tmp_path: Path) -> None:
    writer = record(tmp_path / "a", parts=2, close=False)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    fingerprint = open_recording(tmp_path / "a").fingerprint
    assert open_recording(tmp_path / "b").fingerprint == fingerprint
    writer.append("slices", slices(1, first=5000))
    writer.flush()
    assert open_recording(tmp_path / "a").fingerprint != fingerprint


def test_opening_reads_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, parts=2)

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a Parquet file was opened")

    monkeypatch.setattr(pq, "ParquetFile", refuse)
    recording = open_recording(tmp_path)
    assert (recording.ranks, recording.rank_info(0)["status"]) == ((0,), "completed")


def test_the_identity_comes_from_the_recording_or_else_from_a_rank(tmp_path: Path) -> None:
    RecordingWriter.create(tmp_path / "a", identity={"host": "x"}).rank(0).close()
    assert open_recording(tmp_path / "a").identity == {"host": "x"}
    RecordingWriter.create(tmp_path / "b").rank(0).close(identity={"host": "y"})
    assert open_recording(tmp_path / "b").identity == {"host": "y"}


def test_this_process_knows_itself() -> None:
    identity = rank_status.process_identity()
    assert identity["host"] == socket.gethostname()
    assert identity["process_start"] == rank_status.process_start(os.getpid())
    assert rank_status.process_start(2**22 + 1) is None
