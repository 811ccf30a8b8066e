"""Ids that are unique in a recording without the ranks having to speak to each other."""

from __future__ import annotations

from zlib import crc32

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


ATTEMPT_SHIFT = 36
"""Each start of a rank has 2**36 ids of its own."""

SEGMENT_IDS = 1 << 35
"""The first id, above an attempt's base, of what converted segments use; live collectors use those below."""

_THREAD_TRACKS = 1 << 34
_OTHER_TRACKS = 3 << 33
_OTHER_THAN_DEVICES = 1 << 32

LARGEST_THREAD_ID = _OTHER_TRACKS - _THREAD_TRACKS - 1
"""What ``thread_track_id`` takes at most."""

_ATTEMPTS = 1 << (RANK_SHIFT - ATTEMPT_SHIFT)


def attempt_base(rank: int, attempt: int) -> int:
    """The first id of one start of a rank.

    Beyond the sixteenth start, ids repeat those of an earlier one.
    """
    return id_base(rank) + ((attempt % _ATTEMPTS) << ATTEMPT_SHIFT)


def thread_track_id(rank: int, attempt: int, thread_id: int) -> int:
    """The track of a thread of the captured process: known to whoever knows the thread, so that all write to one."""
    return attempt_base(rank, attempt) + _THREAD_TRACKS + thread_id


def device_track_id(rank: int, attempt: int, device: int | None, stream: int | None, place: str) -> int:
    """The track of a device's stream, the same in every segment; devices and their streams are in order.

    Args:
        rank: The rank.
        attempt: Which start of it.
        device: The device's index.
        stream: The stream's number.
        place: What else tells it from others, as text. Two places of one stream share an id once in 4096 times.
    """
    index = 255 if device is None else min(max(device, 0), 255)
    number = 4095 if stream is None else min(max(stream, 0), 4095)
    return attempt_base(rank, attempt) + _OTHER_TRACKS + (index << 24 | number << 12 | crc32(place.encode()) >> 20)


def other_track_id(rank: int, attempt: int, place: str) -> int:
    """The track of anything that is neither a thread of the captured process nor a stream, by a text for it."""
    return attempt_base(rank, attempt) + _OTHER_TRACKS + _OTHER_THAN_DEVICES + crc32(place.encode())
