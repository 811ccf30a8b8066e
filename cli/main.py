"""The entry point: one group of commands, each loaded when it is named, and the one place that prints an error.

Exit codes: 0 done, 1 a bad file or a failed check, 2 a call that cannot be right. Data goes to stdout, talk to stderr.
"""

from __future__ import annotations

import difflib
import errno
import sys
import traceback
from importlib import import_module
from typing import Any

import click

from ..profiler.recording.errors import StallscopeError

SECTIONS: dict[str, dict[str, str]] = {
    "Record": {"record": "record"},
    "Explain": {
        "summary": "summary",
        "steps": "steps",
        "stalls": "stalls",
        "why": "why",
        "ops": "ops",
        "kernels": "kernels",
        "memory": "memory",
        "source": "source",
        "collectives": "collectives",
    },
    "Compare": {"compare": "compare", "gate": "gate", "history": "history", "coverage": "coverage"},
    "Recordings": {
        "import": "import_",
        "info": "info",
        "query": "query",
        "export": "export",
        "trim": "trim",
        "merge": "merge",
        "redact": "redact",
    },
    "Browser": {"ui": "ui", "report": "report"},
    "This machine": {"doctor": "doctor"},
}
"""The commands as the help lists them: name -> module beside this one, which holds it as ``command``."""

_MODULES = {name: module for section in SECTIONS.values() for name, module in section.items()}


class ReportedError(click.ClickException):
    """An error as the user sees it: one message, at most one thing to do, the exit code of its class."""

    def __init__(self, message: str, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # a class variable in newer versions of click

    def show(self, file: Any = None) -> None:
        """Prints to stderr. Names in the message come from traces, so control characters are escaped."""
        from .rendering.text import printable_lines

        click.echo(f"stallscope: {printable_lines(self.message)}", err=True)
        if self.hint:
            click.echo(f"  {printable_lines(self.hint)}", err=True)


class CommandGroup(click.Group):
    """A group that imports a command's module when the command is needed, and reports errors without a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, in the order of the help."""
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now; None if there is none."""
        if cmd_name not in _MODULES:
            return None
        command: click.Command = import_module(f".{_MODULES[cmd_name]}", __package__).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command that the first argument names; an unknown one fails with the nearest names there are."""
        if args and not args[0].startswith("-") and args[0] not in _MODULES:
            ctx.fail(unknown_word("command", args[0], list(_MODULES)))
        if args[:1] != ["record"]:  # there, stdout is the recorded program's
            _escape_what_stdout_cannot_hold()
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the commands in their sections."""
        for section, commands in SECTIONS.items():
            rows = []
            for name in commands:
                command = self.get_command(ctx, name)
                rows.append((name, command.get_short_help_str(limit=78) if command else ""))
            with formatter.section(section):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command; what goes wrong becomes a ``ReportedError``, with the traceback first under --debug."""
        try:
            return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, KeyboardInterrupt, SystemExit):
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise  # the reader of a pipe left; click ends quietly
            if ctx.obj["debug"]:
                traceback.print_exc()
            raise _reported(error) from error


def _reported(error: Exception) -> ReportedError:
    if isinstance(error, StallscopeError):
        return ReportedError(error.message, error.hint, error.exit_code)
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return ReportedError(f"{where}{error.strerror or error}")
    if isinstance(error, MemoryError):
        return ReportedError("out of memory", "Choose one --rank, or a shorter --window.")
    return ReportedError(
        f"internal error: {type(error).__name__}: {error}",
        "This is a defect of stallscope: please report it with what `stallscope --debug ...` prints.",
    )


def unknown_word(kind: str, word: str, known: list[str]) -> str:
    """Says that there is no such command or column, with up to three near names, else all of them."""
    from .rendering.text import printable

    near = difflib.get_close_matches(word, known, n=3, cutoff=0.55) or [k for k in known if k.startswith(word[:3])][:3]
    tail = f"Did you mean {' or '.join(near)}?" if near else f"There are {', '.join(known)}."
    return f"no {kind} named '{printable(word)}'. {tail}"


def _escape_what_stdout_cannot_hold() -> None:
    """A name with a character that the terminal's encoding lacks is escaped rather than ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


@click.group(
    cls=CommandGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with `stallscope summary TRACE`. `stallscope COMMAND --help` has examples.",
)
@click.version_option(package_name="stallscope", prog_name="stallscope")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def main(ctx: click.Context, debug: bool) -> None:
    """Say where the time of a PyTorch step goes, what the device waited for, and on which line.

    Every command reads a recording, or a torch.profiler trace (a .json or .json.gz file, several
    files, or a folder of them); a trace is imported into a cache the first time.
    """
    ctx.obj = {"debug": debug}
