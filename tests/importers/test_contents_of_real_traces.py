"""Public traces of real runs, event by event: is each in the recording as the standard library reads it?"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from stallscope.profiler.recording.reader import Recording, open_recording

from .small_traces import losses, rows

NAMES = [
    "a100_ddp_rank3_stacks",
    "a100_event_sync_multi_stream",
    "a100_nccl_ns_rank0",
    "a100_simple_add_cuda_sync",
    "cpu_only_rank34",
    *(f"dlrm_v100x8/rank{rank}.pt.trace" for rank in range(8)),
    "h100_qwen_0.5b",
    "mi250_minitoy",
    "mi300x_qwen_0.5b",
    "mi300x_resnet_rccl_rank0",
    "mi300x_torch_compile_triton",
    "mtia_inference_rank0",
    "no_distributed_info",
    "sampled_128ranks_rank0",
    "sampled_128ranks_rank1",
    "sglang_qwen3_8b_prefill_decode",
    "v100_ddp_rank1_memory",
    "v100_ns_resolution_rank0",
    "v100_rank1_stacks_graphs",
    "v100_resnet50_workers0",
    "v100_resnet50_workers4",
]


@dataclass
class Case:
    """One file as the standard library reads it, and its recording."""

    path: Path
    document: dict[str, Any]
    recording: Recording

    def events(self, phase: str) -> list[dict[str, Any]]:
        return [event for event in self.document["traceEvents"] if event["ph"] == phase]

    def stamp(self, event: dict[str, Any]) -> int:
        return ns(event["ts"]) + int(self.document.get("baseTimeNanoseconds", 0))


def ns(value: Any) -> int:
    """Microseconds as whole ns, what is below them cut off."""
    return int(Decimal(str(value)) * 1000)


def test_no_file_is_left_out(traces: Path) -> None:
    folder = traces / "kineto"
    assert sorted(f"{name}.json.gz" for name in NAMES) == sorted(
        str(path.relative_to(folder)) for path in folder.rglob("*.json.gz")
    )


@pytest.fixture(scope="module", params=NAMES)
def case(request: pytest.FixtureRequest, traces: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    path = traces / "kineto" / f"{request.param}.json.gz"
    document = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    # All tests of a file share its recording, so it cannot lie in the cache of one of them.
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("shared_cache")))
        yield Case(path, document, open_recording(path))


def test_names_and_stamps(case: Case) -> None:
    found = [
        row[:4]
        for row in rows(case.recording, "slices", "name", "raw_category", "ts", "dur", "kind")
        if row[4] == "complete"
    ]
    wanted = [(str(event["name"]), event.get("cat"), case.stamp(event), ns(event["dur"])) for event in case.events("X")]
    assert Counter(found) == Counter(wanted)


def test_instants_and_memory(case: Case) -> None:
    instants = case.events("i")
    found = [row[:2] for row in rows(case.recording, "slices", "name", "ts", "kind") if row[2] == "instant"]
    wanted = [(event["name"], case.stamp(event)) for event in instants if event["name"] != "[memory]"]
    assert Counter(found) == Counter(wanted)
    memory = [event for event in instants if event["name"] == "[memory]"]
    assert Counter(rows(case.recording, "memory", "ts", "bytes", "total_allocated")) == Counter(
        (case.stamp(event), event["args"]["Bytes"], event["args"].get("Total Allocated")) for event in memory
    )


def test_each_arrow_is_matched_or_counted(case: Case) -> None:
    (rank,) = case.recording.ranks
    arrows = case.recording.rank_info(rank)["import"]["arrows"]
    starts = Counter((event["cat"], str(event["id"])) for event in case.events("s"))
    ends = Counter((event["cat"], str(event["id"])) for event in case.events("f"))
    lost = losses(case.recording)
    without_start = sum(count for identity, count in ends.items() if identity not in starts)
    assert arrows["matched"] == ends.total() - without_start
    assert arrows["ends_without_start"] == lost.get("flow_without_start", 0) == without_start
    repeated = starts.total() - len(starts)
    assert lost.get("repeated_flow_start", 0) == repeated
    without_end = sum(count for identity, count in starts.items() if identity not in ends)
    assert arrows["starts_without_end"] == lost.get("flow_without_end", 0) >= without_end
    # Of several starts with one id all but one may have no end; of those with an id of their own none more may.
    assert arrows["starts_without_end"] <= without_end + repeated


def test_steps(case: Case) -> None:
    wanted = Counter(
        (int(event["name"].split("#")[1]), case.stamp(event), ns(event["dur"]), "host")
        for event in case.events("X")
        if event["name"].startswith("ProfilerStep#") and "gpu" not in event["cat"].lower()
    )
    assert Counter(rows(case.recording, "steps", "step", "ts", "dur", "basis")) == wanted


def test_what_is_said_of_the_job_and_of_the_file(case: Case) -> None:
    (rank,) = case.recording.ranks
    info = case.document.get("distributedInfo", {})
    if "rank" in info:
        assert rank == info["rank"]
    assert case.recording.info.get("world_size") == info.get("world_size")
    facts = case.recording.rank_info(rank)["import"]
    assert (facts["file"], facts["bytes"]) == (case.path.name, case.path.stat().st_size)
    assert facts["events"] == Counter(event["ph"] for event in case.document["traceEvents"])
    assert rows(case.recording, "segments", "raw_file", "state") == [(case.path.name, "converted")]
