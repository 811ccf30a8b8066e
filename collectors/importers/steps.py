"""Training steps: the ``ProfilerStep#N`` ranges of the host."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from .names import HOST
from .slice_table import Ids
from .slices import COMPLETE, Slices

_STEP = re.compile(r"^ProfilerStep#?\s*(?P<number>\d{1,18})")


def step_rows(slices: Slices, ids: Ids) -> dict[str, list[Any]]:
    """The rows of ``steps`` in order of time: the host's ranges, never their copies on a device's stream."""
    found = [_STEP.match(name) for name in slices.pairs.names]
    number = np.array([int(match["number"]) if match else -1 for match in found], np.int64)
    of_pair = np.where(slices.pairs.side == HOST, number[slices.pairs.name], -1) if len(slices.pairs) else number
    rows = np.flatnonzero((of_pair[slices.pair] >= 0) & (slices.kind == COMPLETE)) if len(slices) else np.empty(0, int)
    rows = rows[np.argsort(slices.ts[rows], kind="stable")]
    return {
        "step": of_pair[slices.pair[rows]].tolist(),
        "ts": (slices.ts[rows] + ids.base_ns).tolist(),
        "dur": slices.dur[rows].tolist(),
        "basis": ["host"] * rows.size,
    }
