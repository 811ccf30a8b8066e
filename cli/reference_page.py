"""Writes docs/cli.md from the commands: ``python -m stallscope.cli.reference_page [--check] [FILE]``."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from .command import CommandWithExamples
from .main import SECTIONS, main

DEFAULT_FILE = Path("docs/cli.md")

_HEAD = """\
# Command line

*Generated from cli/ by `python -m stallscope.cli.reference_page`; edit it there.*

    stallscope [--debug] COMMAND [OPTIONS] RECORDING|TRACE...

## What all commands share

- They read a recording's folder, or a torch.profiler trace: a `.json` or `.json.gz` file, several files, or a folder of
  them, taken as the ranks of one job. A trace is imported into a cache (`$XDG_CACHE_HOME/stallscope`) the first time.
- Results go to stdout, everything else to stderr. Where stdout is no terminal there are no escape sequences and lines
  are at most 100 columns wide; `NO_COLOR` turns colours off in a terminal, too. Names from traces are printed with
  control characters escaped.
- Exit codes: 0 done; 1 a bad file or a failed check; 2 a call that cannot be right; 3, of `gate` alone, it
  cannot be told. An error is one message, without a traceback unless `--debug` is given.
- `--window START:END`: each end is a time since the recording's start with a unit (`ns`, `us`, `ms`, `s`), or a bare
  number of ns on the recording's clock; an end that is left out is the recording's own.
- `--rank`: one rank, or several as `0,2,5-7`.
- `--json` prints one document. Its keys, listed below, keep their names and meanings; new ones may be added. `ts` and
  `dur` are exact integers in ns, any other number ends in its unit (`_ns`, `_bytes`), a share ends in `_frac` (0 to 1),
  and null is unknown.
"""


def page() -> str:
    """The whole page, as Markdown."""
    parts = [_HEAD]
    for section, commands in SECTIONS.items():
        parts.append(f"## {section}\n")
        for name in commands:
            command = main.get_command(click.Context(main), name)
            assert isinstance(command, CommandWithExamples)
            parts.append(_command(command))
    return "\n".join(parts)


def _command(command: CommandWithExamples) -> str:
    """The part about one command."""
    context = click.Context(command, info_name=f"stallscope {command.name}")
    lines = [f"### {command.name}", "", f"    {context.command_path} {_usage(command, context)}", ""]
    lines += [inspect.cleandoc(command.help or ""), ""]
    lines += [f"- {_option(option)}" for option in command.params if isinstance(option, click.Option)]
    if command.output_keys:
        lines += ["", "With `--json`:", ""]
        lines += [f"- `{key}`: {meaning}" for key, meaning in command.output_keys.items()]
    lines += ["", "```sh"]
    for purpose, line in command.examples:
        lines += [f"# {purpose}", line]
    lines += ["```", ""]
    return "\n".join(lines)


def _usage(command: click.Command, context: click.Context) -> str:
    return " ".join(command.collect_usage_pieces(context))


def _option(option: click.Option) -> str:
    """An option with its values and what it does, on one line."""
    words = ", ".join(f"`{name}`" for name in option.opts)
    value = "" if option.is_flag else f" {_value(option)}"
    text = f"{words}{value}: {option.help or ''}"
    if option.show_default and option.default is not None:
        text += f" [default: {option.default}]"
    return text


def _value(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return f"`{'|'.join(map(str, option.type.choices))}`"
    return option.metavar or option.type.name.upper().removesuffix(" RANGE")


def write(arguments: Sequence[str] | None = None) -> int:
    """Writes the page, or with ``--check`` says whether it is current; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the page is out of date")
    parser.add_argument("file", nargs="?", type=Path, default=DEFAULT_FILE)
    chosen = parser.parse_args(arguments)
    wanted = page()
    if not chosen.check:
        chosen.file.write_text(wanted, encoding="utf-8")
        return 0
    if chosen.file.exists() and chosen.file.read_text(encoding="utf-8") == wanted:
        return 0
    click.echo(f"{chosen.file} is out of date: run python -m stallscope.cli.reference_page", err=True)
    return 1


if __name__ == "__main__":
    sys.exit(write())
