"""``stallscope redact``: a copy of a recording that can be shared."""

from __future__ import annotations

from pathlib import Path

import click

from .command import described
from .opening import opened
from .options import output_folder_option


@described(
    "redact",
    short="A copy of a recording that can be shared.",
    examples=(
        ("A copy for a bug report", "stallscope redact runs/today -o shared"),
        ("Look at what is left", "stallscope query shared 'select distinct file from frames'"),
    ),
)
@click.argument("source", metavar="RECORDING|TRACE", type=click.Path(path_type=Path))
@output_folder_option
def command(source: Path, output: Path, force: bool) -> None:
    """Write a copy without names of files, hosts and users, arguments, environment and source text.

    Times, ops, kernels, sizes and the names of functions stay: read the copy before you share it if
    those say too much.
    """
    from .rendering.numbers import count, plural
    from .rendering.page import note
    from .transfer.redacted import redact_recording

    rows = redact_recording(opened((source,)), output, force=force)
    note(
        f"{output}: {plural(len(rows), 'table')}, {count(sum(rows.values()))} rows, "
        "without names of files, hosts, users."
    )
