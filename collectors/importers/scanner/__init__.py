"""Reads the events of a JSON trace, tolerantly, into columns."""

from __future__ import annotations

from collections.abc import Iterable

from .batch import (
    DAMAGE_KINDS,
    FLOW_CODE_BASE,
    KNOWN_INTEGERS,
    NUMBER_COLUMNS,
    EventBatch,
    Limits,
    Scanner,
    StringTable,
)
from .python_scanner import PythonScanner

__all__ = [
    "DAMAGE_KINDS",
    "FLOW_CODE_BASE",
    "KNOWN_INTEGERS",
    "NUMBER_COLUMNS",
    "EventBatch",
    "Limits",
    "Scanner",
    "StringTable",
    "scan",
]


def scan(blocks: Iterable[bytes], strings: StringTable | None = None, *, limits: Limits | None = None) -> Scanner:
    """Scans a trace for its events.

    Args:
        blocks: The decompressed file in pieces of any size, such as a ``source.TraceSource``.
        strings: The table to add strings to; a new one by default.
        limits: What bounds memory.

    Returns:
        A scan that runs as its batches are iterated.
    """
    return PythonScanner(blocks, strings, limits)
