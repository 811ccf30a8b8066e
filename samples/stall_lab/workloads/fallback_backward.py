"""An op has a kernel for the forward pass and none for the backward pass."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, gated

# Each has a kernel for the forward pass only. The op is small, as in ``fallback_forward``.
OPS = ("nn.functional.hardsigmoid(gate)", "nn.functional.softshrink(gate)", "torch.lgamma(torch.exp(gate))")
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {"forward": Code(gated("$missing_op  #!"), gated("torch.tanh(gate)"))},
    lambda rng, regime: {"missing_op": rng.choice(OPS)},
)
WORKLOAD = Workload("fallback_backward", "an op has no kernel for the backward pass", (FALLBACK,))
