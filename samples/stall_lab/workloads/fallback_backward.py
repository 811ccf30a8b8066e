"""An op has a kernel for the forward pass and none for the backward pass."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

# Each keeps the shape and has a kernel for the forward pass only.
OPS = (
    "nn.functional.hardsigmoid(x)", "nn.functional.softshrink(x)", "torch.cat([nn.functional.glu(x), x[:, :16]], 1)",
)  # fmt: skip
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {
        "forward": Code(
            "if place >= $position:\n    x = $missing_op  #!",
            "if place >= $position:\n    x = nn.functional.silu(x)",
        )
    },
    lambda rng, regime: {"missing_op": rng.choice(OPS)},
)
WORKLOAD = Workload("fallback_backward", "an op has no kernel for the backward pass", (FALLBACK,))
