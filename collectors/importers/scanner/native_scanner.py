"""The native scanner: the same as ``python_scanner``, several times as fast, without holding the interpreter lock."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

import numpy as np

from . import _native
from .batch import (
    DROPPED_INTEGERS,
    KNOWN_INTEGERS,
    NUMBER_COLUMNS,
    BoolArray,
    EventBatch,
    Int64Array,
    Limits,
    StringTable,
)

_NEEDS_DATA, _BATCH_FULL, _ENDED = 0, 1, 2


class NativeScanner:
    """Scans blocks of a file; see ``batch.Scanner``."""

    def __init__(
        self, blocks: Iterable[bytes], strings: StringTable | None = None, limits: Limits | None = None
    ) -> None:
        self.strings = strings if strings is not None else StringTable()
        self.metadata: dict[str, object] = {}
        self.damage: dict[str, int] = {}
        self.damage_offsets: dict[str, int] = {}
        self._blocks = blocks
        limits = limits or Limits()
        known = [(key, NUMBER_COLUMNS.index(column)) for key, column in KNOWN_INTEGERS.items()]
        known += [(key, -1) for key in DROPPED_INTEGERS]
        self._native = _native.Scanner(
            known,
            NUMBER_COLUMNS.index("address"),
            (
                limits.event_bytes,
                limits.repair_bytes,
                limits.strings,
                limits.string_bytes,
                limits.metadata_bytes,
                limits.batch_events,
                limits.batch_bytes,
            ),
        )
        self._native.add_strings(self.strings.values)

    def __iter__(self) -> Iterator[EventBatch]:
        for block in self._blocks:
            self._native.feed(block)
            yield from self._batches()
        self._native.finish()
        yield from self._batches()

    def _batches(self) -> Iterator[EventBatch]:
        """Runs as far as the blocks so far go."""
        while True:
            progress = self._native.run()
            for key, text in self._native.new_metadata():
                self.metadata[key] = json.loads(text)
            if progress == _NEEDS_DATA:
                return
            for kind, (count, offset) in self._native.damage().items():
                self.damage[kind] = count
                self.damage_offsets[kind] = offset
            batch = self._take()
            if len(batch):
                yield batch
            if progress == _ENDED:
                return

    def _take(self) -> EventBatch:
        self.strings.values.extend(self._native.new_strings())
        columns = self._native.take()
        count = len(columns["phase"])
        absent = (np.zeros(count, np.int64), np.zeros(count, np.bool_))
        numbers = {
            name: absent if pair is None else _number(pair)
            for name, pair in zip(NUMBER_COLUMNS, columns["numbers"], strict=True)
        }
        return EventBatch(
            phase=np.frombuffer(columns["phase"], np.uint8),
            name=np.frombuffer(columns["name"], np.int32),
            category=np.frombuffer(columns["category"], np.int32),
            process=np.frombuffer(columns["process"], np.int32),
            thread=np.frombuffer(columns["thread"], np.int32),
            scope=np.frombuffer(columns["scope"], np.int32),
            flow_id=np.frombuffer(columns["flow_id"], np.int64),
            ts=np.frombuffer(columns["ts"], np.int64),
            dur=np.frombuffer(columns["dur"], np.int64),
            has_ts=np.frombuffer(columns["has_ts"], np.bool_),
            has_dur=np.frombuffer(columns["has_dur"], np.bool_),
            numbers=numbers,
            rest=np.frombuffer(columns["rest"], np.int32),
            rest_offsets=np.frombuffer(columns["rest_offsets"], np.int32),
            rest_data=columns["rest_data"],
            offset=np.frombuffer(columns["offset"], np.int64),
        )


def _number(pair: tuple[bytes, bytes]) -> tuple[Int64Array, BoolArray]:
    return np.frombuffer(pair[0], np.int64), np.frombuffer(pair[1], np.bool_)
