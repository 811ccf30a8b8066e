"""An op has a kernel for the forward pass and none for the backward pass."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

_ACTIVATIONS = ("nn.functional.mish", "nn.functional.hardsigmoid", "nn.functional.softshrink")
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {
        "forward": Code(
            "if place >= $position:\n    x = $activation(x)  #!",
            "if place >= $position:\n    x = nn.functional.silu(x)",
        )
    },
    lambda rng, regime: {"activation": rng.choice(_ACTIVATIONS)},
)
WORKLOAD = Workload("fallback_backward", "an op has no kernel for the backward pass", (FALLBACK,))
