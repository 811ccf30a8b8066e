"""A recording of any size for benchmarks/ui.py: one training step, written down once and repeated.

Importing so many slices from JSON would take most of an hour; repeating rows in Parquet takes a minute. The step has a
host thread, its backward thread, and three streams with the arrows from launches; steps begin at uneven distances, from
a seed. What the user interface does with it does not depend on the rows being alike: tiles sample starts, not names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from stallscope.profiler.recording.ids import id_base
from stallscope.profiler.recording.writer import RankWriter, RecordingWriter

LAYERS = 128
SLICES_PER_STEP = 1957
_STEP_NS = 22_000_000
_START = 1_700_000_000_000_000_000
_STEPS_AT_ONCE = 512


@dataclass
class Lane:
    """The slices of one track in one step, sorted by start; times in ns from the step's start."""

    kind: str
    name: str
    place: dict[str, object]
    rows: list[tuple[int, int, int, str, str, int]] = field(default_factory=list)

    def add(self, ts: int, dur: int, depth: int, name: str, category: str, launch: int = -1) -> None:
        """A slice; ``launch`` is the number of the launch that it is an end of."""
        self.rows.append((ts, dur, depth, name, category, launch))


def step_of_training() -> list[Lane]:
    """The lanes of one step: a forward pass on the main thread, a backward pass on its own, kernels behind both."""
    main = Lane("thread", "python", {"process_id": 1, "thread_id": 1})
    backward = Lane("thread", "pt_autograd_0", {"process_id": 1, "thread_id": 2})
    streams = [
        Lane("stream", f"stream {n}", {"device_type": "cuda", "device_index": 0, "stream_id": n}) for n in (7, 20, 22)
    ]
    main.add(0, _STEP_NS - 100_000, 0, "ProfilerStep#0", "annotation")
    main.add(50_000, 1_900_000, 1, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__", "input")
    main.add(2_000_000, LAYERS * 60_000 + 10_000, 1, "model.py(31): forward", "python")
    launch, ready = 0, 0
    for layer in range(LAYERS):
        at = 2_000_000 + layer * 60_000
        main.add(at, 58_000, 2, f"model.py({40 + layer}): block", "python")
        for op, inner, begin in (("aten::linear", "aten::addmm", 2_000), ("aten::relu", "", 32_000)):
            main.add(at + begin, 24_000, 3, op, "op")
            if inner:
                main.add(at + begin + 2_000, 20_000, 4, inner, "op")
            main.add(at + begin + 8_000, 4_000, 5 if inner else 4, "cudaLaunchKernel", "runtime", launch)
            length = 25_000 if inner else 9_000
            ready = max(ready, at + begin + 14_000)
            streams[0].add(ready, length, 0, f"void {inner or 'relu'}_kernel<float, {layer % 8}>", "kernel", launch)
            ready, launch = ready + length + 1_000, launch + 1
    for layer in range(LAYERS):
        at = 2_000_000 + LAYERS * 60_000 + 100_000 + layer * 70_000
        backward.add(at, 66_000, 0, "autograd::engine::evaluate_function: AddmmBackward0", "op")
        for begin in (4_000, 34_000):
            backward.add(at + begin, 28_000, 1, "aten::mm", "op")
            backward.add(at + begin + 8_000, 5_000, 2, "cudaLaunchKernel", "runtime", launch)
            ready = max(ready, at + begin + 15_000)
            streams[0].add(ready, 31_000, 0, f"ampere_sgemm_128x64_{layer % 8}", "kernel", launch)
            ready, launch = ready + 32_000, launch + 1
        if layer % 4 == 3:
            streams[1].add(ready, 180_000, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "collective")
    streams[2].add(1_990_000, 40_000, 0, "Memcpy HtoD (Pinned -> Device)", "memcpy")
    return [main, backward, *streams]


def write_recording(path: Path, slices: int, *, ranks: int = 4, seed: int = 7) -> int:
    """Writes a recording of about that many slices; returns how many it has."""
    steps = max(1, round(slices / ranks / SLICES_PER_STEP))
    written = 0
    with RecordingWriter.create(path, label=f"{slices:,} slices") as recording:
        for rank in range(ranks):
            writer = recording.rank(rank)
            gaps = np.random.default_rng(seed + rank).integers(0, 3_000_000, steps)
            offsets = _START + np.cumsum(_STEP_NS + gaps) - _STEP_NS
            written += _write_rank(writer, rank, step_of_training(), offsets.astype(np.int64))
            writer.close()
    return written


def _write_rank(writer: RankWriter, rank: int, lanes: list[Lane], offsets: npt.NDArray[np.int64]) -> int:
    base, steps = id_base(rank), len(offsets)
    first = [base + 100 + int(n) * steps for n in np.cumsum([0, *(len(lane.rows) for lane in lanes)])]
    tracks = [
        {"track_id": base + n, "rank": rank, "kind": lane.kind, "name": lane.name} | lane.place
        for n, lane in enumerate(lanes)
    ]
    for track in tracks:
        writer.append("tracks", {name: [value] for name, value in track.items()})
    writer.append("devices", {"device_type": ["cuda"], "device_index": [0], "name": ["Benchmark GPU"]})
    writer.append(
        "steps",
        {
            "step": np.arange(steps), "ts": offsets, "dur": np.full(steps, _STEP_NS), "basis": ["host"] * steps,
            "phase": ["execution"] * steps,
        },
    )  # fmt: skip
    written = writer.add_sorted(
        "slices", (batch for n, lane in enumerate(lanes) for batch in _batches(lane, base + n, first[n], offsets, rank))
    )
    writer.append("flows", _launches(lanes, first, steps))
    return written


def _batches(lane: Lane, track: int, first: int, offsets: npt.NDArray[np.int64], rank: int) -> Iterator[pa.Table]:
    rows = sorted(lane.rows, key=lambda row: (row[0], row[2]))
    size = len(rows)
    ts, dur, depth = (np.array([row[n] for row in rows], dtype=np.int64) for n in range(3))
    parent = _parents(rows)
    launch = np.array([row[5] for row in rows], dtype=np.int64)
    for begin in range(0, len(offsets), _STEPS_AT_ONCE):
        part = offsets[begin : begin + _STEPS_AT_ONCE]
        count = len(part)
        ids = first + (begin * size) + np.arange(count * size, dtype=np.int64).reshape(count, size)
        numbers = (begin + np.arange(count))[:, None] * (LAYERS * 4) + launch[None, :]
        over = np.where(parent[None, :] >= 0, ids[:, :1] + parent[None, :], -1).ravel()
        shared = np.where(launch[None, :] >= 0, numbers, -1).ravel()
        yield pa.table(
            {
                "slice_id": ids.ravel(), "rank": np.full(count * size, rank), "track_id": np.full(count * size, track),
                "kind": _repeated(["complete"] * size, count), "ts": (part[:, None] + ts[None, :]).ravel(),
                "dur": np.tile(dur, count), "lane": np.zeros(count * size, dtype=np.int32),
                "depth": np.tile(depth.astype(np.int32), count), "name": _repeated([row[3] for row in rows], count),
                "category": _repeated([row[4] for row in rows], count),
                "parent_id": pa.array(over, mask=over < 0), "correlation_id": pa.array(shared, mask=shared < 0),
            }
        )  # fmt: skip


def _repeated(texts: list[str], count: int) -> pa.DictionaryArray:
    distinct = list(dict.fromkeys(texts))
    codes = np.array([distinct.index(text) for text in texts], dtype=np.int32)
    return pa.DictionaryArray.from_arrays(pa.array(np.tile(codes, count)), pa.array(distinct))


def _parents(rows: list[tuple[int, int, int, str, str, int]]) -> npt.NDArray[np.int64]:
    """Per row the place of the row that contains it; -1 for none."""
    parents, open_rows = [], []
    for place, row in enumerate(rows):
        del open_rows[row[2] :]
        parents.append(open_rows[-1] if open_rows else -1)
        open_rows.append(place)
    return np.array(parents, dtype=np.int64)


def _launches(lanes: list[Lane], first: list[int], steps: int) -> dict[str, object]:
    """The arrows from each launch to its kernel."""
    ends: dict[int, dict[str, tuple[int, int, int]]] = {}
    for n, lane in enumerate(lanes):
        rows = sorted(lane.rows, key=lambda row: (row[0], row[2]))
        for place, row in enumerate(rows):
            if row[5] >= 0:
                ends.setdefault(row[5], {})[lane.kind] = (first[n], len(rows), place)
    step = np.arange(steps, dtype=np.int64)
    source, target = (
        np.concatenate([start + step * size + place for start, size, place in (one[kind] for one in ends.values())])
        for kind in ("thread", "stream")
    )
    order = np.argsort(source)
    return {"from_slice_id": source[order], "to_slice_id": target[order], "kind": _repeated(["launch"], len(source))}
