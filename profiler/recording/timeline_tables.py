"""The tables that a timeline is drawn from: tracks and what lies on them."""

from __future__ import annotations

from .columns import FLOAT64, INT32, INT64, NAME, RANK, TEXT, UINT64, Table
from .columns import Column as C

_TRACK = "track (tracks.track_id)"

TRACKS = Table(
    "tracks",
    "a row of the timeline",
    (
        C("track_id", INT64, "The track."),
        RANK,
        C("kind", NAME, "thread, stream, engine, queue or counter."),
        C("name", TEXT, "What to call it.", source="thread_name"),
        C("unit", NAME, "Of a counter's values.", null="no counter, or no unit"),
        C(
            "process_id",
            INT64,
            "The process (processes.process_id).",
            null="no process, or one named by a word",
            source="pid",
        ),
        C("thread_id", INT64, "The operating system's thread id.", null="not a thread", source="tid"),
        C("device_type", NAME, "The device's type (devices.device_type).", null="not on a device"),
        C("device_index", INT32, "The device's index.", null="not on a device", source="args.device"),
        C("stream_id", INT64, "The stream of a device.", null="not a stream", source="args.stream, tid"),
        C(
            "context_id",
            INT64,
            "The context that the stream belongs to.",
            null="not in the trace",
            source="args.context",
        ),
        C("engine", NAME, "The engine or queue of a device.", null="not an engine or queue"),
        C("parent_track_id", INT64, f"The {_TRACK} it belongs under.", null="top level"),
        C("clock_id", INT64, "The clock its stamps were taken with.", null="the recording's"),
        C("sort_key", INT64, "Where it stands among its siblings.", null="no preference", source="sort_index"),
    ),
    ("rank", "track_id"),
    key=("track_id",),
)

SLICES = Table(
    "slices",
    "something on a track",
    (
        C("slice_id", INT64, "The slice."),
        RANK,
        C("track_id", INT64, f"Its {_TRACK}."),
        C("segment_id", INT64, "The segment it was seen in (segments.segment_id).", null="outside any segment"),
        C(
            "kind",
            NAME,
            "complete (has a duration), instant, or unfinished (began, and the end was not seen).",
            source="ph",
        ),
        C("ts", INT64, "Start.", "ns", source="ts"),
        C("dur", INT64, "Length; 0 for an instant.", "ns", "unfinished", "dur"),
        C(
            "lane",
            INT32,
            "Row within the track: above 0 only where slices of one track overlap without nesting.",
            source="import",
        ),
        C("depth", INT32, "How many slices of the same lane contain it.", source="import"),
        C("name", NAME, "The full name.", source="name"),
        C("short_name", NAME, "The name made readable.", null="the name is short already", source="name"),
        C("raw_category", NAME, "The category as the trace writes it.", null="it writes none", source="cat"),
        C(
            "category",
            NAME,
            "op, python, module, annotation, runtime, kernel, graph, memcpy, memset, collective, synchronization, "
            "allocation, dma, instruction, compile, fallback, input, gc, io, overhead or other.",
            source="rule table (recording.categories)",
        ),
        C(
            "parent_id",
            INT64,
            "The innermost slice of the same lane that contains it (slices.slice_id).",
            null="none contains it",
        ),
        C(
            "correlation_id",
            INT64,
            "Shared by a runtime call and the device work it starts, within a rank, process and segment.",
            null="none",
            source="args.correlation",
        ),
        C(
            "external_id",
            INT64,
            "The op it belongs to, by the profiler's own number.",
            null="none",
            source='args."External id"',
        ),
        C(
            "sequence_number",
            INT64,
            "Shared by a forward op and its backward node.",
            null="none",
            source='args."Sequence number"',
        ),
        C(
            "graph_id",
            INT64,
            "The device graph that it was replayed by.",
            null="not of a graph",
            source='args."graph id"',
        ),
        C("compile_id", NAME, "The compilation, as frame/recompile.", null="none", source="name, args"),
        C("module_id", INT64, "The model's module (modules.module_id).", null="none", source='args."Python module id"'),
        C(
            "stack_id",
            INT64,
            "The call stack at its start (stacks.stack_id).",
            null="not recorded",
            source='args."Call stack"',
        ),
        C("bytes", INT64, "Bytes it moved.", "bytes", "not a copy, or not known", "args.bytes"),
        C("flops", INT64, "Floating-point operations.", null="not recorded", source='args."flops"'),
        C("args", TEXT, "Every other field of the event, as a JSON object.", null="no other field", source="args"),
    ),
    ("track_id", "ts"),
)

FLOWS = Table(
    "flows",
    "an arrow between two slices",
    (
        C("from_slice_id", INT64, "Where it starts (slices.slice_id)."),
        C("to_slice_id", INT64, "Where it ends (slices.slice_id)."),
        C(
            "kind",
            NAME,
            "launch, forward_backward, stream_wait, event_sync, device_sync, collective, data or user.",
            source="cat, correlation",
        ),
    ),
    ("from_slice_id", "to_slice_id"),
)

COUNTERS = Table(
    "counters",
    "a value, from ts on",
    (
        RANK,
        C("track_id", INT64, f"The counter's {_TRACK}."),
        C("ts", INT64, "From when.", "ns", source="ts"),
        C("value", FLOAT64, "The value, in the track's unit.", null="the source had a gap", source="args"),
    ),
    ("track_id", "ts"),
)

SAMPLES = Table(
    "samples",
    "a stack at an instant",
    (
        RANK,
        C("track_id", INT64, f"The thread's {_TRACK}."),
        C("ts", INT64, "When.", "ns"),
        C("stack_id", INT64, "The stack (stacks.stack_id).", null="not readable"),
        C("state", NAME, "running, runnable, sleeping, lock, ...", null="not known"),
        C("run_delay_ns", INT64, "Waited for a core since the sample before.", "ns", "not known"),
    ),
    ("track_id", "ts"),
)

MEMORY = Table(
    "memory",
    "an allocation or a free",
    (
        C("event_id", INT64, "The event."),
        RANK,
        C("ts", INT64, "When.", "ns", source="ts"),
        C("device_type", NAME, "The device's type.", source='args."Device Type"'),
        C("device_index", INT32, "The device's index.", null="the host", source='args."Device Id"'),
        C("allocator", NAME, "Whose memory it is.", null="not known"),
        C("address", UINT64, "The address.", null="the trace has none (2021 layout)", source="args.Addr"),
        C("bytes", INT64, "Positive for an allocation, negative for a free.", "bytes", source="args.Bytes"),
        C(
            "total_allocated",
            INT64,
            "Held by tensors after the event.",
            "bytes",
            "not in the trace",
            'args."Total Allocated"',
        ),
        C(
            "total_reserved",
            INT64,
            "Held by the allocator after the event.",
            "bytes",
            "not in the trace",
            'args."Total Reserved"',
        ),
        C("slice_id", INT64, "The innermost slice on the same thread at that instant.", null="none"),
        C("stack_id", INT64, "The call stack.", null="not recorded"),
        C("track_id", INT64, f"The thread's {_TRACK}.", null="not known", source="tid"),
    ),
    ("rank", "ts"),
)
