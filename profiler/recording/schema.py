"""The schema of a recording, as data: every table and column with its type, unit, meaning of null and source.

docs/schema.md is generated from this module. Conventions shared by all tables:

* every time is an int64 in nanoseconds on the recording's clock; intervals are half-open ``[ts, ts + dur)``;
* unknown is null, never -1 or an empty string;
* ids are int64 and unique in the recording: ``rank << 40 | n`` (see ``ids``);
* ``ts`` and ``dur`` carry no suffix, any other number ends in its unit, a share ends in ``_frac`` (0..1).

A new column is a compatible change. A renamed one, or one with a new meaning, raises ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from .columns import Column, Table
from .context_tables import (
    CLOCKS,
    COLLECTIVES,
    DEVICES,
    FRAMES,
    GROUPS,
    LOSSES,
    MODULES,
    PROCESSES,
    SEGMENTS,
    SOURCES,
    STACKS,
    STEPS,
)
from .timeline_tables import COUNTERS, FLOWS, MEMORY, SAMPLES, SLICES, TRACKS

__all__ = ["SCHEMA_VERSION", "TABLES", "Column", "Table"]

SCHEMA_VERSION = 1
"""Raised when a reader of the version before would misread the files."""

SLICE_KINDS = ("complete", "instant", "unfinished")
TRACK_KINDS = ("thread", "stream", "engine", "queue", "counter")
FLOW_KINDS = ("launch", "forward_backward", "stream_wait", "event_sync", "device_sync", "collective", "data", "user")
STEP_PHASES = ("preparation", "warm_up", "execution")
LOSS_SEVERITIES = ("info", "warning", "data_loss")

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PROCESSES, DEVICES, CLOCKS, SEGMENTS, TRACKS, SLICES, FLOWS, COUNTERS, MEMORY, COLLECTIVES,
        GROUPS, MODULES, STACKS, FRAMES, SAMPLES, SOURCES, STEPS, LOSSES,
    )
}  # fmt: skip
"""Every table of a recording, by name."""
