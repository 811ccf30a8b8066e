"""stallscope why, and stalls by reason: which stall is meant, and that what is printed fits and convinces."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.builders import TraceBuilder
from tests.cli.conftest import Run
from tests.cli.recordings import MS, START, written


def test_the_largest_stall_from_the_device_to_the_cause(run: Run, two_ranks: Path) -> None:
    text = run("why", "--largest", two_ranks).stdout
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "input" in text.splitlines()[0]
    for label in ("device ", "host ", "line ", "cause ", "confidence ", "evidence ", "in all ", "try "):
        assert any(line.startswith(label) for line in text.splitlines()), label
    assert "input (waiting for the next batch)" in " ".join(text.split())


def test_a_slice_a_time_and_a_stamp_mean_the_same_stall(run: Run, two_ranks: Path) -> None:
    whole = json.loads(run("why", "--largest", two_ranks, "--rank", "0", "--json").stdout)
    middle = whole["ts"] + whole["dur"] // 2
    offset = middle - whole["origin_ns"]
    for target in (whole["evidence"][-1], f"+{offset}ns", middle):
        assert json.loads(run("why", target, two_ranks, "--rank", "0", "--json").stdout) == whole
    first, *rest = json.loads(run("stalls", two_ranks, "--by", "reason", "--json").stdout)["stalls"]
    assert rest and first["kind"] == "input"
    assert json.loads(run("why", first["slice_ids"][0], two_ranks, "--json").stdout)["root_cause"] == "input"


@pytest.mark.parametrize(
    ("target", "code", "says"),
    [
        ("soon", 2, "is no slice id"),
        ("123456", 1, "there is no slice 123456"),
        ("+0.5ms", 1, "no device waited at that time"),
    ],
)
def test_what_is_no_stall_is_refused(run: Run, two_ranks: Path, target: str, code: int, says: str) -> None:
    assert says in run("why", target, two_ranks, exit_code=code).output


def test_a_stall_must_be_named(run: Run, two_ranks: Path) -> None:
    assert "--largest" in run("why", two_ranks, exit_code=2).output


def test_stalls_by_reason_say_what_they_would_give_back_and_what_to_try(run: Run, two_ranks: Path) -> None:
    lines = run("stalls", two_ranks).stdout.splitlines()
    assert all(len(line) <= 100 for line in lines)
    headings = [line for line in lines if line[:2] in ("1.", "2.")]
    assert headings[0].startswith("1. input ") and headings[0].endswith(("rank 0, cuda 0", "rank 1, cuda 0"))
    for label in ("gives back", "device", "host", "confidence", "try"):
        assert any(line.startswith(f"   {label}") for line in lines), label
    few = run("stalls", two_ranks, "-n", "1").stdout
    assert "more reasons" in few and "2. " not in few


def test_stalls_say_what_comes_back_only_together_with_another_delay(run: Run, tmp_path: Path) -> None:
    """A wait of 100 ms at a.py, one at b.py that finds the device idle, and 50 ms until the next launch."""
    trace = TraceBuilder()
    main, gpu = trace.thread("python"), trace.stream(7)
    for place, start, end in (("a.py(1): wait", 0, 105), ("b.py(2): wait", 105, 200)):
        trace.python(main, place, START + start * MS, (end - start) * MS)
    trace.launched(main, gpu, call=(START, MS), work=(START + MS, 100 * MS))
    trace.slice(main, "cudaDeviceSynchronize", "synchronization", START + 2 * MS, 100 * MS)
    trace.slice(main, "cudaDeviceSynchronize", "synchronization", START + 106 * MS, MS)
    trace.slice(main, "aten::mm", "op", START + 107 * MS, 50 * MS)
    trace.launched(main, gpu, call=(START + 157 * MS, MS), work=(START + 158 * MS, MS))
    text = " ".join(run("stalls", written(tmp_path / "r", trace)).stdout.split())
    assert "only together with another delay" in text
