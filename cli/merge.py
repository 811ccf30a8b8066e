"""``stallscope merge``: recordings of single ranks, from node-local disks, become one recording."""

from __future__ import annotations

from pathlib import Path

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .opening import opened
from .options import output_folder_option


@described(
    "merge",
    short="Join the ranks of one run into one recording.",
    examples=(
        ("Two nodes' halves of a run", "stallscope merge node0/run node1/run -o whole"),
        ("Then see who waited for whom", "stallscope summary whole"),
    ),
)
@click.argument("sources", metavar="RECORDING|TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_folder_option
def command(sources: tuple[Path, ...], output: Path, force: bool) -> None:
    """Join recordings that hold different ranks of one run.

    Each rank may be in one of them only. The originals stay as they are.
    """
    from .rendering.numbers import plural
    from .rendering.page import note
    from .transfer.merged import merge_recordings

    if len(sources) < 2:
        raise UsageError("merge joins at least two recordings.", hint="stallscope merge A B -o OUTPUT")
    ranks = merge_recordings([opened((path,)) for path in sources], sources, output, force=force)
    note(f"{output}: {plural(len(ranks), 'rank')} from {plural(len(sources), 'recording')}.")
