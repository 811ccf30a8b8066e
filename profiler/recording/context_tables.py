"""The tables that say what the rows of a timeline belong to: processes, devices, groups, stacks, steps, losses."""

from __future__ import annotations

from .columns import IDS, INT32, INT64, NAME, RANK, TEXT, Table
from .columns import Column as C

PROCESSES = Table(
    "processes",
    "a process of a rank",
    (
        RANK,
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
        RANK,
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
    key=("rank", "device_type", "device_index"),
)

CLOCKS = Table(
    "clocks",
    "an alignment of a clock with the recording's clock at one instant",
    (
        C("clock_id", INT64, "The clock (tracks.clock_id)."),
        RANK,
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
        RANK,
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

COLLECTIVES = Table(
    "collectives",
    "one rank's part in one collective",
    (
        C("slice_id", INT64, "The host's call (slices.slice_id).", null="only the device's part is in the trace"),
        C("device_slice_id", INT64, "The device's part (slices.slice_id).", null="none: CPU only, or not recorded"),
        RANK,
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
        RANK,
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
        RANK,
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
