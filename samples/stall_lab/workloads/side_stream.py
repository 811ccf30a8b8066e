"""A copy on a stream of its own is awaited right after it was queued, where it could have been queued a step before."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

COPY_ASIDE = """
with state.$other:
    state.$helper = state.pinned.to(device, non_blocking=True)"""
READY = "self.$other = torch.Stream(device)\nself.pinned = torch.zeros($count).pin_memory()\nself.$helper = None"
WAIT = Injection(
    "wait",
    ("dependency", "copy"),
    {
        "prepare": Code(READY, READY),
        "copy": Code(
            "state.$other.wait_stream(torch.accelerator.current_stream())" + COPY_ASIDE + "  #!\n"
            "torch.accelerator.current_stream().wait_stream(state.$other)  #!",
            "torch.accelerator.current_stream().wait_stream(state.$other)",
        ),
        "between": Code("", COPY_ASIDE.strip("\n")),
    },
    lambda rng, regime: {"count": rng.randint(2, 4) * 1_000_000},
)
WORKLOAD = Workload("side_stream", "a copy on another stream is awaited at once", (WAIT,))
