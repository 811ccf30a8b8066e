"""Readable names of kernels and frames, on names that real traces hold."""

from __future__ import annotations

import gzip
import json
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.profiler.recording.short_names import LIMIT, short_name

TABLE = Path(__file__).with_name("short_names.tsv")
GOLDEN = [line.split("\t", 1) for line in TABLE.read_text().splitlines()[1:]]


@pytest.mark.parametrize(("short", "name"), GOLDEN, ids=[short for short, _ in GOLDEN])
def test_real_names_become_readable(short: str, name: str) -> None:
    assert (short_name(name) or name) == short


def test_the_table_holds_what_it_is_meant_to() -> None:
    assert len(GOLDEN) >= 40
    assert len({short for short, _ in GOLDEN}) == len(GOLDEN), "each is told from the others"
    assert all(len(short) <= LIMIT for short, _ in GOLDEN)


def test_a_name_that_is_short_already_has_no_other() -> None:
    assert short_name("aten::mm") is None
    assert short_name("volta_sgemm_64x64_nt") is None


@given(st.text(alphabet="ab:<>(){}[]#, _Z0123456789~+-", max_size=80))
def test_any_text_gives_a_name_within_the_limit(name: str) -> None:
    assert len(short_name(name) or "") <= LIMIT


@pytest.mark.parametrize("unit", ["<", "(", "f<int, ", "::{lambda(", "_Z1", "Cijk_", ">>"])
def test_a_hostile_name_of_a_megabyte_takes_no_long_time(unit: str) -> None:
    name = "void k<" + unit * (1_000_000 // len(unit))
    started = time.process_time()
    assert len(short_name(name) or "") <= LIMIT
    assert time.process_time() - started < 2


def test_most_kernels_of_a_real_trace_stay_distinct(traces: Path) -> None:
    names: set[str] = set()
    for file in ("a100_ddp_rank3_stacks", "mi300x_resnet_rccl_rank0", "h100_qwen_0.5b", "v100_ddp_rank1_memory"):
        trace = json.loads(gzip.decompress((traces / "kineto" / f"{file}.json.gz").read_bytes()))
        names |= {event["name"] for event in trace["traceEvents"] if event.get("cat") == "kernel"}
    short = {short_name(name) or name for name in names}
    assert len(names) > 200
    assert len(short) >= 0.85 * len(names)
