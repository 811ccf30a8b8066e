"""A compiled function gets another shape in every step and is compiled again each time."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

RECOMPILE = Injection(
    "recompile",
    ("compile",),
    {
        "module": Code(
            "import torch._dynamo\n\ntorch._dynamo.config.recompile_limit = 1000\n\n\n"
            "def $helper(a):\n    return torch.relu(a * 2.0 + 1.0).sum()\n\n\n"
            '$other = torch.compile($helper, backend="aot_eager", dynamic=False)\n\n',
            "import torch._dynamo\n\n\ndef $helper(a):\n    return torch.relu(a * 2.0 + 1.0).sum()\n\n\n"
            '$other = torch.compile($helper, backend="aot_eager", dynamic=False)\n\n',
        ),
        "between": Code("extra = $other(out[:, : 1 + state.number % 31])  #!", "extra = $other(out[:, :$columns])"),
    },
    lambda rng, regime: {"columns": rng.randint(2, 30)},
)
WORKLOAD = Workload(
    "recompile", "a compiled function gets another shape in every step", (RECOMPILE,), steps=6, detail="low"
)
