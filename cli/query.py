"""``stallscope query``: one SELECT over the tables of a recording."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..profiler.recording.errors import QueryError, UsageError
from .command import described
from .opening import opened
from .options import sources_argument

if TYPE_CHECKING:
    import pyarrow as pa

TABLE_ROWS = 50
FORMATS = ("table", "csv", "json", "parquet")


@described(
    "query",
    short="Ask the tables of a recording in SQL.",
    examples=(
        (
            "The five longest slices",
            'stallscope query trace.json.gz "select name, dur from slices order by dur desc limit 5"',
        ),
        ("Every step, as CSV", 'stallscope query runs/today "from steps" --format csv -o steps.csv'),
        ("SQL from a file, as JSON", "stallscope query runs/today - --format json < question.sql"),
    ),
)
@sources_argument
@click.argument("sql", metavar="SQL")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True, help="Of the result.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="Write to this file.  [default: stdout]")
@click.option("--force", is_flag=True, help="Overwrite OUTPUT.")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help=f"Rows to print; 0 for all.  [default: {TABLE_ROWS} in a table, else all]",
)
@click.option(
    "--timeout", type=click.FloatRange(min=0.1), default=30.0, show_default=True, metavar="S", help="Seconds."
)
def command(
    sources: tuple[Path, ...],
    sql: str,
    form: str,
    output: Path | None,
    force: bool,
    limit: int | None,
    timeout: float,
) -> None:
    """Run one SQL SELECT (DuckDB's dialect) over the tables of a recording.

    docs/schema.md lists the tables: slices, tracks, flows, memory, steps, losses, ... The query
    cannot write, read other files, or reach a network. SQL of - reads it from stdin.
    """
    from .output import must_be_free

    if output is not None:
        must_be_free(output, force=force)
    elif form == "parquet":
        raise UsageError("--format parquet writes a file.", hint="Name it: -o result.parquet")
    text = sys.stdin.read() if sql == "-" else sql
    recording = opened(sources)
    try:
        result = recording.sql(text, timeout_s=timeout)
    except QueryError as error:
        raise QueryError(error.message, hint=error.hint or _near_names(error.message)) from error
    shown = TABLE_ROWS if limit is None and form == "table" else limit
    _write(result.slice(0, shown) if shown else result, form, output)
    if shown and result.num_rows > shown and output is None:
        from .rendering.page import note

        note(f"{result.num_rows - shown:,} of {result.num_rows:,} rows are not shown: --limit 0 prints all.")


def _near_names(message: str) -> str:
    """Where the message names a column or table that there is none of: the nearest ones there are."""
    import re

    from ..profiler.recording.schema import TABLES
    from .main import unknown_word

    if found := re.search(r'column "([^"]+)"', message):
        return unknown_word("column", found[1], sorted({c.name for table in TABLES.values() for c in table.columns}))
    if found := re.search(r"no table '([^']+)'", message):
        return unknown_word("table", found[1], list(TABLES))
    return ""


def _write(result: pa.Table, form: str, output: Path | None) -> None:
    if form == "parquet" or output is not None:
        from .output import written_whole

        assert output is not None
        with written_whole(output) as temporary:
            _write_file(result, form, temporary)
    elif form == "csv":
        _write_csv(result)
    elif form == "json":
        from .rendering.json_output import print_json

        print_json(result.to_pylist())
    else:
        _print_table(result, sys.stdout)


def _write_file(result: pa.Table, form: str, path: Path) -> None:
    from .transfer import tables

    if form in tables.WRITERS:
        tables.WRITERS[form](path, result.schema, result.to_batches())
        return
    with path.open("w", encoding="utf-8") as file:
        if form == "json":
            import json

            from .rendering.json_output import plain

            json.dump(plain(result.to_pylist()), file, indent=2)
            file.write("\n")
        else:
            _print_table(result, file)


def _write_csv(result: pa.Table) -> None:
    import io

    import pyarrow as pa
    from pyarrow import csv

    from ..profiler.recording.plain_rows import plain_rows

    sink = io.BytesIO()
    csv.write_csv(plain_rows(result) if result.num_columns else pa.table({}), sink)
    click.echo(sink.getvalue().decode(), nl=False)


def _print_table(result: pa.Table, stream: Any) -> None:
    from .rendering.page import note, page
    from .rendering.tables import columns_that_fit, print_table
    from .rendering.text import printable

    columns, rows = _cells(result)
    out = page(stream)
    kept = columns_that_fit(columns, rows, out.width)
    print_table(out, columns[:kept], [row[:kept] for row in rows])
    if kept < len(columns):
        left_out = ", ".join(printable(name) for name in result.schema.names[kept:])
        note(f"No room for: {left_out}. --format csv or json prints every column.")


def _cells(result: pa.Table) -> tuple[list[Any], list[list[str]]]:
    import pyarrow as pa

    from .rendering.tables import name_column, number_column
    from .rendering.text import printable

    columns = [
        number_column(printable(field.name))
        if pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        else name_column(printable(field.name))
        for field in result.schema
    ]
    texts = [
        ["-" if value is None else printable(str(value)) for value in result.column(i).to_pylist()]
        for i in range(result.num_columns)
    ]
    return columns, [list(row) for row in zip(*texts, strict=True)]
