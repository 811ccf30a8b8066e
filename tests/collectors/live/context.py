"""A stand-in for the session, so that a collector can be tried alone; and what it wrote."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stallscope.profiler.recording.captured_rows import CapturedRows
from stallscope.profiler.recording.segment import Segment
from stallscope.profiler.session.settings import SETTINGS


class TestContext:
    """Implements ``CaptureContext`` without a folder of tables: exceptions come out, rows are kept in memory."""

    __test__ = False

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.rows = CapturedRows(0, 0, os.getpid())
        self.rank = self.local_rank = self.attempt = 0
        self.world_size = 1
        self.folder = folder
        self.detail = "normal"
        self.settings: Mapping[str, Any] = {name: one.default for name, one in SETTINGS.items()} | settings
        self.active = True
        self.phase = "active"
        self.torch_recording_since: int | None = None
        self.torch_recorded = (0, 0)
        self.training_threads = {threading.get_ident()}
        self.steps: list[str] = []
        self.suspended: list[str] = []
        self.converted: list[Segment] = []

    def guarded(self, _collector: str, function: Callable[..., Any], _default: Any = None) -> Callable[..., Any]:
        return function

    def loss(self, collector: str, kind: str, severity: str, **fields: Any) -> None:
        self.rows.append("losses", collector=collector, kind=kind, severity=severity, **fields)

    def pause(self, _collector: str, name: str, ts: int, dur: int, _detail: str) -> None:
        self.rows.slice(name, "overhead", ts, dur)

    def mark_step(self, source: str) -> None:
        self.steps.append(source)

    def on_main_thread(self, _function: Callable[[], None]) -> bool:
        return False

    def around_main_thread_calls(self, _begins: Callable[[], None], _ends: Callable[[], None]) -> None:
        pass

    def suspend_tracing(self, reason: str) -> None:
        self.suspended.append(reason)

    def resume_tracing(self) -> None:
        self.suspended.append("resumed")

    def convert(self, segment: Segment) -> None:
        self.converted.append(segment)

    def redacted(self, text: str) -> str:
        return text

    def written(self) -> dict[str, list[dict[str, Any]]]:
        """The rows so far, by table; they are gone afterwards."""
        found = {}
        for table, columns in self.rows.drain():
            names = list(columns)
            found[table] = [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return found


def counters(written: dict[str, list[dict[str, Any]]]) -> dict[tuple[str, str | None, int | None], list[float]]:
    """(name, device type, device index) -> values, from rows that hold their own tracks."""
    tracks = {
        row["track_id"]: (row["name"], row["device_type"], row["device_index"]) for row in written.get("tracks", [])
    }
    found: dict[tuple[str, str | None, int | None], list[float]] = {}
    for row in written.get("counters", []):
        found.setdefault(tracks[row["track_id"]], []).append(row["value"])
    return found
