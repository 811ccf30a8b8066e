"""``stallscope import``: another tool's traces become a recording in a folder of the user's choice."""

from __future__ import annotations

from pathlib import Path

import click

from .command import described
from .options import output_folder_option


@described(
    "import",
    short="Write traces of another tool as a recording.",
    examples=(
        ("One trace", "stallscope import trace.json.gz -o runs/today"),
        ("The traces of eight ranks as one recording", "stallscope import traces/rank*.json.gz -o runs/eight"),
        ("A folder of traces", "stallscope import tb_logs/ -o runs/today --label 'batch 64'"),
    ),
)
@click.argument("traces", metavar="TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@output_folder_option
@click.option("--label", help="What to call the recording.  [default: the file's name]")
def command(traces: tuple[Path, ...], output: Path, force: bool, label: str | None) -> None:
    """Write the traces of another tool as a recording.

    Not needed before the other commands, which import a trace into a cache by themselves: use it to
    keep, share or query the result. Several files are the ranks of one job.
    """
    from ..profiler.recording.foreign import import_into
    from ..profiler.recording.reader import open_recording
    from .opening import existing, progress_line
    from .rendering.numbers import count, plural
    from .rendering.page import note

    with progress_line() as progress:
        import_into(existing(traces), output, label=label, force=force, progress=progress)
    recording = open_recording(output)
    slices = recording.table("slices", columns=["ts"]).num_rows
    losses = recording.table("losses", columns=["severity"])["severity"].to_pylist()
    note(f"{output}: {plural(len(recording.ranks), 'rank')}, {count(slices)} slices.")
    lost = sum(severity != "info" for severity in losses)
    if lost:
        note(f"{plural(lost, 'kind')} of loss or repair: stallscope info {output} lists them.")
