"""Writes docs/schema.md from the schema: ``python -m stallscope.profiler.recording.schema_page [--check] [FILE]``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from .categories import CATEGORIES, DEVICE_WORK
from .schema import (
    FLOW_KINDS,
    LOSS_SEVERITIES,
    SCHEMA_VERSION,
    SLICE_KINDS,
    STEP_PHASES,
    TABLES,
    TRACK_KINDS,
    Table,
)

DEFAULT_FILE = Path("docs/schema.md")

_HEAD = """\
# The recording

*Generated from profiler/recording by `python -m stallscope.profiler.recording.schema_page`; edit it there.*

A recording is a folder of Parquet files (schema version {version}) that any tool can read.

    recording.json                                     schema_version, run_id, label, identity, world_size, settings
    ranks/rank=00000/attempt=0/rank.json               status, host, environment, collectors; rewritten as a heartbeat
    ranks/rank=00000/attempt=0/slices/part-00000.parquet          a part, and so for each table
    ranks/rank=00000/attempt=0/slices/sorted-00000-00041.parquet  parts 0 to 41, merged when the rank closed
    ranks/rank=00000/attempt=0/segments/segment-00000/slices/...  the same for each segment of torch's profiler
    ranks/rank=00000/attempt=0/raw/segment-00001.json             a segment not converted yet; readers convert it

A part is a complete Parquet file as soon as it has its name, so whatever happens to the process, every closed part can
be read. A merged file takes the place of the parts whose numbers it spans; a kill during the merge may leave both, and
the merged one counts. Rows are sorted by the columns named under each table. A table without rows has no file. Each
rank writes its own folder, and a restarted rank a new attempt; readers take the last attempt unless told otherwise.

The status in rank.json is `running`, `completed` or `failed`. A reader that finds `running` checks the process that
wrote it: where that is gone, the status is `killed`; where nobody can tell, `unknown`.

## Conventions

- Every time is an int64 in nanoseconds on the recording's clock, every interval half-open: `[ts, ts + dur)`.
- Unknown is null, never -1 and never an empty text. A column whose *null* is empty below is never null.
- Ids are int64 and unique in the recording: `rank << 40 | n`. A restarted rank starts again in a range of its own.
- `ts` and `dur` have no unit in their name; any other number ends in its unit; a share ends in `_frac`, from 0 to 1.
- *text (repeated)* is dictionary-encoded text: read it as text, or as categories.
- Readers ignore columns that they do not know, and take a missing column as null where it may be null. A new column is
  a compatible change. A renamed column, or one with another meaning, raises the schema version, and a reader refuses
  recordings of a version newer than its own.
- The footer of each file holds `stallscope.content`, a digest (BLAKE2b, 16 bytes) of the bytes before the footer.

## Three queries to start with

    select name, count(*) n, sum(dur) / 1e6 total_ms
    from slices where category = 'kernel' group by name order by total_ms desc limit 10

    select l.name launch, k.name kernel, (k.ts - l.ts) / 1e3 late_us
    from flows f join slices l on l.slice_id = f.from_slice_id join slices k on k.slice_id = f.to_slice_id
    where f.kind = 'launch' order by late_us desc limit 10

    select collector, kind, severity, sum(count) n, any_value(detail) from losses group by all

Run them with `stallscope query RECORDING "..."`, or with any tool that reads Parquet.

## Values

{values}

Device work is a slice of category {device_work} on a track of kind stream, engine or queue.

## Tables
"""


def schema_page() -> str:
    """The text of docs/schema.md."""
    values = {
        "slices.kind": SLICE_KINDS,
        "slices.category": CATEGORIES,
        "tracks.kind": TRACK_KINDS,
        "flows.kind": FLOW_KINDS,
        "steps.phase": STEP_PHASES,
        "losses.severity": LOSS_SEVERITIES,
    }
    listed = "\n".join(f"- `{column}`: {', '.join(allowed)}" for column, allowed in values.items())
    head = _HEAD.format(version=SCHEMA_VERSION, values=listed, device_work=", ".join(sorted(DEVICE_WORK)))
    return head + "".join(map(_section, TABLES.values()))


def _section(table: Table) -> str:
    lines = [
        f"\n### {table.name}\n",
        f"One row is {table.row}. Sorted by {', '.join(table.order)}.{_key(table)}\n",
        "| column | type | meaning | null | source |",
        "|---|---|---|---|---|",
    ]
    for column in table.columns:
        unit = f", {column.unit}" if column.unit else ""
        cells = (f"`{column.name}`", _type(column.type) + unit, column.meaning, column.null, column.source)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _key(table: Table) -> str:
    return f" Several segments may describe the same {', '.join(table.key)}; the first counts." if table.key else ""


def _type(arrow: pa.DataType) -> str:
    if pa.types.is_dictionary(arrow):
        return "text (repeated)"
    if pa.types.is_list(arrow):
        return f"list of {arrow.value_type}"
    return "text" if pa.types.is_string(arrow) else str(arrow).replace("double", "float64")


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, or with ``--check`` says whether it is current; returns the exit code."""
    parser = argparse.ArgumentParser(prog="schema_page", description="Writes docs/schema.md from the schema.")
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE)
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if the page is not current")
    options = parser.parse_args(arguments)
    if not options.check:
        options.file.write_text(schema_page(), encoding="utf-8")
        return 0
    if options.file.exists() and options.file.read_text(encoding="utf-8") == schema_page():
        return 0
    sys.stderr.write(f"{options.file} is not current; run python -m stallscope.profiler.recording.schema_page\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
