"""A small recording with everything that the views show, and with names that would be trouble as HTML."""

from __future__ import annotations

from pathlib import Path

from stallscope.profiler.recording.reader import Recording
from tests.builders import TraceBuilder

MS = 1_000_000
START = 1_700_000_000_000_000_000
HOSTILE = "<img src=x onerror=\"document.body.dataset.owned='1'\"></script><b>"
STEPS = 4


def rank_of_training(rank: int, *, memory: bool = False) -> TraceBuilder:
    """Steps of 10 ms: the host loads for 6 ms, then launches 3 ms of work with a hostile name, and a copy.

    With ``memory`` each step allocates 1 MiB, 2 MiB and 4 MiB on the device, and frees the last two.
    """
    trace = TraceBuilder(rank)
    main = trace.thread(f"python {HOSTILE}", process_id=100 + rank, thread_id=100 + rank)
    gpu = trace.stream(7, device_index=rank)
    trace.row("devices", device_type="cuda", device_index=rank, name=f"Test GPU {HOSTILE}", memory_bytes=16 << 30)
    counter = trace.new_id()
    trace.row("tracks", track_id=counter, kind="counter", name=f"power {HOSTILE}", unit="W")
    for number in range(STEPS):
        begin = START + number * 10 * MS
        trace.slice(main, f"ProfilerStep#{number}", "annotation", begin, 10 * MS)
        trace.step(number, begin, 10 * MS)
        trace.python(main, f"/home/me/train.py({20 + number % 2}): load{HOSTILE}", begin + 50_000, 6_100_000)
        trace.slice(main, "torch/utils/data/dataloader.py(600): __next__", "python", begin + 100_000, 6 * MS)
        op = trace.slice(main, f"aten::mm{HOSTILE}" if memory else "aten::mm", "op", begin + 6_200_000, 200_000,
                         args='{"note": "</script><script>alert(1)"}')  # fmt: skip
        if memory:
            _allocations(trace, number, begin + 6_210_000, op)
        work = begin + 6_300_000
        trace.launched(main, gpu, call=(begin + 6_250_000, 10_000), work=(work, 3 * MS), name=f"gemm {HOSTILE}")
        copy = {"name": "Memcpy HtoD", "category": "memcpy"}
        trace.launched(main, gpu, call=(begin + 6_300_000, 10_000), work=(work + 3 * MS, 100_000), **copy)
        trace.row("counters", track_id=counter, ts=begin, value=100.0 + number)
    trace.row(
        "losses", collector="torch", kind="pause", severity="warning", ts=START + 12 * MS, dur=MS, count=1,
        detail=f"paused {HOSTILE}",
    )  # fmt: skip
    return trace


def _allocations(trace: TraceBuilder, step: int, ts: int, op: int) -> None:
    """Three allocations 1 us apart and two frees; 1 MiB a step stays."""
    held = step << 20
    for number, size in enumerate((1 << 20, 2 << 20, 4 << 20, -(4 << 20), -(2 << 20))):
        held += size
        trace.row(
            "memory", event_id=trace.new_id(), ts=ts + 1000 * number, device_type="cuda", device_index=trace.rank,
            address=(1 << 30) + (16 << 20) * (step if abs(size) == 1 << 20 else abs(size) >> 10), bytes=size,
            total_allocated=held, total_reserved=64 << 20, slice_id=op,
        )  # fmt: skip


def training(path: Path, ranks: int = 2, *, memory: bool = False) -> Recording:
    """That recording with some ranks, written to a folder and opened."""
    first, *others = [rank_of_training(rank, memory=memory) for rank in range(ranks)]
    return first.write(path, *others)
