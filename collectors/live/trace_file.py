"""A trace that torch has just written: whether it is whole, and how much of what is in it."""

from __future__ import annotations

import os
from pathlib import Path


def size_of_whole(path: Path) -> int:
    """The file's size; torch reports a full disk nowhere, so the end of the file is looked at.

    Raises:
        OSError: It is not there, or cut off.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16))
            whole = file.read().rstrip().endswith(b"}")
    except FileNotFoundError:
        raise OSError(f"torch did not write {path.name}: is the disk full?") from None
    if not whole:
        raise OSError(f"{path.name} is cut off after {size} bytes: is the disk full?")
    return size


def count_of(path: Path, word: bytes) -> int:
    """How often the word occurs in the file; one across two blocks is missed, which does not matter here."""
    total = 0
    with path.open("rb") as file:
        while block := file.read(1 << 22):
            total += block.count(word)
    return total
