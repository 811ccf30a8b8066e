"""An op of the forward pass has no kernel on the device."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, gated

# None of them has a kernel on the simulated accelerator; their backward passes have, and are short. The op is small, so
# that what the device no longer has to do is small beside what it waits for.
OPS = ("torch.logit(torch.sigmoid(gate))", "torch.cummax(gate, 0)[0]", "torch.special.entr(torch.exp(gate))")
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {"forward": Code(gated("$missing_op  #!"), gated("torch.tanh(gate)"))},
    lambda rng, regime: {"missing_op": rng.choice(OPS)},
)
WORKLOAD = Workload("fallback_forward", "an op of the forward pass has no kernel", (FALLBACK,))
