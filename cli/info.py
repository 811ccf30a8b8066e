"""``stallscope info``: what a recording is, what is in it, and what is missing from it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command import described
from .options import json_option, ranks_option, sources_argument

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording
    from .rendering.page import Page

RANKS_SHOWN = 16
LOSSES_SHOWN = 20
_IDENTITY_WIDTH = 76


@described(
    "info",
    short="What a recording holds, and what was lost.",
    examples=(
        ("What is in a trace, and what was lost", "stallscope info trace.json.gz"),
        ("Whether a run has ended well", "stallscope info runs/today --json"),
    ),
    output_keys={
        "path": "the recording's folder (of a trace: in the cache)",
        "label": "what the user calls it",
        "run_id": "the run's id",
        "schema_version": "of its files",
        "world_size": "ranks in the job, null if not known",
        "identity": "what was run, where, with which versions",
        "ranks": (
            "list of {rank, status (running, completed, failed, killed, unknown), attempts, start_ns, dur_ns, "
            "hosts, devices, rows (table -> number), and every further field of rank.json}"
        ),
        "losses": "list of {rank, collector, kind, severity, count, detail}",
    },
)
@sources_argument
@ranks_option
@json_option
def command(sources: tuple[Path, ...], ranks: tuple[int, ...] | None, as_json: bool) -> None:
    """Show what a recording holds: status, ranks, devices, tables, and what was lost or repaired."""
    from .opening import opened, scope_of, source_name

    recording = opened(sources)
    chosen = scope_of(recording, ranks).ranks
    facts = _facts(recording, chosen)
    if as_json:
        from .rendering.json_output import print_json

        print_json(facts)
        return
    from .rendering.page import page

    out = page()
    _print_identity(out, source_name(sources), facts)
    _print_ranks(out, facts["ranks"])
    _print_tables(out, facts["ranks"])
    _print_losses(out, facts["losses"])


def _facts(recording: Recording, ranks: Sequence[int]) -> dict[str, Any]:
    info = recording.info
    return {
        "path": str(recording.path),
        "label": info.get("label"),
        "run_id": info.get("run_id"),
        "schema_version": info.get("schema_version"),
        "created_ns": info.get("created_ns"),
        "world_size": info.get("world_size"),
        "identity": recording.identity,
        "settings": info.get("settings") or {},
        "ranks": [_rank_facts(recording, rank) for rank in ranks],
        "losses": _losses(recording, ranks),
    }


def _rank_facts(recording: Recording, rank: int) -> dict[str, Any]:
    from ..profiler.recording.errors import UsageError
    from ..profiler.recording.schema import TABLES
    from .opening import extent

    start: int | None = None
    dur: int | None = None
    with suppress(UsageError):  # a rank without a slice
        start, end = extent(recording, (rank,))
        dur = end - start
    processes = recording.table("processes", ranks=rank).to_pylist()
    devices = recording.table("devices", ranks=rank, columns=["device_type", "device_index", "name", "memory_bytes"])
    return recording.rank_info(rank) | {
        "attempts": list(recording.attempts(rank)),
        "start_ns": start,
        "dur_ns": dur,
        "hosts": sorted({row["host"] for row in processes if row["host"]}),
        "devices": devices.to_pylist(),
        "rows": {name: _row_count(recording, name, rank) for name in TABLES},
    }


def _row_count(recording: Recording, table: str, rank: int) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    total = 0
    for path in recording.files(table, rank):
        try:
            total += pq.read_metadata(path).num_rows
        except (pa.ArrowException, OSError):
            continue  # the reader lists a damaged file among the losses
    return total


def _losses(recording: Recording, ranks: Sequence[int]) -> list[dict[str, Any]]:
    order = {"data_loss": 0, "warning": 1, "info": 2}
    columns = ["rank", "collector", "kind", "severity", "count", "detail"]
    rows: list[dict[str, Any]] = recording.table("losses", ranks=ranks, columns=columns).to_pylist()
    return sorted(rows, key=lambda row: (order.get(row["severity"], 3), row["rank"], -(row["count"] or 0)))


def _print_identity(out: Page, source: str, facts: dict[str, Any]) -> None:
    from rich.text import Text

    from .rendering.text import name, printable, shortened

    out.print(Text.assemble((printable(source), "bold")))
    rows: list[tuple[str, Any]] = [
        ("label", facts["label"]),
        ("path", facts["path"]),
        ("schema", facts["schema_version"]),
        ("world size", facts["world_size"]),
        *((key, value) for key, value in facts["identity"].items() if key != "world_size"),
    ]
    for key, value in rows:
        if value is not None and value != facts["path"]:
            out.print(f"  {name(str(key), 20):<20} {shortened(printable(str(value)), _IDENTITY_WIDTH)}")
    out.print(f"  {'path':<20} {printable(facts['path'])}")


def _print_ranks(out: Page, ranks: list[dict[str, Any]]) -> None:
    from .rendering.numbers import count, duration
    from .rendering.tables import name_column, number_column, print_table
    from .rendering.text import name

    out.heading("Ranks")
    columns = [
        number_column("rank"),
        name_column("status"),
        name_column("host"),
        name_column("devices", weight=2),
        number_column("length"),
        number_column("slices"),
        name_column("from", weight=2),
    ]
    rows = [
        (
            str(rank["rank"]),
            name(rank["status"], 12),
            name(", ".join(rank["hosts"]), 40),
            name(_device_words(rank["devices"]), 60),
            duration(rank["dur_ns"]),
            count(rank["rows"]["slices"]),
            name((rank.get("import") or {}).get("file"), 60),
        )
        for rank in ranks[:RANKS_SHOWN]
    ]
    print_table(out, columns, rows, indent=2)
    if len(ranks) > RANKS_SHOWN:
        out.print(f"  ... {len(ranks) - RANKS_SHOWN} more: --rank chooses, --json has all")


def _device_words(devices: list[dict[str, Any]]) -> str:
    counts: dict[str, int] = {}
    for device in devices:
        words = device["name"] or f"{device['device_type']} {device['device_index']}"
        counts[words] = counts.get(words, 0) + 1
    return ", ".join(words if number == 1 else f"{number} x {words}" for words, number in counts.items())


def _print_tables(out: Page, ranks: list[dict[str, Any]]) -> None:
    from .rendering.numbers import count

    totals: dict[str, int] = {}
    for rank in ranks:
        for table, rows in rank["rows"].items():
            totals[table] = totals.get(table, 0) + rows
    out.heading("Tables", "rows; docs/schema.md says what one row is")
    filled = [f"{table} {count(rows)}" for table, rows in totals.items() if rows]
    line = ""
    for item in filled:
        if line and len(line) + len(item) + 3 > out.width - 2:
            out.print(f"  {line}")
            line = ""
        line += f"   {item}" if line else item
    out.print(f"  {line or 'none'}")


def _print_losses(out: Page, losses: list[dict[str, Any]]) -> None:
    from .rendering.numbers import count
    from .rendering.tables import Cell, name_column, number_column, print_table
    from .rendering.text import name

    out.heading("Lost, repaired, left out")
    if not losses:
        out.print("  nothing")
        return
    styles = {"data_loss": "bold red", "warning": "yellow"}
    columns = [
        number_column("rank"),
        name_column("severity"),
        name_column("kind", weight=2),
        number_column("count"),
        name_column("what", weight=4),
    ]
    rows = [
        (
            str(loss["rank"]),
            Cell(name(loss["severity"], 12), styles.get(loss["severity"], "")),
            name(loss["kind"], 40),
            count(loss["count"]),
            name(loss["detail"], 200),
        )
        for loss in losses[:LOSSES_SHOWN]
    ]
    print_table(out, columns, rows, indent=2)
    if len(losses) > LOSSES_SHOWN:
        out.print(f"  ... {len(losses) - LOSSES_SHOWN} more: --json has all")
