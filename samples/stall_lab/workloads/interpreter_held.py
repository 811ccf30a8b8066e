"""A thread beside the training loop works in plain Python and holds the interpreter, which every op needs as well."""

from __future__ import annotations

from ..workload import Code, Injection, Workload, delay_ms

_THREAD = (
    "import queue\nimport threading\n\n\n"
    "def $helper(jobs):\n"
    "    while True:\n"
    "        count = jobs.get()\n"
    "        total = 0\n"
    "        for number in range(count):{mark}\n"
    "            total += number * number % 7{mark}\n\n"
)
HELD = Injection(
    "held",
    ("lock",),
    {
        "module": Code(_THREAD.format(mark="  #!"), _THREAD.format(mark="")),
        "copy": Code("state.$other.put($count)", "state.$other.put(0)"),
    },
    lambda rng, regime: {"count": int(delay_ms(rng, regime) * 15_000)},
)
WORKLOAD = Workload(
    "interpreter_held",
    "a thread that works in plain Python holds the interpreter",
    (HELD,),
    {
        "prepare": "self.$other = queue.SimpleQueue()\n"
        "threading.Thread(target=$helper, args=(self.$other,), daemon=True).start()"
    },
)
