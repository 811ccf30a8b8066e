"""Which rank each trace file is of."""

from __future__ import annotations

import re
from pathlib import Path

from ...profiler.recording.errors import FormatError
from .scanner.source import TraceSource

_RANK_IN_NAME = re.compile(r"(?:^|[^a-z])(?P<word>rank|r|worker)[ _.\-=]?(?P<rank>\d{1,6})(?!\d)", re.IGNORECASE)
_RANK_IN_HEAD = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}]*"rank"\s*:')


def rank_in_name(name: str) -> int | None:
    """The rank that a file name says, as ``rank3.json``, ``trace_8_rank_1.json`` and ``r3.json`` do; else None."""
    found = list(_RANK_IN_NAME.finditer(name))
    by_word = {match["word"].lower(): int(match["rank"]) for match in reversed(found)}
    return next((by_word[word] for word in ("rank", "r", "worker") if word in by_word), None)


def certainty(path: Path) -> tuple[int, str]:
    """A key that puts files that say their rank first, so that no guess takes a rank which another file has."""
    try:
        head = next(iter(TraceSource(path)), b"")
    except FormatError:
        head = b""
    if _RANK_IN_HEAD.search(head):
        return 0, path.name
    return (1 if rank_in_name(path.name) is not None else 2), path.name


def rank_of(path: Path, stated: int | None, taken: dict[int, Path]) -> int:
    """The rank of a file: what the trace states, else what its name says, else the lowest that is free.

    Args:
        path: The file.
        stated: The rank in the trace, if it has one.
        taken: Rank -> the file that has it, for the files before.

    Raises:
        FormatError: Another file is of the same rank.
    """
    rank = stated if stated is not None else rank_in_name(path.name)
    if rank is None:
        return next(number for number in range(len(taken) + 1) if number not in taken)
    if rank in taken:
        raise FormatError(
            f"{taken[rank]} and {path} are both of rank {rank}; each file of one recording must be of another rank.",
            hint="Import them one by one, or leave one out.",
        )
    return rank
