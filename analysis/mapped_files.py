"""Files of numbers that are read where they are used, and given back to the system before they fill the memory.

Looking into a mapped file leaves its pages in this process: the system maps sixteen at a time, and counts them as ours
until it wants them back. A walk through fifty million slices so gathers gigabytes. They are a copy of the file in the
system's cache; letting go of them costs a microsecond for each sixteen that are looked at again.
"""

from __future__ import annotations

import mmap
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_MAPPED_BYTES = 448 << 20
"""How much of mapped files, libraries among them, may stay in this process."""

_STATM = Path("/proc/self/statm")
_PAGE = mmap.PAGESIZE

_maps: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def mapped(path: Path, kind: npt.DTypeLike) -> npt.NDArray[Any]:
    """A file's numbers, read where they are used. A plain array: numpy's own class for this is slow to index."""
    array = np.memmap(path, dtype=kind, mode="r")
    _maps.add(array._mmap)  # type: ignore[attr-defined]
    return array.view(np.ndarray)


def let_go(most_bytes: int = MOST_MAPPED_BYTES) -> bool:
    """Lets go of the pages of all mapped files where there are more in this process than that; whether it did.

    What is in use meanwhile is read again. Without /proc nothing happens.
    """
    try:
        resident = int(_STATM.read_text().split()[2]) * _PAGE
    except (OSError, ValueError, IndexError):
        return False
    if resident <= most_bytes or not hasattr(mmap, "MADV_DONTNEED"):
        return False
    for one in list(_maps):
        with suppress(OSError, ValueError):  # closed in the meantime
            one.madvise(mmap.MADV_DONTNEED)
    return True
