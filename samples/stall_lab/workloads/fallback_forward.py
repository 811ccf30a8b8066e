"""An op of the forward pass has no kernel on the device."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

# Each keeps the shape and has no kernel on the simulated accelerator; their backward passes have.
OPS = ("torch.nan_to_num(x)", "torch.renorm(x, 2, 0, 5.0)", "torch.logit(torch.sigmoid(x))")
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {
        "forward": Code(
            "if place >= $position:\n    x = $missing_op  #!", "if place >= $position:\n    x = torch.sigmoid(x)"
        )
    },
    lambda rng, regime: {"missing_op": rng.choice(OPS)},
)
WORKLOAD = Workload("fallback_forward", "an op of the forward pass has no kernel", (FALLBACK,))
