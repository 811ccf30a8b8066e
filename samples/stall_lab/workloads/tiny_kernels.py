"""Many operations on single numbers, each shorter than its launch."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

TINY = Injection(
    "tiny",
    ("dispatch", "launch"),
    {
        "prepare": Code(
            "self.$helper = torch.zeros((), device=device)", "self.$helper = torch.zeros((), device=device)"
        ),
        "between": Code("for _ in range($count):\n    state.$helper.add_(1.0)  #!"),
    },
    lambda rng, regime: {"count": int((regime.slack_ms + rng.uniform(3, 6)) * 80)},
)
WORKLOAD = Workload("tiny_kernels", "hundreds of operations are shorter than their launches", (TINY,))
