"""Reads the events of a JSON trace, tolerantly, into columns."""

from __future__ import annotations

import os
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

try:
    from .native_scanner import NativeScanner
except ImportError:  # It is built only where there is a compiler.
    NativeScanner = None  # type: ignore[assignment,misc]

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
        A scan that runs as its batches are iterated: the native one where it was built, unless the environment variable
        ``STALLSCOPE_SCANNER`` is ``python``. Both give the same.
    """
    if NativeScanner is None or os.environ.get("STALLSCOPE_SCANNER") == "python":
        return PythonScanner(blocks, strings, limits)
    return NativeScanner(blocks, strings, limits)
