"""An op of the forward pass has no kernel on the device."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, gated

# None of them has a kernel on the simulated accelerator; their backward passes have, and are short. The op is small, so
# that what the device no longer has to do is small beside what it waits for. Beside each what it is replaced by: one
# op for one, so that the host is not quicker by more than the fallback.
OPS = (
    ("torch.logit(torch.sigmoid(gate))", "torch.tanh(torch.sigmoid(gate))"),
    ("torch.cummax(gate, 0)[0]", "torch.tanh(gate)"),
    ("torch.special.entr(torch.exp(gate))", "torch.tanh(torch.exp(gate))"),
)
FALLBACK = Injection(
    "fallback",
    ("cpu_fallback",),
    {"forward": Code(gated("$missing_op  #!"), gated("$present_op"))},
    lambda rng, regime: dict(zip(("missing_op", "present_op"), rng.choice(OPS), strict=True)),
)
WORKLOAD = Workload("fallback_forward", "an op of the forward pass has no kernel", (FALLBACK,))
