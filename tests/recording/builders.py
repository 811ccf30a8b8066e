"""Rows to write in tests."""

from __future__ import annotations

from typing import Any

import numpy as np

from stallscope.profiler.recording.ids import id_base


def slices(count: int, *, seed: int = 0, rank: int = 0, first: int = 0, tracks: int = 4) -> dict[str, Any]:
    """Columns of slices on a few tracks, at random times in a microsecond, some instant and some unfinished."""
    random = np.random.default_rng(seed)
    kinds = random.choice(["complete", "instant", "unfinished"], count, p=[0.8, 0.1, 0.1]).tolist()
    durations = random.integers(0, 50, count).tolist()
    by_kind = {"instant": 0, "unfinished": None}
    return {
        "slice_id": id_base(rank) + first + np.arange(count),
        "track_id": id_base(rank) + random.integers(0, tracks, count),
        "kind": kinds,
        "ts": random.integers(0, 1000, count),
        "dur": [by_kind.get(kind, dur) for kind, dur in zip(kinds, durations, strict=True)],
        "lane": np.zeros(count, np.int32),
        "depth": np.zeros(count, np.int32),
        "name": random.choice(["aten::mm", "aten::add_", "cudaLaunchKernel"], count).tolist(),
        "category": ["op"] * count,
        "args": [f'{{"n": {first + n}}}' if n % 3 else None for n in range(count)],
    }
