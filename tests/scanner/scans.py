"""Runs a scanner over bytes, and shows what it found as plain Python values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stallscope.collectors.importers.scanner import FLOW_CODE_BASE, EventBatch, Limits, Scanner, StringTable
from stallscope.collectors.importers.scanner.python_scanner import PythonScanner

try:
    from stallscope.collectors.importers.scanner.native_scanner import NativeScanner
except ImportError:
    NativeScanner = None

SCANNERS: dict[str, Callable[..., Scanner]] = {"python": PythonScanner}
if NativeScanner is not None:
    SCANNERS["native"] = NativeScanner

CODES = ("name", "category", "process", "thread", "scope")
COLUMNS = (*CODES, "phase", "flow_id", "ts", "dur", "has_ts", "has_dur", "rest", "rest_offsets", "offset")


@dataclass
class Found:
    """All that a scan found."""

    batches: list[EventBatch]
    strings: list[str]
    metadata: dict[str, object]
    damage: dict[str, int]
    damage_offsets: dict[str, int]
    events: list[dict[str, Any]] = field(default_factory=list)

    @property
    def names(self) -> list[str | None]:
        return [event.get("name") for event in self.events]


def blocks(raw: bytes, size: int) -> Iterator[bytes]:
    return (raw[start : start + size] for start in range(0, len(raw), size))


def scan_with(
    scanner: str, raw: bytes, *, size: int = 1 << 20, limits: Limits | None = None, strings: StringTable | None = None
) -> Found:
    """Scans bytes that are fed in blocks of a size; every rest text is checked to be JSON."""
    scan = SCANNERS[scanner](blocks(raw, size), strings, limits)
    batches = list(scan)
    found = Found(batches, scan.strings.values, scan.metadata, scan.damage, scan.damage_offsets)
    for batch in batches:
        assert len(batch) == len(batch.rest) > 0
        found.events.extend(_event(batch, row, scan.strings.values) for row in range(len(batch)))
    return found


def _event(batch: EventBatch, row: int, strings: list[str]) -> dict[str, Any]:
    """One row as a dict of what is present."""
    event: dict[str, Any] = {"offset": int(batch.offset[row])}
    if batch.phase[row]:
        event["ph"] = chr(batch.phase[row])
    for column in CODES:
        code = int(getattr(batch, column)[row])
        if code >= 0:
            event[column] = strings[code]
    flow = int(batch.flow_id[row])
    if flow >= 0:
        event["flow_id"] = flow if flow < FLOW_CODE_BASE else strings[flow - FLOW_CODE_BASE]
    for column in ("ts", "dur"):
        value = int(getattr(batch, column)[row])
        if getattr(batch, f"has_{column}")[row]:
            event[column] = value
        else:
            assert value == 0
    for column, (values, present) in batch.numbers.items():
        if present[row]:
            event[column] = int(values[row])
        else:
            assert values[row] == 0
    if batch.rest[row] >= 0:
        event["rest"] = json.loads(batch.rest_values[batch.rest[row]], parse_constant=_no_json)
    return event


def _no_json(constant: str) -> None:
    raise AssertionError(f"{constant} is no JSON")


def assert_same(one: Found, other: Found) -> None:
    """Asserts that two scans found the same, to the byte, batch by batch."""
    assert one.damage == other.damage
    assert one.damage_offsets == other.damage_offsets
    assert one.metadata == other.metadata
    assert one.strings == other.strings
    assert len(one.batches) == len(other.batches)
    for left, right in zip(one.batches, other.batches, strict=True):
        for column in COLUMNS:
            assert_equal_arrays(getattr(left, column), getattr(right, column), column)
        assert left.rest_data == right.rest_data
        assert list(left.numbers) == list(right.numbers)
        for column in left.numbers:
            for part in (0, 1):
                assert_equal_arrays(left.numbers[column][part], right.numbers[column][part], column)


def assert_equal_arrays(left: Any, right: Any, column: str) -> None:
    assert left.dtype == right.dtype, column
    assert np.array_equal(left, right), column


def events_without_position(found: Found) -> list[dict[str, Any]]:
    return [{key: value for key, value in event.items() if key != "offset"} for event in found.events]
