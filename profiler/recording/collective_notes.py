"""What the program knew of its collectives, for the trace of them that is converted later.

torch's trace of a gloo collective has its true duration and no group, number or size; the program has those and no
duration. So the collector notes them in ``raw/collectives.jsonl``, and conversion joins the two: the n-th call of a
kind is the n-th slice of that kind that starts after it.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

NOTES_FILE = "collectives.jsonl"

_EARLY_NS = 1_000_000
"""A slice may start this long before its call was noted: both stamps are taken some instructions off."""


@dataclass(frozen=True, slots=True)
class Note:
    """One call of a collective.

    Attributes:
        kind: all_reduce, ...
        ts: When it was called [ns].
        slice_id: The slice that the collector wrote for it.
        group_id: Its group, in ``groups``.
        sequence_number: Its number in the group.
        in_bytes, out_bytes, dtype, peer_rank: As in ``collectives``.
    """

    kind: str
    ts: int
    slice_id: int
    group_id: int | None
    sequence_number: int | None
    in_bytes: int | None
    out_bytes: int | None
    dtype: str | None
    peer_rank: int | None

    def row(self) -> dict[str, Any]:
        """The row of ``collectives`` where torch's trace has no slice for it."""
        return {name: value for name, value in asdict(self).items() if name != "ts"}


def append_notes(raw: Path, notes: Iterable[Note]) -> None:
    """Adds notes to those of the attempt.

    Raises:
        OSError: The disk is full.
    """
    text = "".join(json.dumps(asdict(note)) + "\n" for note in notes)
    with (raw / NOTES_FILE).open("a", encoding="utf-8") as file:
        file.write(text)


def read_notes(raw: Path, start: int, end: int) -> list[Note]:
    """The notes of calls in [start, end), oldest first; a line that was cut off is left out."""
    found = []
    try:
        lines = (raw / NOTES_FILE).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    for line in lines:
        try:
            note = Note(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if start <= note.ts < end:
            found.append(note)
    return sorted(found, key=lambda note: note.ts)


def joined(rows: list[dict[str, Any]], starts: dict[int, int], notes: list[Note]) -> list[dict[str, Any]]:
    """Rows of ``collectives`` completed by the notes, and a row for each note that belongs to none.

    Args:
        rows: What the trace gave.
        starts: When each of their slices began [ns], by its id.
        notes: What the program noted.
    """
    waiting: dict[str, deque[Note]] = defaultdict(deque)
    for note in notes:
        waiting[note.kind].append(note)
    complete = []
    for row in sorted(rows, key=lambda row: starts.get(row["slice_id"], 0)):
        queue = waiting[row["kind"]]
        start = starts.get(row["slice_id"])
        lacks_all = row["sequence_number"] is None and row["group_id"] is None
        if lacks_all and start is not None and queue and queue[0].ts <= start + _EARLY_NS:
            told = queue.popleft().row()
            row = {**row, **{name: value for name, value in told.items() if row.get(name) is None}}
        complete.append(row)
    return complete + [note.row() for queue in waiting.values() for note in queue]
