"""Gives memory that was freed back to the system between the phases of an import.

The C library keeps freed blocks of up to 32 MB for the next request of that size. An import frees arrays of ever other
sizes, so without this half of its peak would be memory that nobody uses.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import pyarrow as pa


def release_freed_memory() -> None:
    """Returns what can be returned; does nothing where the platform has no way to."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim:
        trim(0)


@lru_cache(maxsize=1)
def _trim() -> Callable[[int], int] | None:
    if not sys.platform.startswith("linux"):
        return None
    try:
        function = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None
    function.argtypes = [ctypes.c_size_t]
    return cast(Callable[[int], int], function)
