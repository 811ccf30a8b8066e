"""What a scanner hands over: batches of events as columns, and the strings they share.

Both scanners (``python_scanner`` and the native one) fill these types with the same values, byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

KNOWN_INTEGERS: dict[str, str] = {
    "correlation": "correlation",
    "Correlation": "correlation",
    "External id": "external_id",
    "external id": "external_id",
    "Sequence number": "sequence_number",
    "Fwd thread id": "forward_thread_id",
    "Python id": "python_id",
    "Python parent id": "python_parent_id",
    "Python module id": "python_module_id",
    "stream": "stream",
    "stream_id": "stream",
    "device": "device",
    "context": "context",
    "bytes": "bytes",
    "Ev Idx": "event_index",
    "Addr": "address",
    "Bytes": "memory_bytes",
    "Total Allocated": "total_allocated",
    "Total Reserved": "total_reserved",
    "Device Type": "device_type",
    "Device Id": "device_id",
    "graph id": "graph_id",
    "graph_id": "graph_id",
    "graph node id": "graph_node_id",
}
"""Member of ``args`` -> column of ``EventBatch.numbers``.

Taken out of the args when the value is an integer, or a string of nothing but an integer, that fits into int64
(``address``: into uint64, kept as its bits); else it stays in ``rest``.
"""

NUMBER_COLUMNS: tuple[str, ...] = tuple(dict.fromkeys(KNOWN_INTEGERS.values()))

DROPPED_INTEGERS: frozenset[str] = frozenset({"Record function id"})
"""Members of ``args`` that are dropped when they are integers: nothing refers to them."""

FLOW_CODE_BASE = 1 << 62
"""From here on a ``flow_id`` is this plus a code into the strings; below it is the decimal number in the file."""

OVERFLOW_TEXT = "(not kept: the file has too many different names)"
"""What a name becomes once the table of strings is full."""

DAMAGE_KINDS: dict[str, str] = {
    "truncated": "the file ends in the middle of an event or of the document",
    "bad_event": "an element of traceEvents that could not be read; reading went on at the next event",
    "interleaved": "an event begins inside another one, as when several processes write to one file",
    "too_deep": "an event nested deeper than the limit; skipped",
    "oversized_event": "an event longer than the limit; skipped",
    "bad_metadata": "a member of the top level that could not be read, or that is larger than the limit",
    "garbage": "bytes outside of any document; skipped up to the next event",
    "several_documents": "a further JSON document in the same file",
    "no_trace_events": "the file has no traceEvents and is not a list of events",
    "empty": "the file holds nothing but white space",
    "repaired_string": "a string with bad escapes, lone backslashes, unescaped quotes or no closing quote",
    "control_character": "a string with raw control characters",
    "bad_utf8": "a string with bytes that are not UTF-8, or with half of a surrogate pair; shown as U+FFFD",
    "not_finite": "NaN or Infinity where a number was expected; kept as null",
    "bad_value": "a value that is no JSON (True, 0x1f, 007); kept as a string or as what it means",
    "bad_time": "a ts or dur that is no number; kept as unknown",
    "time_overflow": "a ts or dur beyond 292 years; kept as unknown",
    "damaged_gzip": "the gzip stream ends early or is corrupt; all that could be decompressed before that is kept",
    "gzip_trailing_bytes": "bytes after the gzip stream that are none",
    "string_table_full": "a name, thread or category that is not kept because the file has too many different ones",
}
"""Kind of damage -> what it means. Counted per event, string or value, as the sentence says."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds the memory of a scan.

    Attributes:
        event_bytes: The longest event, or member of the top level, that is read; a longer one is skipped and counted.
        repair_bytes: The longest event that is repaired where it is not JSON.
        strings: The most different names, categories, processes, threads and scopes of a file.
        string_bytes: Their most bytes.
        metadata_bytes: The most bytes of all members of the top level.
        batch_events: Events of a batch.
        batch_bytes: A batch ends early once its ``rest`` texts are longer than this.
    """

    event_bytes: int = 64 << 20
    repair_bytes: int = 1 << 20
    strings: int = 4 << 20
    string_bytes: int = 256 << 20
    metadata_bytes: int = 256 << 20
    batch_events: int = 131072
    batch_bytes: int = 64 << 20


class StringTable:
    """The different strings of a file: code -> text. It only grows, and all batches of a file share it.

    Attributes:
        values: The texts; the code of a text is its index.
    """

    def __init__(self) -> None:
        self.values: list[str] = []
        self._codes: dict[str, int] = {}
        self._bytes = 0
        self._indexed = 0

    def code(self, text: str, limits: Limits) -> tuple[int, bool]:
        """Returns the code of a text, and whether the text is kept; a full table gives that of ``OVERFLOW_TEXT``."""
        self._index()
        code = self._codes.get(text)
        if code is not None:
            return code, True
        size = len(text.encode())
        kept = len(self.values) < limits.strings and self._bytes + size <= limits.string_bytes
        if not kept:
            text = OVERFLOW_TEXT
            code = self._codes.get(text)
            if code is not None:
                return code, False
        self.values.append(text)
        self._index()
        return len(self.values) - 1, kept

    def _index(self) -> None:
        """Catches up with texts that were appended to ``values`` by someone else."""
        while self._indexed < len(self.values):
            text = self.values[self._indexed]
            self._codes.setdefault(text, self._indexed)
            self._bytes += len(text.encode())
            self._indexed += 1


@dataclass(frozen=True)
class EventBatch:
    """Consecutive events of a file, in its order, as columns of equal length.

    Attributes:
        phase: uint8, the character ``ph``; 0 if absent or not one ASCII character.
        name, category, process, thread, scope: int32, a code into the strings of the scan; -1 if absent or null.
            A number and a string of it have the same code: ``"tid": 7`` and ``"tid": "7"``. ``scope`` is ``scope`` or
            ``s``.
        flow_id: int64, an opaque key to compare with other flow ids; -1 if absent. The number itself if ``id`` is a
            decimal integer in [0, 2**62), as a number or as a string; else ``FLOW_CODE_BASE`` plus a code into the
            strings.
        ts, dur: int64, ns, exact: us * 1000, truncated toward zero below the ns (as ``int(Decimal(us) * 1000)`` does),
            as in the file: baseTimeNanoseconds is not added. 0 where absent. Negative values are kept.
        has_ts, has_dur: bool, False where absent, no finite number, or beyond int64.
        numbers: Column of ``NUMBER_COLUMNS`` -> (int64 values, bool present); every column is there. 0 where absent.
        rest: int32, an index into ``rest_values`` of this batch; -1 where nothing is left.
        rest_offsets: int32, where each rest text begins in ``rest_data``, then where the last one ends: one longer than
            ``rest_values``.
        rest_data: The rest texts, UTF-8: one JSON object each, always valid and compact, holding every member of
            ``args`` that has no column (the last of equal keys), and every member of the event that has none, but
            ``bp``. Args that are no object are there under ``value``. NaN and Infinity are null.
        offset: int64, where the event's ``{`` is in the decompressed file.
    """

    phase: npt.NDArray[np.uint8]
    name: Int32Array
    category: Int32Array
    process: Int32Array
    thread: Int32Array
    scope: Int32Array
    flow_id: Int64Array
    ts: Int64Array
    dur: Int64Array
    has_ts: BoolArray
    has_dur: BoolArray
    numbers: dict[str, tuple[Int64Array, BoolArray]]
    rest: Int32Array
    rest_offsets: Int32Array
    rest_data: bytes
    offset: Int64Array

    def __len__(self) -> int:
        return len(self.phase)

    @cached_property
    def rest_values(self) -> list[str]:
        """The different rest texts of this batch, in the order of first use; an index into them is ``rest``."""
        ends = self.rest_offsets.tolist()
        return [self.rest_data[start:end].decode() for start, end in pairwise(ends)]

    def rest_array(self) -> Any:
        """Returns ``rest_values`` as a ``pyarrow.StringArray`` that shares the memory of the batch."""
        import pyarrow as pa

        buffers = [None, pa.py_buffer(self.rest_offsets), pa.py_buffer(self.rest_data)]
        return pa.Array.from_buffers(pa.string(), len(self.rest_offsets) - 1, buffers)


class Scanner(Protocol):
    """A running scan: iterate it to the end, then read what it found besides the events.

    Attributes:
        strings: Grows while the scan runs; complete for every batch that was handed over.
        metadata: Every member of the top level but ``traceEvents``, before and after the events, the last of equal
            keys; complete at the end.
        damage: Kind (of ``DAMAGE_KINDS``) -> count; complete at the end.
        damage_offsets: Kind -> the offset of the first one in the decompressed file: that of its
            event, if it is in one.
    """

    strings: StringTable
    metadata: dict[str, object]
    damage: dict[str, int]
    damage_offsets: dict[str, int]

    def __iter__(self) -> Iterator[EventBatch]: ...
