"""Small traces, written to files and imported."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from stallscope.collectors.importers.torch_profiler import TorchProfilerImporter
from stallscope.profiler.recording.reader import Recording, open_recording
from stallscope.profiler.recording.writer import RecordingWriter

Event = dict[str, Any]
HOST, THREAD, GPU, STREAM = 100, 100, 0, 7


def op(
    name: str, ts: float, dur: float, *, cat: str = "cpu_op", pid: Any = HOST, tid: Any = THREAD, **args: Any
) -> Event:
    """A slice of the host."""
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def call(name: str, ts: float, dur: float, correlation: int, **args: Any) -> Event:
    """A call into the runtime."""
    return op(name, ts, dur, cat="cuda_runtime", correlation=correlation, **args)


def kernel(
    name: str, ts: float, dur: float, correlation: int | None = None, *, tid: Any = STREAM, **args: Any
) -> Event:
    """A slice of a device."""
    given = {"device": GPU, "stream": tid} | ({} if correlation is None else {"correlation": correlation}) | args
    return op(name, ts, dur, cat="kernel", pid=GPU, tid=tid, **given)


def write(path: Path, events: Iterable[Event], **top_level: Any) -> Path:
    """A trace file as torch.profiler lays it out."""
    path.write_text(json.dumps({"schemaVersion": 1, **top_level, "traceEvents": list(events)}))
    return path


def import_files(folder: Path, *paths: Path) -> Recording:
    """The recording of some files."""
    with RecordingWriter.create(folder) as writer:
        TorchProfilerImporter().import_files(list(paths), writer, None)
    return open_recording(folder)


def imported(folder: Path, events: Iterable[Event], name: str = "rank0.json", **top_level: Any) -> Recording:
    """The recording of a trace of these events."""
    return import_files(folder / "recording", write(folder / name, events, **top_level))


def rows(recording: Recording, table: str, *columns: str) -> list[Any]:
    """The rows of a table: dicts, or tuples of some columns."""
    found = recording.table(table).to_pylist()
    return [tuple(row[name] for name in columns) for row in found] if columns else found


def slices(recording: Recording) -> dict[str, dict[str, Any]]:
    """The slices by name, which must be different ones."""
    found = rows(recording, "slices")
    named = {row["name"]: row for row in found}
    assert len(named) == len(found), "names of these slices repeat"
    return named


def links(recording: Recording, kind: str) -> list[tuple[str, str]]:
    """The arrows of a kind as names of slices."""
    name = dict(rows(recording, "slices", "slice_id", "name"))
    return [
        (name[source], name[target])
        for source, target, found in rows(recording, "flows", "from_slice_id", "to_slice_id", "kind")
        if found == kind
    ]


def losses(recording: Recording) -> dict[str, int]:
    """Kind -> count, over all rows of ``losses``."""
    found: dict[str, int] = {}
    for kind, count in rows(recording, "losses", "kind", "count"):
        found[kind] = found.get(kind, 0) + count
    return found
