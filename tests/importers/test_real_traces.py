"""Every event of every public trace is a row or is counted, and device time is what an independent program says."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from stallscope.profiler.recording.categories import DEVICE_WORK
from stallscope.profiler.recording.reader import Recording

from .small_traces import import_files, losses, rows

FILES = (
    "a100_ddp_rank3_stacks", "a100_event_sync_multi_stream", "a100_nccl_ns_rank0", "a100_simple_add_cuda_sync",
    "cpu_only_rank34", "h100_qwen_0.5b", "mi250_minitoy", "mi300x_qwen_0.5b", "mi300x_resnet_rccl_rank0",
    "mi300x_torch_compile_triton", "mtia_inference_rank0", "no_distributed_info", "sampled_128ranks_rank0",
    "sampled_128ranks_rank1", "sglang_qwen3_8b_prefill_decode", "v100_ddp_rank1_memory", "v100_ns_resolution_rank0",
    "v100_rank1_stacks_graphs", "v100_resnet50_workers0", "v100_resnet50_workers4",
)  # fmt: skip
RANKS = {"a100_ddp_rank3_stacks": 3, "cpu_only_rank34": 34, "sampled_128ranks_rank1": 1, "v100_ddp_rank1_memory": 1,
         "v100_rank1_stacks_graphs": 1}  # fmt: skip


@pytest.fixture(scope="module")
def expected(traces: Path) -> dict[str, dict[str, str]]:
    with (traces / "expected.csv").open() as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def union_ns(ts: np.ndarray, end: np.ndarray) -> int:
    covered, reached = 0, None
    for start, stop in sorted(zip(ts.tolist(), end.tolist(), strict=True)):
        begin = start if reached is None else max(start, reached)
        covered += max(0, stop - begin)
        reached = stop if reached is None else max(reached, stop)
    return covered


def check(recording: Recording, rank: int, expected: dict[str, str]) -> None:
    assert recording.ranks == (rank,)
    info = recording.rank_info(rank)
    assert info["status"] == "completed"
    events, arrows = info["import"]["events"], info["import"]["arrows"]
    assert sum(events.values()) == int(expected["events"])
    for phase, column in (("X", "complete"), ("s", "flow_start"), ("f", "flow_end"), ("i", "instant")):
        assert events.get(phase, 0) == int(expected[column]), column
    lost = losses(recording)
    table = recording.table("slices")
    is_instant = np.array([kind == "instant" for kind in table["kind"].to_pylist()])
    assert int((~is_instant).sum()) == int(expected["complete"])
    assert int(is_instant.sum()) + recording.table("memory").num_rows == int(expected["instant"])
    assert arrows["matched"] + arrows["ends_without_start"] == int(expected["flow_end"])
    assert lost.get("flow_without_start", 0) == arrows["ends_without_start"]
    assert lost.get("flow_without_end", 0) == arrows["starts_without_end"]
    assert recording.table("steps").num_rows == int(expected["steps"])
    assert not any(row["severity"] == "data_loss" for row in rows(recording, "losses"))
    check_device_time(recording, expected)


def check_device_time(recording: Recording, expected: dict[str, str]) -> None:
    table = recording.table("slices")
    streams = {track for track, kind in rows(recording, "tracks", "track_id", "kind") if kind == "stream"}
    on_stream = np.isin(table["track_id"].to_numpy(), list(streams))
    work = on_stream & np.array([category in DEVICE_WORK for category in table["category"].to_pylist()])
    if expected["window_ns"]:
        assert int(work.sum()) == int(expected["device_events"])
        ts, end = table["ts"].to_numpy()[work], (table["ts"].to_numpy() + table["dur"].to_numpy())[work]
        assert int(end.max() - ts.min()) == int(expected["window_ns"])
        assert union_ns(ts, end) == int(expected["busy_ns"])


@pytest.mark.parametrize("name", FILES)
def test_a_trace_balances(name: str, traces: Path, expected: dict[str, dict[str, str]], tmp_path: Path) -> None:
    recording = import_files(tmp_path / "recording", traces / "kineto" / f"{name}.json.gz")
    check(recording, RANKS.get(name, 0), expected[f"kineto/{name}.json.gz"])


def test_eight_files_are_eight_ranks(traces: Path, expected: dict[str, dict[str, str]], tmp_path: Path) -> None:
    folder = traces / "kineto" / "dlrm_v100x8"
    recording = import_files(tmp_path / "recording", *sorted(folder.iterdir()))
    assert recording.ranks == tuple(range(8))
    assert recording.info["world_size"] == 8
    ids = recording.table("slices")["slice_id"].to_numpy()
    assert np.unique(ids).size == ids.size
    for rank in recording.ranks:
        row = expected[f"dlrm_v100x8/rank{rank}.pt.trace.json.gz"]
        assert sum(recording.rank_info(rank)["import"]["events"].values()) == int(row["events"])
        complete = recording.table("slices", ranks=rank).filter(
            np.array([kind == "complete" for kind in recording.table("slices", ranks=rank)["kind"].to_pylist()])
        )
        assert complete.num_rows == int(row["complete"])


def test_what_is_known_of_these_traces(traces: Path, tmp_path: Path) -> None:
    """Figures that others have published or counted in these files."""
    kineto = traces / "kineto"
    rccl = import_files(tmp_path / "rccl", kineto / "mi300x_resnet_rccl_rank0.json.gz")
    categories = dict(rows(rccl, "slices", "slice_id", "raw_category"))
    launched = {target for target, kind in rows(rccl, "flows", "to_slice_id", "kind") if kind == "launch"}
    kernels = {identity for identity, category in categories.items() if category == "kernel"}
    assert (len(kernels), len(kernels - launched)) == (2995, 757)
    assert set(rows(rccl, "devices", "device_type")) == {("hip",)}
    graphs = import_files(tmp_path / "graphs", kineto / "v100_rank1_stacks_graphs.json.gz")
    names = dict(rows(graphs, "slices", "slice_id", "name"))
    per_call: dict[int, int] = {}
    for source, kind in rows(graphs, "flows", "from_slice_id", "kind"):
        if kind == "launch" and names[source] == "cudaGraphLaunch":
            per_call[source] = per_call.get(source, 0) + 1
    assert max(per_call.values()) > 100
    assert losses(graphs)["overlapping_slices"] == 24
    sync = import_files(tmp_path / "sync", kineto / "a100_event_sync_multi_stream.json.gz")
    kinds = [kind for (kind,) in rows(sync, "flows", "kind")]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {
        "launch": 11, "event_sync": 2, "stream_wait": 1, "device_sync": 1,
    }  # fmt: skip
    mtia = import_files(tmp_path / "mtia", kineto / "mtia_inference_rank0.json.gz")
    streams = [row for row in rows(mtia, "tracks") if row["kind"] == "stream"]
    assert {(row["device_type"], row["device_index"]) for row in streams} == {("mtia", 17)}
    assert sorted(row["stream_id"] for row in streams) == list(range(101, 113))
