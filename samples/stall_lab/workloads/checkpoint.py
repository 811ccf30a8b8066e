"""A checkpoint is written in every step or every other one."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

SAVE = Injection(
    "save",
    ("io",),
    {
        "prepare": Code("self.$other = torch.zeros($megabytes, 1 << 18)"),
        "end": Code(
            "if state.number % $every == 0:\n"
            '    torch.save({"model": model.state_dict(), "$other": state.$other}, folder / "$helper.pt")  #!'
        ),
    },
    lambda rng, regime: {"every": rng.randint(1, 2), "megabytes": rng.randint(8, 16)},
)
WORKLOAD = Workload("checkpoint", "checkpoints are written too often", (SAVE,))
