"""Ranks, tracks, processes, devices, identity: where things happened, and what of the job is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stallscope.collectors.importers.devices import device_type
from stallscope.collectors.importers.files import rank_in_name
from stallscope.profiler.recording.errors import FormatError
from stallscope.profiler.recording.reader import Recording, open_recording

from .small_traces import call, import_files, imported, kernel, losses, op, rows, write


@pytest.mark.parametrize(
    ("name", "rank"),
    [
        ("rank0.pt.trace.json.gz", 0), ("trace_8_rank_1.json", 1), ("r3.json", 3), ("rank-12.json", 12),
        ("worker0_step_12.1694128201545.pt.trace.json", 0), ("a100_ddp_rank3_stacks.json", 3), ("Rank7.json", 7),
        ("worker1_rank5.json", 5), ("trace.json", None), ("transformer4.json", None), ("step12.json", None),
        ("rank1234567890.json", None),
    ],
)  # fmt: skip
def test_rank_in_name(name: str, rank: int | None) -> None:
    assert rank_in_name(name) == rank


def test_the_trace_knows_its_rank_better_than_its_name(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("a", 1, 1)], "rank3.json", distributedInfo={"rank": 5, "world_size": 16})
    assert (recording.ranks, recording.info["world_size"]) == ((5,), 16)
    assert losses(recording) == {}


def test_a_guess_is_counted(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("a", 1, 1)], "trace.json")
    assert recording.ranks == (0,)
    (row,) = rows(recording, "losses")
    assert (row["kind"], row["severity"], row["count"]) == ("rank_guessed", "warning", 1)
    assert "rank 0" in row["detail"]


def test_a_guess_takes_no_rank_that_another_file_states(tmp_path: Path) -> None:
    paths = [
        write(tmp_path / "a.json", [op("guessed", 1, 1)]),
        write(tmp_path / "b.json", [op("stated", 1, 1)], distributedInfo={"rank": 0}),
        write(tmp_path / "rank1.json", [op("named", 1, 1)]),
    ]
    recording = import_files(tmp_path / "recording", *paths)
    names = {rank: rows_of(recording, rank) for rank in recording.ranks}
    assert names == {0: ["stated"], 1: ["named"], 2: ["guessed"]}


def rows_of(recording: Recording, rank: int) -> list[str]:
    return [str(name) for name in recording.table("slices", ranks=rank)["name"].to_pylist()]


def test_two_files_of_one_rank_are_an_error_that_names_both(tmp_path: Path) -> None:
    paths = [write(tmp_path / name, [op("a", 1, 1)], distributedInfo={"rank": 2}) for name in ("x.json", "y.json")]
    with pytest.raises(FormatError, match=r"x\.json and .*y\.json are both of rank 2"):
        import_files(tmp_path / "recording", *paths)


def test_a_folder_is_one_recording(tmp_path: Path) -> None:
    for rank in range(3):
        write(tmp_path / f"rank{rank}.json", [op("a", 1, 1)])
    (tmp_path / "notes.txt").write_text("not a trace")
    recording = open_recording(tmp_path)
    assert recording.ranks == (0, 1, 2)
    identities = [identity for (identity,) in rows(recording, "slices", "slice_id")]
    assert [identity >> 40 for identity in identities] == [0, 1, 2]


def test_ranks_of_one_file_are_told_apart_by_their_processes(tmp_path: Path) -> None:
    events: list[dict[str, Any]] = []
    for rank in (4, 6):
        pid = 1000 + rank
        events += [
            {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": f"rank {rank}"}},
            op("step", 1, 9, pid=pid), call("launch", 2, 1, 77) | {"pid": pid},
            kernel(f"kernel of {rank}", 5, 2, 77) | {"pid": f"rank {rank} GPU"},
        ]  # fmt: skip
    events += [op("nobody's", 1, 1, pid=3)]
    recording = imported(tmp_path, events, "merged.json")
    assert recording.ranks == (4, 6)
    assert "nobody's" in rows_of(recording, 4)
    for rank in (4, 6):
        assert f"kernel of {rank}" in rows_of(recording, rank)
        assert recording.table("flows", ranks=rank).num_rows == 1
    counts = [sum(recording.rank_info(rank)["import"]["events"].values()) for rank in (4, 6)]
    assert sum(counts) == len(events)
    assert losses(recording)["several_ranks_in_one_file"] == 4


def named(kind: str, value: Any, pid: Any, tid: Any = 0) -> dict[str, Any]:
    key = {"name": "name", "labels": "labels", "index": "sort_index"}[kind.split("_")[-1]]
    return {"ph": "M", "name": kind, "pid": pid, "tid": tid, "ts": 0, "args": {key: value}}


def test_tracks_say_what_the_trace_says(tmp_path: Path) -> None:
    events = [
        named("process_name", "python3", 25), named("process_labels", "CPU", 25), named("process_labels", "GPU 1", 1),
        named("thread_name", "thread 9 (autograd)", 25, 9), named("thread_name", "stream 7 ", 1, 7),
        {"ph": "M", "name": "thread_sort_index", "pid": 25, "tid": 9, "args": {"sort_index": 4}},
        op("a", 1, 1, pid=25, tid=9), op("k", 1, 1, cat="kernel", pid=1, tid=7, device=1, stream=7, context=3),
        op("Trace", 0, 9, cat="Trace", pid="Spans", tid="PyTorch Profiler"),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    thread, span, stream = rows(recording, "tracks")
    assert (thread["kind"], thread["name"], thread["process_id"], thread["thread_id"]) == (
        "thread", "thread 9 (autograd)", 25, 9,
    )  # fmt: skip
    assert thread["sort_key"] == 4
    assert (span["kind"], span["process_id"], span["thread_id"]) == ("thread", None, None)
    assert (stream["kind"], stream["name"], stream["device_index"], stream["stream_id"], stream["context_id"]) == (
        "stream", "stream 7", 1, 7, 3,
    )  # fmt: skip
    assert rows(recording, "processes", "process_id", "name") == [(25, "python3"), (None, "Spans")]


def test_string_tids_of_2021_name_the_same_track_as_numbers(tmp_path: Path) -> None:
    events = [
        op("aten::empty", 1, 9, cat="Operator", pid=5, tid="5"),
        {"ph": "i", "s": "t", "name": "[memory]", "pid": 5, "tid": 5, "ts": 2, "args": {"Bytes": 4, "Device Type": 0}},
        op("Kernel", 3, 1, cat="Kernel", pid=0, tid="stream 7"),
    ]
    recording = imported(tmp_path, events)
    thread, stream = rows(recording, "tracks")
    assert (thread["thread_id"], stream["kind"], stream["stream_id"], stream["device_index"]) == (5, "stream", 7, 0)
    (event,) = rows(recording, "memory")
    assert (event["track_id"], event["slice_id"]) == (thread["track_id"], rows(recording, "slices", "slice_id")[0][0])


def test_numbers_of_a_device_slice_that_its_track_does_not_tell_stay_in_args(tmp_path: Path) -> None:
    events = [
        kernel("a", 1, 1, context=1), kernel("b", 3, 1, context=2, grid=[1]),
        op("call", 0, 1, stream=7, device=0), kernel("node", 5, 1, **{"graph id": 3, "graph node id": 8}),
    ]  # fmt: skip
    recording = imported(tmp_path, events)
    args = {row["name"]: json.loads(row["args"] or "{}") for row in rows(recording, "slices")}
    assert args == {
        "a": {"context": 1}, "b": {"context": 2, "grid": [1]}, "call": {"device": 0, "stream": 7},
        "node": {"graph node id": 8},
    }  # fmt: skip
    graph = {row["name"]: row["graph_id"] for row in rows(recording, "slices")}
    assert graph == {"a": None, "b": None, "call": None, "node": 3}


def test_devices_are_those_of_the_list_and_those_with_tracks(tmp_path: Path) -> None:
    listed = [{"id": 0, "name": "A100", "totalGlobalMem": 42, "numSms": 108}, {"id": 1, "name": "A100"}]
    recording = imported(
        tmp_path, [kernel("k", 1, 1), kernel("far", 1, 1, device=5) | {"pid": 5}], deviceProperties=listed
    )
    found = rows(recording, "devices")
    assert [(row["device_type"], row["device_index"], row["name"]) for row in found] == [
        ("cuda", 0, "A100"), ("cuda", 1, "A100"), ("cuda", 5, None),
    ]  # fmt: skip
    assert (found[0]["memory_bytes"], json.loads(found[0]["properties"])) == (42, {"numSms": 108})


@pytest.mark.parametrize(
    ("metadata", "categories", "names", "expected"),
    [
        ({}, ["cuda_runtime"], ["cudaLaunchKernel"], "cuda"),
        ({"hip_runtime_version": "6"}, ["cuda_runtime"], ["hipLaunchKernel"], "hip"),
        ({}, ["cuda_runtime"], ["hipLaunchKernel"], "hip"),
        ({"deviceProperties": [{"name": "AMD Instinct MI300X"}]}, ["kernel"], [], "hip"),
        ({}, ["mtia_ccp_events"], [], "mtia"),
        ({}, ["xpu_runtime", "kernel"], [], "xpu"),
        ({}, ["privateuse1_runtime", "kernel"], [], "privateuseone"),
        ({"privateuse1_backend": "npu"}, ["privateuse1_runtime", "kernel"], [], "npu"),
        ({"privateuse1_backend": "../npu"}, ["privateuse1_runtime", "kernel"], [], "privateuseone"),
        ({"privateuse1_backend": "npu"}, ["cuda_runtime"], [], "cuda"),
    ],
)
def test_device_type(metadata: dict[str, object], categories: list[str], names: list[str], expected: str) -> None:
    assert device_type(metadata, categories, names) == expected


def test_only_listed_names_of_the_top_level_are_kept(tmp_path: Path) -> None:
    secret = "hf_SeCrEtToKeN0123456789"
    recording = imported(
        tmp_path, [op("a", 1, 1)], cuda_runtime_version=12040, trace_id="ABC", host_name="host0", with_stack=1,
        username=secret, HF_TOKEN=secret, env={"AWS_SECRET": secret}, INFO=[secret], tw_job=secret, x_version=secret,
        traceName=f"/home/{secret}/run/rank0.json",
        distributedInfo={"rank": 0, "backend": "nccl", "nccl_version": "2.21", "token": secret},
    )  # fmt: skip
    for path in recording.path.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes()
    assert recording.rank_info(0)["identity"] == {
        "cuda_runtime_version": 12040, "trace_id": "ABC", "host_name": "host0", "with_stack": 1, "schemaVersion": 1,
        "trace_name": "rank0.json", "backend": "nccl", "nccl_version": "2.21",
    }  # fmt: skip


def test_the_segment_and_the_clock(tmp_path: Path) -> None:
    recording = imported(tmp_path, [op("a", 10, 5), kernel("k", 20, 30)], baseTimeNanoseconds=1000)
    (segment,) = rows(recording, "segments")
    assert (segment["ts"], segment["dur"], segment["raw_file"], segment["state"]) == (
        11_000, 40_000, "rank0.json", "converted",
    )  # fmt: skip
    (clock,) = rows(recording, "clocks")
    assert (clock["offset_ns"], clock["method"]) == (1000, "trace_base")
