"""The schema of a recording, as data: every table and column with its type, unit, meaning of null and source.

docs/schema.md is generated from this module. Conventions shared by all tables:

* every time is an int64 in nanoseconds on the recording's clock; intervals are half-open ``[ts, ts + dur)``;
* unknown is null, never -1 or an empty string;
* ids are int64 and unique in the recording: ``rank << 40 | n`` (see ``ids``);
* ``ts`` and ``dur`` carry no suffix, any other number ends in its unit, a share ends in ``_frac`` (0..1).

A new column is a compatible change. A renamed one, or one with a new meaning, raises ``SCHEMA_VERSION``.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 1
"""Raised when a reader of the version before would misread the files."""

INT64, INT32, UINT64, FLOAT64, BOOL = pa.int64(), pa.int32(), pa.uint64(), pa.float64(), pa.bool_()
TEXT = pa.string()
NAME = pa.dictionary(pa.int32(), pa.string())
"""Text that repeats: stored once, referred to by number."""
IDS = pa.list_(pa.int64())


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table.

    Attributes:
        name: The column's name.
        type: Its Arrow type.
        meaning: What a value says, with the table that it refers to if it is an id.
        unit: The unit of a number ("ns", "bytes", ...); empty where there is none.
        null: What null means; empty where the column has none.
        source: The field that it comes from in a torch.profiler trace, or what sets it.
    """

    name: str
    type: pa.DataType
    meaning: str
    unit: str = ""
    null: str = ""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a recording: its name, what one row is, its columns, and the order of its closed files."""

    name: str
    row: str
    columns: tuple[Column, ...]
    order: tuple[str, ...] = ()

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema; a column is nullable exactly where its ``null`` says what null means."""
        return pa.schema([pa.field(c.name, c.type, nullable=bool(c.null)) for c in self.columns])

    def column(self, name: str) -> Column:
        """The column of that name; KeyError if there is none."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


C = Column

SLICE_KINDS = ("complete", "instant", "unfinished")
TRACK_KINDS = ("thread", "stream", "engine", "queue", "counter")
FLOW_KINDS = ("launch", "forward_backward", "stream_wait", "event_sync", "device_sync", "collective", "data", "user")
STEP_PHASES = ("preparation", "warm_up", "execution")
LOSS_SEVERITIES = ("info", "warning", "data_loss")

_RANK = C("rank", INT64, "The rank in the job; 0 where the job has one.", source="distributedInfo.rank")
_TRACK = "track (tracks.track_id)"

PROCESSES = Table(
    "processes",
    "a process of a rank",
    (
        _RANK,
        C(
            "attempt",
            INT32,
            "Which start of this rank, from 0: a restarted rank writes a new attempt.",
            source="writer",
        ),
        C(
            "process_id",
            INT64,
            "The operating system's process id.",
            null="the trace names the process by a word",
            source="pid",
        ),
        C("host", TEXT, "The host's name.", null="not in the trace", source="host_name"),
        C("local_rank", INT32, "The rank on its host.", null="not known", source="LOCAL_RANK"),
        C("role", NAME, "trainer, loader_worker, ...", null="not known", source="process_labels"),
        C("name", TEXT, "The process's name.", null="not named", source="process_name"),
    ),
    ("rank", "process_id"),
)

DEVICES = Table(
    "devices",
    "an accelerator or the host, as a rank sees it",
    (
        _RANK,
        C("device_type", NAME, "cuda, hip, xpu, mtia, cpu or the name that the backend registered.", source="trace"),
        C("device_index", INT32, "The index among the devices of its type.", source="deviceProperties.id"),
        C("name", TEXT, "The model, as the driver names it.", null="not in the trace", source="deviceProperties.name"),
        C("uuid", TEXT, "The device's unique id.", null="not in the trace", source="deviceProperties.uuid"),
        C(
            "memory_bytes",
            INT64,
            "Memory of the device.",
            "bytes",
            "not in the trace",
            "deviceProperties.totalGlobalMem",
        ),
        C(
            "properties",
            TEXT,
            "Everything else that the backend says, as JSON.",
            null="nothing else",
            source="deviceProperties",
        ),
    ),
    ("rank", "device_type", "device_index"),
)

CLOCKS = Table(
    "clocks",
    "an alignment of a clock with the recording's clock at one instant",
    (
        C("clock_id", INT64, "The clock (tracks.clock_id)."),
        _RANK,
        C("ts", INT64, "When, on the recording's clock.", "ns"),
        C("offset_ns", INT64, "What was added to the clock's own time.", "ns", source="baseTimeNanoseconds"),
        C("error_ns", INT64, "The offset is right within this.", "ns", "not known"),
        C("method", NAME, "How the offset was found: trace_base, realtime, collective_ends, ..."),
    ),
    ("rank", "clock_id", "ts"),
)

SEGMENTS = Table(
    "segments",
    "a window in which torch's profiler ran, or one imported file",
    (
        C("segment_id", INT64, "The segment."),
        _RANK,
        C("ts", INT64, "Its start.", "ns"),
        C("dur", INT64, "Its length.", "ns", "it never ended"),
        C(
            "raw_file",
            TEXT,
            "The file that it was read from, by name alone.",
            null="no file: written directly",
            source="file name",
        ),
        C("sha256", TEXT, "Of that file's bytes.", null="no file"),
        C("state", NAME, "converted, raw (not converted yet), damaged (only the whole events of it are here)."),
    ),
    ("rank", "ts"),
)

TRACKS = Table(
    "tracks",
    "a row of the timeline",
    (
        C("track_id", INT64, "The track."),
        _RANK,
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
        C("engine", NAME, "The engine or queue of a device.", null="not an engine or queue"),
        C("parent_track_id", INT64, f"The {_TRACK} it belongs under.", null="top level"),
        C("clock_id", INT64, "The clock its stamps were taken with.", null="the recording's"),
        C("sort_key", INT64, "Where it stands among its siblings.", null="no preference", source="sort_index"),
    ),
    ("rank", "track_id"),
)

SLICES = Table(
    "slices",
    "something on a track",
    (
        C("slice_id", INT64, "The slice."),
        _RANK,
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
        _RANK,
        C("track_id", INT64, f"The counter's {_TRACK}."),
        C("ts", INT64, "From when.", "ns", source="ts"),
        C("value", FLOAT64, "The value, in the track's unit.", null="the source had a gap", source="args"),
    ),
    ("track_id", "ts"),
)

MEMORY = Table(
    "memory",
    "an allocation or a free",
    (
        C("event_id", INT64, "The event."),
        _RANK,
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

COLLECTIVES = Table(
    "collectives",
    "one rank's part in one collective",
    (
        C("slice_id", INT64, "The host's call (slices.slice_id).", null="only the device's part is in the trace"),
        C("device_slice_id", INT64, "The device's part (slices.slice_id).", null="none: CPU only, or not recorded"),
        _RANK,
        C("group_id", INT64, "The process group (groups.group_id).", null="the trace names none"),
        C(
            "sequence_number",
            INT64,
            "The number of the collective in its group.",
            null="not in the trace",
            source='args."Seq"',
        ),
        C(
            "kind",
            NAME,
            "all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, recv, ...",
            source='args."Collective name", name',
        ),
        C("in_bytes", INT64, "Bytes in.", "bytes", "not in the trace", 'args."In msg nelems" times the size of dtype'),
        C(
            "out_bytes",
            INT64,
            "Bytes out.",
            "bytes",
            "not in the trace",
            'args."Out msg nelems" times the size of dtype',
        ),
        C("dtype", NAME, "Element type.", null="not in the trace", source="args.dtype"),
        C(
            "peer_rank",
            INT64,
            "The other rank of a send or receive.",
            null="not point to point",
            source='args."Src Rank", "Dst Rank"',
        ),
    ),
    ("rank", "device_slice_id"),
)

GROUPS = Table(
    "groups",
    "a process group",
    (
        C("group_id", INT64, "The group."),
        C("name", TEXT, "Its name.", source="pg_config.pg_name"),
        C("description", TEXT, "Its description.", null="none", source="pg_config.pg_desc"),
        C("ranks", IDS, "Its ranks.", null="not in the trace", source="pg_config.ranks"),
        C("kind", NAME, "dp, fsdp, tp, pp, ep or other.", null="not known", source="description"),
    ),
    ("group_id",),
)

MODULES = Table(
    "modules",
    "a module of the model",
    (
        C("module_id", INT64, "The module."),
        C("parent_id", INT64, "The module that contains it (modules.module_id).", null="top level, or not known"),
        C("path", TEXT, "Its path in the model, or its name in the trace.", source="python_function name"),
        C("class_name", TEXT, "Its class.", source="python_function name"),
    ),
    ("module_id",),
)

STACKS = Table(
    "stacks",
    "a call stack",
    (
        C("stack_id", INT64, "The stack."),
        C("frame_ids", IDS, "Its frames (frames.frame_id), outermost first."),
    ),
    ("stack_id",),
)

FRAMES = Table(
    "frames",
    "a source position",
    (
        C("frame_id", INT64, "The frame."),
        C(
            "file",
            TEXT,
            "The file, as the source writes it.",
            null="built in",
            source="python_function name, Call stack",
        ),
        C(
            "line",
            INT32,
            "The line. In torch.profiler's stacks it is the line of the def, not the one that runs.",
            null="built in",
        ),
        C("function", TEXT, "The function."),
    ),
    ("frame_id",),
)

SAMPLES = Table(
    "samples",
    "a stack at an instant",
    (
        _RANK,
        C("track_id", INT64, f"The thread's {_TRACK}."),
        C("ts", INT64, "When.", "ns"),
        C("stack_id", INT64, "The stack (stacks.stack_id).", null="not readable"),
        C("state", NAME, "running, runnable, sleeping, lock, ...", null="not known"),
        C("run_delay_ns", INT64, "Waited for a core since the sample before.", "ns", "not known"),
    ),
    ("track_id", "ts"),
)

SOURCES = Table(
    "sources",
    "a file of the user's as it was",
    (
        C("path", TEXT, "Its path."),
        C("sha256", TEXT, "Of its bytes."),
        C("text", TEXT, "Its text.", null="too large, or switched off"),
    ),
    ("path",),
)

STEPS = Table(
    "steps",
    "a training step of a rank",
    (
        _RANK,
        C("step", INT64, "Its number.", source="ProfilerStep#N"),
        C("device_index", INT32, "The device it was cut on.", null="cut on the host"),
        C("ts", INT64, "Start.", "ns"),
        C("dur", INT64, "Length.", "ns"),
        C("basis", NAME, "host or device."),
        C("phase", NAME, "preparation, warm_up or execution.", null="the trace does not say"),
        C("micro_steps", INT32, "Backward passes in it.", null="not known"),
    ),
    ("rank", "ts"),
)

LOSSES = Table(
    "losses",
    "something missing, repaired or paused",
    (
        _RANK,
        C("collector", NAME, "The collector or importer that says so."),
        C(
            "kind",
            NAME,
            "What: truncated, bad_event, negative_duration, flow_without_start, device_op_without_launch, ...",
        ),
        C("severity", NAME, "info, warning or data_loss."),
        C("track_id", INT64, "Where (tracks.track_id).", null="not on one track"),
        C("segment_id", INT64, "In which segment.", null="not in one segment"),
        C("ts", INT64, "From when.", "ns", "not at a time"),
        C("dur", INT64, "For how long.", "ns", "not for a time"),
        C("count", INT64, "How many.", null="not countable"),
        C("detail", TEXT, "In words, for a person.", null="nothing to add"),
    ),
    ("rank", "collector", "kind"),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PROCESSES, DEVICES, CLOCKS, SEGMENTS, TRACKS, SLICES, FLOWS, COUNTERS, MEMORY, COLLECTIVES,
        GROUPS, MODULES, STACKS, FRAMES, SAMPLES, SOURCES, STEPS, LOSSES,
    )
}  # fmt: skip
"""Every table of a recording, by name."""
