"""torch's flight recorder: every collective that was enqueued, also those that C++ enqueues (as DDP does)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

VARIABLE = "TORCH_FR_BUFFER_SIZE"
ENTRIES = 2000
"""How many collectives it keeps; read before it can be overrun at two thousand a second."""

ELEMENT_BYTES = {
    "Byte": 1,
    "Char": 1,
    "Short": 2,
    "Int": 4,
    "Long": 8,
    "Half": 2,
    "Float": 4,
    "Double": 8,
    "Bool": 1,
    "BFloat16": 2,
    "ComplexFloat": 8,
    "ComplexDouble": 16,
    "Float8_e4m3fn": 1,
    "Float8_e5m2": 1,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One collective that was enqueued.

    Attributes:
        record: Its number in the recorder.
        group: The group's name.
        sequence: Its number in the group.
        name: backend:kind, as torch names it.
        ts: When [ns].
        in_bytes, out_bytes: None where an element type is not known.
        dtype: Element type, as torch's C++ names it; None without tensors.
        is_p2p: Whether it is a send or receive.
    """

    record: int
    group: str
    sequence: int
    name: str
    ts: int
    in_bytes: int | None
    out_bytes: int | None
    dtype: str | None
    is_p2p: bool


def entries_after(record: int) -> list[Entry]:
    """The entries with a larger number, oldest first; empty where torch has no such recorder, or it is off."""
    from torch._C import _distributed_c10d

    dump = getattr(_distributed_c10d, "_dump_fr_trace_json", None)
    if dump is None:
        return []
    return parse(json.loads(dump(True, False)), record)


def parse(dumped: dict[str, Any], record: int) -> list[Entry]:
    """The entries of a dump with a number above ``record``, oldest first."""
    found = []
    for told in dumped.get("entries") or []:
        if told.get("record_id", -1) <= record or not told.get("time_created_ns"):
            continue
        inputs = told.get("input_dtypes") or []
        found.append(
            Entry(
                told["record_id"],
                str((told.get("process_group") or ["?"])[0]),
                int(told.get("collective_seq_id") or 0),
                str(told.get("profiling_name", "")),
                int(told["time_created_ns"]),
                _bytes(told.get("input_sizes"), inputs),
                _bytes(told.get("output_sizes"), told.get("output_dtypes")),
                str(inputs[0]) if inputs else None,
                bool(told.get("is_p2p")),
            )
        )
    return sorted(found, key=lambda entry: entry.record)


def _bytes(sizes: Any, dtypes: Any) -> int | None:
    total = 0
    for shape, dtype in zip(sizes or [], dtypes or [], strict=False):
        if dtype not in ELEMENT_BYTES:
            return None
        elements = 1
        for extent in shape:
            elements *= int(extent)
        total += elements * ELEMENT_BYTES[dtype]
    return total
