"""An op of the forward pass has no kernel on the device."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

# Each keeps the shape; none of them has a kernel on the simulated accelerator.
_OPS = ("torch.special.i0(x * 0.01)", "torch.nan_to_num(x)", "torch.hardshrink(x)", "torch.logcumsumexp(x, 1)")
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {"forward": Code("if place >= $position:\n    x = $missing_op  #!", "if place >= $position:\n    x = torch.tanh(x)")},
    lambda rng, regime: {"missing_op": rng.choice(_OPS)},
)
WORKLOAD = Workload("fallback_forward", "an op of the forward pass has no kernel", (FALLBACK,))
