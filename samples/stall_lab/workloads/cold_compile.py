"""A function is compiled at its first use, in the middle of training."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

_FUNCTION = "import torch._dynamo\n\n\ndef $helper(a):\n    return torch.relu(a * 3.0 - 1.0).sum()\n\n\n"
COMPILE = Injection(
    "compile",
    ("compile",),
    {
        "module": Code(
            _FUNCTION + '$other = torch.compile($helper, backend="aot_eager")\n\n', _FUNCTION + "$other = $helper\n\n"
        ),
        "between": Code(
            "if state.number == $first:\n    extra = $other(out)  #!",
            "if state.number == $first:\n    extra = $other(out)",
        ),
    },
    # Numbers count from the warm steps on: this is one of the measured ones.
    lambda rng, regime: {"first": rng.randint(12, 18)},
)
WORKLOAD = Workload("cold_compile", "a function is compiled when it is first used", (COMPILE,), detail="low")
