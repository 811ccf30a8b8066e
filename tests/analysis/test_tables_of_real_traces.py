"""The tables on traces of real jobs: they hold together with each other and with what the files themselves say."""

from __future__ import annotations

import csv
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from stallscope.analysis.collective_totals import collective_issues, collective_summary
from stallscope.analysis.copies import copies
from stallscope.analysis.fallbacks import fallbacks
from stallscope.analysis.kernels import kernels
from stallscope.analysis.memory import memory_peaks, memory_timeline
from stallscope.analysis.memory_growth import memory_growth
from stallscope.analysis.memory_holders import memory_holders
from stallscope.analysis.ops import ops
from stallscope.analysis.source_lines import source_lines
from stallscope.analysis.timeline import timeline
from stallscope.profiler.recording.reader import Recording, open_recording

FILES = [
    "a100_ddp_rank3_stacks", "a100_event_sync_multi_stream", "a100_nccl_ns_rank0", "a100_simple_add_cuda_sync",
    "cpu_only_rank34", "h100_qwen_0.5b", "mi250_minitoy", "mi300x_qwen_0.5b", "mi300x_resnet_rccl_rank0",
    "mi300x_torch_compile_triton", "mtia_inference_rank0", "no_distributed_info", "sampled_128ranks_rank0",
    "sglang_qwen3_8b_prefill_decode", "v100_ddp_rank1_memory", "v100_ns_resolution_rank0",
    "v100_rank1_stacks_graphs", "v100_resnet50_workers0",
]  # fmt: skip
EVERYTHING = (0, 2**62)


@pytest.fixture(scope="module")
def opened(traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Opens a trace once for all tests of this file."""
    known: dict[str, Recording] = {}
    patch = pytest.MonkeyPatch()

    def open_once(name: str) -> Recording:
        if name not in known:
            # The tests of a file share an import; each test has a cache of its own otherwise.
            patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("imported")))
            known[name] = open_recording(traces / "kineto" / name)
        return known[name]

    yield open_once
    patch.undo()


def events_of(traces: Path, name: str) -> list[dict[str, Any]]:
    with gzip.open(traces / "kineto" / f"{name}.json.gz") as file:
        found: list[dict[str, Any]] = json.load(file)["traceEvents"]
    return found


@pytest.mark.parametrize("name", FILES)
def test_tables_agree_with_the_timeline_and_with_the_reference(opened: Any, traces: Path, name: str) -> None:
    recording = opened(f"{name}.json.gz")
    (rank,) = recording.ranks
    t = timeline(recording, rank)
    work = t.device_rows
    table = kernels(recording, window=EVERYTHING)
    assert table["count"].sum() == len(work) and table["total_ns"].sum() == t.dur[work].sum()
    assert (table["union_ns"] <= table["total_ns"]).all() and (table["min_ns"] <= table["p50_ns"]).all()
    with (traces / "expected.csv").open() as file:
        expected = {row["file"]: row for row in csv.DictReader(file)}
    (row,) = [row for file, row in expected.items() if name in file]
    if len(t.devices) == 1 and row["busy_ns"]:
        assert table.attrs["busy_ns"] == int(row["busy_ns"])
    framework = ops(recording, window=EVERYTHING)
    assert framework["device_self_ns"].sum() + framework.attrs["unattributed_device_ns"] == t.dur[work].sum()
    lines = source_lines(recording, window=EVERYTHING)
    on_host = [i for i, track in enumerate(t.tracks) if track.kind == "thread"]
    roots = (t.parent < 0) & [track in on_host for track in t.track.tolist()]
    assert lines["host_ns"].sum() == t.dur[roots].sum()
    assert lines["device_ns"].sum() == t.dur[work[t.launch[work] >= 0]].sum()
    for peak in memory_peaks(recording):
        assert peak.basis == "seen" or peak.peak_allocated_bytes >= peak.first_allocated_bytes
    if memory_peaks(recording):
        assert memory_holders(recording)["bytes"].sum() == memory_peaks(recording)[0].peak_allocated_bytes
    assert (copies(recording)["union_ns"] >= 0).all() and fallbacks(recording).empty
    assert len(memory_growth(recording)) in (0, len(memory_peaks(recording)))
    summary = collective_summary(recording)
    assert summary.wait_for_peer_ns in (None, 0)
    assert summary.total_ns == summary.unknown_ns + (summary.transfer_ns or 0)
    assert collective_issues(recording)["total_ns"].sum() == summary.unknown_ns


@pytest.mark.parametrize("name", ["h100_qwen_0.5b", "mi300x_qwen_0.5b"])
def test_memory_of_a_device_is_what_the_file_says(opened: Any, traces: Path, name: str) -> None:
    events = [e["args"] for e in events_of(traces, name) if e["name"] == "[memory]" and e["args"]["Device Id"] == 0]
    recording = opened(f"{name}.json.gz")
    device = memory_peaks(recording)[0]
    assert device.events == len(events) and device.matched_by == "address"
    assert device.peak_allocated_bytes == max(args["Total Allocated"] for args in events)
    assert device.peak_reserved_bytes == max(args["Total Reserved"] for args in events)
    assert device.allocated_in_bytes == sum(args["Bytes"] for args in events if args["Bytes"] > 0)
    frame = memory_timeline(recording)
    assert frame["allocated_bytes"].max() == device.peak_allocated_bytes


def test_memory_without_addresses_or_totals(opened: Any, traces: Path) -> None:
    events = [e["args"] for e in events_of(traces, "v100_resnet50_workers0") if e["name"] == "[memory]"]
    device = memory_peaks(opened("v100_resnet50_workers0.json.gz"))[0]
    level = highest = 0
    for args in events:
        if args["Device Type"] == 1:
            level += args["Bytes"]
            highest = max(highest, level)
    assert (device.basis, device.matched_by) == ("seen", "size") and device.peak_allocated_bytes == highest
    holders = memory_holders(opened("v100_resnet50_workers0.json.gz"), by="line")
    assert holders["holder"].iloc[0] == "resnet50_profiler_api.py:46 <module>"


def test_kernels_launched_by_hip_calls_have_delays(opened: Any) -> None:
    table = kernels(opened("mi300x_resnet_rccl_rank0.json.gz"), window=EVERYTHING)
    assert table["launch_delay_p50_ns"].notna().sum() > 30
    of_kernels = table[table["category"].isin(["kernel", "collective"])]
    assert of_kernels["without_launch_count"].sum() == 757 and table["count"].sum() == 2_995 + 550 + 108
