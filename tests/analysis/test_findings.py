"""What findings say, on hand-made steps and on real traces."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from stallscope.analysis.finding_texts import ON_THREADS, WORDING, duration_text, wording
from stallscope.analysis.findings import LIMIT, Findings, findings
from stallscope.profiler.recording.reader import open_recording
from tests.builders import TraceBuilder

US = 1000
STEP = 10_000


class Run:
    """A training run of some steps of 10 ms; each step is 8 ms of computation unless a test says otherwise."""

    def __init__(self, steps: int = 4, rank: int = 0) -> None:
        self.trace = TraceBuilder(rank=rank)
        self.main, self.gpu = self.trace.thread("main"), self.trace.stream(7)
        self.starts = [n * STEP for n in range(steps)]
        for n, start in enumerate(self.starts):
            self.trace.step(n, start * US, STEP * US)
            self.host(f"ProfilerStep#{n}", "annotation", start, STEP)

    def host(self, name: str, category: str, ts: int, dur: int) -> int:
        return self.trace.slice(self.main, name, category, ts * US, dur * US)

    def kernel(self, call: int, start: int, dur: int, **more: Any) -> tuple[int, int]:
        return self.trace.launched(
            self.main, more.pop("stream", self.gpu), call=(call * US, 5 * US), work=(start * US, dur * US), **more
        )

    def found(self) -> Findings:
        return findings(self.trace.recording())


def test_input_wait_with_its_line_and_gain() -> None:
    run = Run()
    run.trace.python(run.main, "train.py(12): epoch", 0, 4 * STEP * US)
    for start in run.starts:
        load = run.host("enumerate(DataLoader)#x", "input", start, 2000)
        _, kernel = run.kernel(start + 2010, start + 2020, 7980)
    found = run.found()
    assert [finding.kind for finding in found.findings] == ["input"]
    finding = found.findings[0]
    # The first step has no wait on the device: its window starts with its first kernel.
    assert finding.gives_back_ns == pytest.approx(2020 * US * 3 / 4, rel=0.02)
    assert (finding.per, finding.file, finding.line, finding.function) == ("step", "train.py", 12, "epoch")
    assert (finding.rank, finding.ranks, finding.confidence) == (0, (0,), "high")
    assert load in finding.slice_ids and kernel in finding.slice_ids
    assert "num_workers" in finding.advice and "pieces per step" in finding.evidence
    assert found.verdict.startswith("The device waits for the next batch")


def test_a_busy_device_is_the_limit_and_no_finding() -> None:
    run = Run()
    for n in range(40):
        run.kernel(10 * n, 1000 * n + 500, 998)
    found = run.found()
    assert found.findings == () and found.verdict == "The device is the limit: 100% of the time is computation."


def test_small_kernels_are_launch_bound() -> None:
    run = Run(steps=2)
    for n in range(900):
        run.kernel(20 * n, 20 * n + 8, 4)
    first = run.found().findings[0]
    assert first.kind == "launch_bound" and first.share_frac == pytest.approx(0.8, abs=0.05)
    assert "half of them shorter than 4.00 us" in first.evidence and first.line is None


@pytest.mark.parametrize("slow_steps", [1, 6])
def test_a_step_that_was_slow_once_is_not_launch_bound(slow_steps: int) -> None:
    """The device waits for launches for 40 us before each of its 100 us kernels, in one step of six or in all."""
    run = Run(steps=6)
    for number, start in enumerate(run.starts):
        gap = 40 if number < slow_steps else 0
        for n in range(STEP // 140 if gap else STEP // 100):
            at = start + n * (100 + gap)
            run.kernel(at + gap - 5 if gap else max(at - 300, 0), at + gap, 100)
    kinds = [finding.kind for finding in run.found().findings]
    assert ("launch_bound" in kinds) == (slow_steps == 6)


def test_what_many_lines_share_in_is_said_once() -> None:
    run = Run(steps=2)
    run.trace.python(run.main, "train.py(12): epoch", 0, 12_000 * US)
    run.trace.python(run.main, "train.py(40): evaluate", 12_000 * US, 8_000 * US)
    for n in range(900):
        run.kernel(20 * n, 20 * n + 8, 4)
    found = run.found().findings
    assert [(finding.kind, finding.line) for finding in found] == [("launch_bound", 12)]
    assert "Elsewhere it is" in found[0].evidence


def test_pageable_copies_and_their_line() -> None:
    run = Run()
    run.trace.python(run.main, "train.py(20): to_device", 0, 4 * STEP * US)
    copy = {"category": "memcpy", "call_name": "cudaMemcpyAsync", "name": "Memcpy HtoD (Pageable -> Device)"}
    for start in run.starts:
        run.kernel(start + 10, start + 20, 3000, **copy)
        run.kernel(start + 3000, start + 3020, 6990)
    first = run.found().findings[0]
    assert (first.kind, first.gives_back_ns, first.line) == ("pageable_copy", 3000 * US, 20)
    assert "Pin the memory" in first.advice


def test_a_wait_that_shows_later() -> None:
    run = Run()
    for start in run.starts:
        run.kernel(start + 10, start + 20, 5000)
        run.host("cudaStreamSynchronize", "synchronization", start + 30, 4995)
        for n in range(10):
            run.host("aten::mm", "op", start + 5030 + 400 * n, 150)
            run.kernel(start + 5190 + 400 * n, start + 5200 + 400 * n, 200)
    first = run.found().findings[0]
    assert first.kind == "synchronization" and "shows later" in first.evidence


def test_unexplained_holding_has_low_confidence() -> None:
    run = Run()
    for start in run.starts:
        run.kernel(start, start + 100, 2000)
        run.kernel(start + 20, start + 6000, 4000)
    first = run.found().findings[0]
    assert (first.kind, first.confidence) == ("held", "low")


def test_preparation_is_in_no_average_but_told_apart() -> None:
    run = Run(steps=5)
    run.host("_compile.compile_inner (dynamo_timed)", "compile", 100, 9000)
    for start in run.starts:
        run.kernel(start + 9200, start + 9210, 9900 if start else 700)
    found = run.found()
    assert found.findings == ()
    cold = found.cold_starts[0]
    assert (cold.rank, cold.steps) == (0, 1) and cold.steady_step_ns == STEP * US


def test_steady_steps_without_work_leave_the_whole_window() -> None:
    run = Run(steps=2)
    run.host("_compile.compile_inner (dynamo_timed)", "compile", 100, 9000)
    run.kernel(10, 20, 30)
    run.kernel(9200, 9210, 700)
    found = run.found()
    assert [(finding.kind, finding.per) for finding in found.findings] == [("compile", "window")]
    assert found.cold_starts[0].steady_step_ns is None


def test_communication_of_one_rank_cannot_be_told_apart() -> None:
    run = Run()
    for start in run.starts:
        run.kernel(start, start + 10, 6000)
        run.kernel(start + 10, start + 6010, 4000, name="ncclDevKernel_AllReduce", category="collective")
    first = run.found().findings[0]
    assert (first.kind, first.gives_back_ns, first.confidence) == ("communication", 4000 * US, "medium")
    assert "cannot be told apart" in first.evidence


def two_ranks(late: int) -> Findings:
    """Rank 1 computes ``late`` us longer than rank 0, which waits for it in an all-reduce of 1 ms."""
    runs = [Run(steps=8, rank=rank) for rank in (0, 1)]
    for run, extra in zip(runs, (0, late), strict=True):
        run.trace.row("groups", group_id=7, name="0", description=None, ranks=[0, 1], kind="dp")
        for number, start in enumerate(run.starts):
            run.kernel(start, start + 10, 5000 + extra)
            reduce = {"name": "ncclDevKernel_AllReduce", "category": "collective"}
            begin, end = start + 5010 + extra, start + 6010 + late
            call, part = run.kernel(start + 20, begin, end - begin, **reduce)
            run.trace.row(
                "collectives", slice_id=call, device_slice_id=part, group_id=7, sequence_number=number,
                kind="all_reduce",
            )  # fmt: skip
            run.kernel(start + 30, end, start + STEP - end)
    return findings(runs[0].trace.recording(runs[1].trace))


def test_waiting_for_a_peer_is_told_from_the_transfer() -> None:
    by_kind = {finding.kind: finding for finding in two_ranks(late=2000).findings}
    waiting = by_kind["wait_for_peer"]
    assert waiting.gives_back_ns == 2000 * US and waiting.rank == 0 and "(rank 1)" in waiting.title
    assert by_kind["communication"].gives_back_ns == 1000 * US
    assert by_kind["communication"].ranks == (0, 1)


def test_the_same_thing_on_several_ranks_is_one_finding() -> None:
    runs = [Run(rank=rank) for rank in (0, 1)]
    for run, wait in zip(runs, (2000, 4000), strict=True):
        for start in run.starts:
            run.host("enumerate(DataLoader)#x", "input", start, wait)
            run.kernel(start + wait + 10, start + wait + 20, STEP - wait - 20)
    found = findings(runs[0].trace.recording(runs[1].trace)).findings
    assert [(finding.kind, finding.rank, finding.ranks) for finding in found] == [("input", 1, (0, 1))]


def test_threads_are_spoken_of_as_threads() -> None:
    run = Run()
    for start in run.starts:
        run.host("enumerate(DataLoader)#x", "input", start, 4000)
        run.host("aten::mm", "op", start + 4000, 6000)
    first = run.found().findings[0]
    assert first.title == "The training thread waits for the next batch" and "pin_memory" not in first.advice


def test_copies_between_tensors_on_the_cpu_are_not_copies_to_a_device() -> None:
    run = Run()
    for start in run.starts:
        run.host("aten::clone", "op", start, 4000)
        run.host("aten::mm", "op", start + 4000, 6000)
    first = run.found().findings[0]
    assert (first.kind, first.gives_back_ns) == ("copy", 4000 * US)
    assert first.title == "Tensors are copied, and nothing is computed meanwhile"


_OF_A_DEVICE = re.compile(r"\bthe device\b|pinned|\bpin\b|pin_memory|non_blocking|stream|queue|launch")


@pytest.mark.parametrize("kind", ["input", "copy", "python", "gc", "io", "lock", "preempted", "between_ops", "compile"])
def test_nothing_of_a_device_is_said_where_there_is_none(kind: str) -> None:
    words = wording(kind, on_device=False)
    assert not _OF_A_DEVICE.search(words.title.format(device="the training thread") + words.advice)
    assert wording(kind, on_device=True) is WORDING[kind]


@pytest.mark.parametrize("build", [lambda t: None, lambda t: t.thread(), lambda t: t.step(0, 0, 10)])
def test_nothing_to_judge(build: Any) -> None:
    trace = TraceBuilder()
    build(trace)
    found = findings(trace.recording())
    assert found.findings == () and found.verdict.startswith("No device work")


def test_wording_is_complete_and_times_have_three_digits() -> None:
    assert all(words.title and words.advice.endswith(".") for words in (*WORDING.values(), *ON_THREADS.values()))
    assert set(ON_THREADS) <= set(WORDING)
    assert [duration_text(n) for n in (999, 1_000, 47_536_000, 162_000_000, 8_290_000_000)] == [
        "999 ns", "1.00 us", "47.5 ms", "162 ms", "8.29 s",
    ]  # fmt: skip


def test_data_loading_on_the_real_pair(traces: Path) -> None:
    first = {}
    for workers in (0, 4):
        found = findings(open_recording(traces / "kineto" / f"v100_resnet50_workers{workers}.json.gz"))
        assert len(found.findings) <= LIMIT
        first[workers] = found
    verdict = first[0].findings[0]
    assert (verdict.kind, verdict.file, verdict.line) == ("input", "resnet50_profiler_api.py", 42)
    assert "num_workers" in verdict.advice
    assert "input" not in {finding.kind for finding in first[4].findings}
