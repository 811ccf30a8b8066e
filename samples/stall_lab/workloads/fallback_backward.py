"""An op has a kernel for the forward pass and none for the backward pass."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, gated

# Each has a kernel for the forward pass only. The op is small, and replaced one for one, as in ``fallback_forward``.
OPS = (
    ("nn.functional.hardsigmoid(gate)", "torch.tanh(gate)"),
    ("nn.functional.softshrink(gate)", "torch.tanh(gate)"),
    ("torch.lgamma(torch.exp(gate))", "torch.tanh(torch.exp(gate))"),
)
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {"forward": Code(gated("$missing_op  #!"), gated("$present_op"))},
    lambda rng, regime: dict(zip(("missing_op", "present_op"), rng.choice(OPS), strict=True)),
)
WORKLOAD = Workload("fallback_backward", "an op has no kernel for the backward pass", (FALLBACK,))
