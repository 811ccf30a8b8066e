"""The device compiles a kernel for every new shape, and an op gets a new one in every step."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

SHAPES = Injection(
    "shapes",
    ("compile",),
    {
        "module": Code("$helper = iter(range(2, 1000))\n"),
        "between": Code(
            "extra = torch.sigmoid(state.$other[: next($helper)])  #!", "extra = torch.sigmoid(state.$other[:$columns])"
        ),
        "prepare": Code(
            "self.$other = torch.zeros(1000, device=device)", "self.$other = torch.zeros(1000, device=device)"
        ),
    },
    lambda rng, regime: {"columns": rng.randint(2, 30)},
)
WORKLOAD = Workload(
    "new_shapes", "the device compiles for every new shape", (SHAPES,),
    settings={"compile_ns": 9_000_000, "compiled_load_ns": 9_000_000},
)  # fmt: skip
