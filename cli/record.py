"""``stallscope record``: runs a training script and records it, without a change to the script."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command import described

if TYPE_CHECKING:
    from ..profiler.session.session import Session

_OWN_WORDS = {"help_option_names": ["-h", "--help"], "ignore_unknown_options": False, "allow_interspersed_args": False}


@described(
    "record",
    examples=(
        ("A script, with its own arguments", "stallscope record -o runs/today train.py --lr 3e-4"),
        ("A module, as with python -m", "stallscope record -m my_project.train"),
        (
            "Every rank of a job into one recording",
            "torchrun --nproc-per-node 8 -m stallscope record -o runs/eight train.py",
        ),
        ("Only steps 10 to 14 of a long run", "stallscope record --schedule 9,1,5,1 train.py"),
        ("A server without an optimizer", "stallscope record --step-by handle_request serve.py"),
    ),
)
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="The recording's folder.  [default: runs/NAME-TIME]"
)
@click.option("-m", "as_module", is_flag=True, help="PROGRAM is a module, as with python -m.")
@click.option("--label", help="What to call the run.")
@click.option(
    "--detail", type=click.Choice(["always", "low", "normal", "deep"]), help="How much to record.  [default: normal]"
)
@click.option("--schedule", metavar="WAIT,WARM_UP,ACTIVE[,REPEAT]", help="Which steps to record.  [default: all]")
@click.option("--step-by", metavar="NAME", help="A step ends with the record_function range of this name.")
@click.option("--collectors", metavar="NAMES", help="Only these collectors; with a minus in front, all but these.")
@click.option("--max-bytes", metavar="SIZE", help="Stop recording at this size per rank, such as 2G.")
@click.option("--force", is_flag=True, help="Replace the recording of another run that is at OUTPUT.")
@click.option("--quiet", is_flag=True, help="Print nothing of our own when the program has ended.")
@click.argument("program", metavar="PROGRAM [ARGS]...", nargs=-1, required=True, type=click.UNPROCESSED)
def command(
    output: Path | None,
    as_module: bool,
    label: str | None,
    force: bool,
    quiet: bool,
    program: tuple[str, ...],
    **settings: Any,
) -> None:
    """Run a training script and record it.

    The script sees its own arguments and its exit code is the command's. Its output is untouched;
    what we have to say goes to stderr, after it. Steps come from prof.step() if the script uses
    stallscope itself, else from its optimizers.
    """
    from ..profiler.session.program import load_module, load_script
    from ..profiler.session.recorded_program import default_folder, record_program
    from ..profiler.session.settings import resolve_settings

    resolved = resolve_settings(settings)
    folder = output or default_folder(program[0].rpartition(".")[2] if as_module else program[0])
    load = load_module if as_module else load_script
    code, module = load(program[0], list(program[1:]))
    record_program(
        code, module, folder, resolved, label=label, force=force,
        recorded=None if quiet or os.environ.get("RANK", "0") != "0" else _tell,
    )  # fmt: skip


command.context_settings = _OWN_WORDS


def _tell(session: Session) -> None:
    """Says on stderr what was recorded, what it cost, and what to do next."""
    from .rendering.numbers import duration, plural
    from .rendering.page import note

    told = f"{session.path}: {plural(session.steps_seen, 'step')} recorded"
    if session.paused_ns:
        told += f", {duration(session.paused_ns)} of them spent exporting and left out of the steps"
    note(f"{told}.")
    note(f"stallscope summary {session.path}")
