"""Tensors of the device are printed in every step."""

from __future__ import annotations

from ..workload import Code, Injection, Workload

PRINT = Injection(
    "print",
    ("synchronization", "io"),
    {
        "module": Code('$helper = open(os.devnull, "w")\n'),
        "end": Code('print("step", state.number, loss, file=$helper)  #!'),
    },
)
WORKLOAD = Workload("print_tensor", "tensors of the device are printed in every step", (PRINT,))
