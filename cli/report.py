"""``stallscope report``: a recording as one HTML file to send to somebody."""

from __future__ import annotations

from pathlib import Path

import click

from .command import described
from .options import sources_argument


@described(
    "report",
    short="One self-contained HTML file to send to somebody.",
    examples=(
        ("A report of a trace", "stallscope report trace.json.gz -o report.html"),
        ("With the text of the user's files, as recorded", "stallscope report runs/today -o report.html --with-source"),
    ),
)
@sources_argument
@click.option("-o", "--output", required=True, type=click.Path(path_type=Path), help="The HTML file to write.")
@click.option(
    "--rank",
    type=click.IntRange(min=0),
    help="Whose step, memory and source are shown.  [default: the rank of the first finding]",
)
@click.option("--with-source", is_flag=True, help="Put the text of the user's files into it, if it was recorded.")
@click.option("--force", is_flag=True, help="Overwrite OUTPUT.")
def command(sources: tuple[Path, ...], output: Path, rank: int | None, with_source: bool, force: bool) -> None:
    """Write what a recording says into one HTML file: findings, steps, stalls, memory, a typical step.

    The file holds no script and loads nothing, so it can be opened anywhere. Source text is only in
    it with --with-source; names of files, functions and kernels always are.
    """
    from ..ui.report.page import report
    from .opening import opened, source_name
    from .output import must_be_free, written_whole

    must_be_free(output, force=force)
    recording = opened(sources)
    label = str(recording.info.get("label") or source_name(sources))
    text = report(recording, label, rank=rank, with_source=with_source)
    with written_whole(output) as temporary:
        temporary.write_text(text, encoding="utf-8")
    click.echo(f"Wrote {output}, {len(text) / 1024:,.0f} KiB.", err=True)
