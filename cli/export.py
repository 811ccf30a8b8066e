"""``stallscope export``: a recording for other tools, as a Chrome trace or as plain tables."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .options import Window, scope_options, sources_argument

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording
    from .opening import Scope
    from .transfer.chrome_trace import ChromeCounts

FORMATS = ("chrome", "csv", "parquet")


@described(
    "export",
    short="For other tools: Perfetto (Chrome JSON), CSV, Parquet.",
    examples=(
        ("For ui.perfetto.dev, all ranks in one file", "stallscope export runs/today -o today.json.gz"),
        ("One step of one rank", "stallscope export runs/today --rank 3 --step 5 -o step5.json"),
        ("Two tables as CSV", "stallscope export trace.json.gz --format csv --table slices,steps -o csv/"),
    ),
)
@sources_argument
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="chrome", show_default=True, help="What to write."
)
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(path_type=Path),
    help="A .json or .json.gz file for chrome; a folder for csv and parquet.",
)
@click.option("--table", "tables", metavar="NAMES", help="Only these tables (csv, parquet): slices,steps.")
@click.option("--force", is_flag=True, help="Overwrite OUTPUT.")
@scope_options
def command(
    sources: tuple[Path, ...],
    form: str,
    output: Path,
    tables: str | None,
    force: bool,
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
) -> None:
    """Write a recording for other tools.

    chrome is JSON that ui.perfetto.dev, chrome://tracing and stallscope itself read: tracks, slices,
    arrows, counters and memory, with exact time stamps. Slices that overlap on one track go on rows of
    their own, where Perfetto would drop them. csv and parquet are a file a table (docs/schema.md).
    """
    from .opening import opened, scope_of

    if form == "chrome" and tables:
        raise UsageError("--table chooses tables of csv and parquet; a Chrome trace holds all of them.")
    _must_be_free(output, form, force=force)
    names = _table_names(tables)
    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    if form == "chrome":
        _export_chrome(recording, scope, output)
    else:
        _export_tables(recording, scope, form, names, output)


def _must_be_free(output: Path, form: str, *, force: bool) -> None:
    from .output import must_be_free

    if form == "chrome":
        must_be_free(output, force=force)
    elif output.exists() and not output.is_dir():
        raise UsageError(f"{output} is a file; {form} files go into a folder.")
    elif output.is_dir() and any(output.iterdir()) and not force:
        raise UsageError(f"{output} is not empty.", hint="Name another folder, or give --force.")


def _table_names(text: str | None) -> list[str]:
    from ..profiler.recording.schema import TABLES
    from .main import unknown_word

    if text is None:
        return list(TABLES)
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in TABLES:
            raise UsageError(unknown_word("table", name, list(TABLES)))
    return names


def _export_chrome(recording: Recording, scope: Scope, output: Path) -> None:
    from .opening import time_of_rank
    from .output import written_whole
    from .rendering.numbers import count
    from .rendering.page import note
    from .transfer.chrome_export import export_chrome_trace

    windows = {rank: time_of_rank(recording, scope, rank) for rank in scope.ranks}
    with written_whole(output) as temporary, _text_file(temporary, compressed=output.suffix == ".gz") as stream:
        counts = export_chrome_trace(recording, windows, stream)
    note(
        f"{output}: {count(counts.slices)} slices, {count(counts.flows)} arrows, {count(counts.memory)} memory events."
    )
    for remark in _remarks(counts):
        note(f"  {remark}")


def _remarks(counts: ChromeCounts) -> list[str]:
    from .rendering.numbers import plural

    remarks = []
    if counts.overlaps:
        rows = plural(counts.overlaps, "further row")
        remarks.append(f"Overlapping slices are on {rows}, named after their track.")
    if counts.flows_left_out:
        remarks.append(f"{plural(counts.flows_left_out, 'arrow')} with an end outside the part were left out.")
    return remarks


@contextmanager
def _text_file(path: Path, *, compressed: bool) -> Iterator[TextIO]:
    if compressed:
        with gzip.open(path, "wt", encoding="utf-8", compresslevel=5) as stream:
            yield stream
    else:
        with path.open("w", encoding="utf-8") as stream:
            yield stream


def _export_tables(recording: Recording, scope: Scope, form: str, names: list[str], output: Path) -> None:
    from .opening import time_of_rank
    from .rendering.numbers import count
    from .rendering.page import note
    from .transfer.tables import export_tables

    windows = {rank: time_of_rank(recording, scope, rank) for rank in scope.ranks}
    for name, rows in export_tables(recording, output, form, names, windows).items():
        note(f"{output / name}.{form}: {count(rows)} rows")
