"""A click command that carries examples, shown in its help and in docs/cli.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from .options import debug_option


class CommandWithExamples(click.Command):
    """A command with examples: (what it is for, the command line).

    Attributes:
        examples: Shown at the end of the help.
        output_keys: The keys of ``--json`` with their meaning, for docs/cli.md; empty where there is no ``--json``.
    """

    examples: tuple[tuple[str, str], ...] = ()
    output_keys: dict[str, str] = {}  # noqa: RUF012 - replaced as a whole by ``described``, never changed

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the examples, each under the sentence that it answers."""
        if not self.examples:
            return
        with formatter.section("Examples"):
            for purpose, line in self.examples:
                formatter.write(f"{'':>{formatter.current_indent}}# {purpose}\n")
                formatter.write(f"{'':>{formatter.current_indent}}{line}\n")


def described(
    name: str,
    *,
    examples: tuple[tuple[str, str], ...],
    short: str | None = None,
    output_keys: dict[str, str] | None = None,
) -> Callable[[Callable[..., Any]], CommandWithExamples]:
    """Makes a function a command of the group: its docstring is the help, and it takes ``--debug``.

    Args:
        name: The command's name.
        examples: (what it is for, the command line).
        short: Its line in the list of commands; None: the first sentence of the docstring.
        output_keys: The keys of ``--json`` with their meaning.
    """

    def decorate(function: Callable[..., Any]) -> CommandWithExamples:
        made = click.command(name, cls=CommandWithExamples, short_help=short)(function)
        made.params.append(debug_option())
        made.examples = examples
        made.output_keys = output_keys or {}
        return made

    return decorate
