"""A table is copied on the stream that computes, where a stream of its own would hide the copy."""

from __future__ import annotations

from ..workload import Code, Injection, Workload
from .side_stream import COPY_ASIDE, READY

COPY = Injection(
    "copy",
    ("copy",),
    {
        "prepare": Code(READY, READY),
        "copy": Code(
            "state.$helper = state.pinned.to(device, non_blocking=True)  #!",
            "torch.accelerator.current_stream().wait_stream(state.$other)",
        ),
        "between": Code("", COPY_ASIDE.strip("\n")),
    },
    lambda rng, regime: {"count": rng.randint(2, 4) * 1_000_000},
)
WORKLOAD = Workload("compute_stream_copy", "a copy runs on the stream that computes", (COPY,))
