"""Ids that are unique in a recording without the ranks having to speak to each other."""

from __future__ import annotations

RANK_SHIFT = 40
"""An id is ``rank << 40 | n``: 8 million ranks of a trillion rows each fit a signed 64-bit integer."""


def id_base(rank: int) -> int:
    """The first id of a rank; add n for the n-th row.

    Raises:
        ValueError: The rank is negative or needs more than 23 bits.
    """
    if not 0 <= rank < 1 << 23:
        raise ValueError(f"rank {rank} is not in 0..{(1 << 23) - 1}")
    return rank << RANK_SHIFT


def rank_of(identifier: int) -> int:
    """The rank that an id belongs to."""
    return identifier >> RANK_SHIFT
