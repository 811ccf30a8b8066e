"""Plain Python works through a list in every step."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, delay_ms

LOOP = Injection(
    "loop",
    ("python",),
    {
        "module": Code(
            "def $helper(count):\n    total = 0\n    for number in range(count):  #!\n"
            "        total += number * number % 7  #!\n    return total\n\n"
        ),
        "end": Code("state.$other = $helper($count)"),
    },
    lambda rng, regime: {"count": int(delay_ms(rng, regime) * 15_000)},
)
WORKLOAD = Workload("python_loop", "plain Python works in every step", (LOOP,))
