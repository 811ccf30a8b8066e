"""The terminal: how wide, which characters, whether colour. Everything a command prints goes through a ``Page``.

stdout carries data; talk (progress, notes) goes to stderr. Without a terminal there is no escape sequence and the
width is 100 columns; NO_COLOR is respected by rich itself.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

PLAIN_WIDTH = 100
"""Where no terminal says how wide it is: a pipe, a file, a CI log."""
NARROWEST = 60


@dataclass(frozen=True, slots=True)
class Page:
    """Where a command prints.

    Attributes:
        console: The rich console; markup, highlighting and emoji codes are off.
        width: Columns that a line may use.
        unicode: Whether the encoding can show blocks and lines.
    """

    console: Console
    width: int
    unicode: bool

    def print(self, item: RenderableType = "") -> None:
        """Prints one item and ends the line; a text is never wrapped or read as markup."""
        if isinstance(item, str):
            from rich.text import Text

            item = Text(item)
        self.console.print(item, soft_wrap=not _is_table(item))

    def heading(self, title: str, note: str = "") -> None:
        """An empty line, then the title of a section with a quieter note behind it."""
        from rich.text import Text

        self.print()
        self.print(Text.assemble((title, "bold"), (f"  {note}" if note else "", "dim")))


def _is_table(item: Any) -> bool:
    from rich.table import Table

    return isinstance(item, Table)


def page(stream: IO[str] | None = None) -> Page:
    """The page on stdout, or on another stream."""
    from rich.console import Console

    file = stream or sys.stdout
    terminal = is_terminal(file)
    unicode = "utf" in (getattr(file, "encoding", None) or "ascii").lower()
    width = max(NARROWEST, _terminal_width(file)) if terminal else PLAIN_WIDTH
    console = Console(
        file=file,
        width=width,
        force_terminal=terminal,
        color_system="auto" if terminal else None,
        no_color=bool(os.environ.get("NO_COLOR")) or not terminal,
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    return Page(console, width, unicode)


def is_terminal(stream: IO[str]) -> bool:
    """Whether somebody is looking at the stream."""
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def _terminal_width(file: IO[str]) -> int:
    try:
        return os.get_terminal_size(file.fileno()).columns or PLAIN_WIDTH
    except (OSError, ValueError):
        return PLAIN_WIDTH


def note(text: str) -> None:
    """One line of talk, on stderr."""
    import click

    from .text import printable_lines

    click.echo(printable_lines(text), err=True)
