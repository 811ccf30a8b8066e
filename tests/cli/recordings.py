"""Small recordings on disk, for commands to read."""

from __future__ import annotations

from pathlib import Path

from stallscope.profiler.recording.writer import RecordingWriter
from tests.builders import TraceBuilder

MS = 1_000_000
START = 1_700_000_000_000_000_000


def written(path: Path, *builders: TraceBuilder, run_id: str | None = None, status: str = "completed") -> Path:
    """Writes the ranks of the builders as a recording; returns its folder."""
    writer = RecordingWriter.create(path, label="hand-made", world_size=len(builders), run_id=run_id)
    for builder in builders:
        rank_writer = writer.rank(builder.rank)
        rows = builder.recording()
        for name in builder.rows:
            rank_writer.append(name, rows.table(name))
        rank_writer.close(status)
    return path


def training(rank: int = 0, *, steps: int = 4, late_ns: int = 0) -> TraceBuilder:
    """Steps of 10 ms on one device: the host waits 6 ms for the next batch, then launches 3 ms of kernels and a copy.

    Args:
        rank: The rank.
        steps: How many.
        late_ns: Every device operation runs this much later.
    """
    trace = TraceBuilder(rank)
    main = trace.thread("python", process_id=100 + rank, thread_id=100 + rank)
    gpu = trace.stream(7)
    trace.row("processes", attempt=0, process_id=100 + rank, host="node1", name="python")
    trace.row("devices", device_type="cuda", device_index=0, name="Test GPU", memory_bytes=16 << 30)
    for number in range(steps):
        begin = START + number * 10 * MS
        trace.slice(main, f"ProfilerStep#{number}", "annotation", begin, 10 * MS)
        trace.step(number, begin, 10 * MS)
        trace.slice(main, "torch/utils/data/dataloader.py(600): __next__", "python", begin + 100_000, 6 * MS)
        op = trace.slice(main, "aten::mm", "op", begin + 6_200_000, 200_000)
        work = begin + 6_300_000 + late_ns
        trace.launched(main, gpu, call=(begin + 6_250_000, 10_000), work=(work, 3 * MS), name="gemm_kernel")
        copy = {"name": "Memcpy HtoD", "category": "memcpy"}
        trace.launched(main, gpu, call=(begin + 6_300_000, 10_000), work=(work + 3 * MS, 100_000), **copy)
        trace.row(
            "memory",
            event_id=trace.new_id(),
            ts=begin + 6_260_000,
            device_type="cuda",
            device_index=0,
            address=4096,
            bytes=(1 << 20) if number % 2 == 0 else -(1 << 20),
            total_allocated=(1 << 20) if number % 2 == 0 else 0,
            total_reserved=2 << 20,
            slice_id=op,
            track_id=main,
        )
    return trace
