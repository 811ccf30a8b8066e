"""What could not be kept as it was, as rows of the table ``losses``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .scanner import DAMAGE_KINDS

COLLECTOR = "torch_profiler importer"

_DATA_LOSS = frozenset(
    {
        "truncated", "bad_event", "interleaved", "too_deep", "oversized_event", "garbage", "no_trace_events", "empty",
        "string_table_full", "unsupported_phase", "without_time_stamp", "damaged_gzip", "counter_without_value",
        "zero_time_stamp",
    }
)  # fmt: skip
_INFO = frozenset(
    {
        "flow_without_start", "device_op_without_launch", "overlapping_slices", "repeated_flow_start",
        "device_op_before_launch", "several_documents", "several_ranks_in_one_file",
    }
)  # fmt: skip

DETAILS: dict[str, str] = {
    **DAMAGE_KINDS,
    "damaged_gzip": "the gzip stream is cut or corrupt: what follows cannot be decompressed",
    "gzip_trailing_bytes": "bytes after the gzip stream that are not gzip",
    "unsupported_phase": "events of a phase that has no place in a recording",
    "without_time_stamp": "events without a usable time stamp",
    "without_duration": "complete events without a duration: kept as unfinished",
    "negative_duration": "slices that end before they start: kept with a duration of 0, the original in their args",
    "zero_time_stamp": "device operations with time stamp 0, far from all others: the driver did not stamp them",
    "end_without_begin": "end events with no open begin event",
    "begin_without_end": "begin events whose end is not in the file: kept as unfinished",
    "counter_without_value": "counter events without a number",
    "flow_without_start": "flow arrows that end here and start nowhere; usual for calls that launch nothing",
    "flow_without_end": "flow arrows that start here and end nowhere",
    "repeated_flow_start": "flow arrows that reuse an id of their category; ends follow the latest start before them",
    "device_op_without_launch": "device operations whose launch is not in the file",
    "device_op_before_launch": "device operations that start before the call that launched them",
    "overlapping_slices": "slices that overlap another of their track without nesting: drawn in a lane of their own",
    "rank_guessed": "the file does not say which rank it is",
    "several_ranks_in_one_file": "ranks in this file, told apart by its processes' names; the others are the lowest",
}


def severity_of(kind: str) -> str:
    """data_loss where something of the trace is not in the recording, warning where it was changed, else info."""
    if kind in _DATA_LOSS:
        return "data_loss"
    return "info" if kind in _INFO else "warning"


@dataclass(slots=True)
class Losses:
    """Collects rows of ``losses`` of one segment.

    Attributes:
        segment_id: The segment.
        rows: The rows so far.
    """

    segment_id: int
    rows: list[dict[str, Any]] = field(default_factory=list)

    def add(self, kind: str, count: int, *, detail: str = "", track_id: int | None = None) -> None:
        """Adds a row, unless nothing was lost."""
        if count <= 0:
            return
        text = DETAILS.get(kind, kind)
        self.rows.append(
            {
                "collector": COLLECTOR,
                "kind": kind,
                "severity": severity_of(kind),
                "track_id": track_id,
                "segment_id": self.segment_id,
                "count": count,
                "detail": f"{text} ({detail})" if detail else text,
            }
        )

    def columns(self) -> dict[str, list[Any]]:
        """The rows as columns."""
        names = ("collector", "kind", "severity", "track_id", "segment_id", "count", "detail")
        return {name: [row[name] for row in self.rows] for name in names}
