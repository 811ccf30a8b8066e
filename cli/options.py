"""The options that commands share, and the values they parse into."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

UNITS_NS = {"ns": 1, "us": 1_000, "µs": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
_INSTANT = re.compile(r"(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s)?")
_RANK_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_MOST_RANKS = 1 << 20


@dataclass(frozen=True, slots=True)
class Instant:
    """One end of a window: ``ns`` since the recording's start, or on the recording's own clock if ``absolute``."""

    ns: int
    absolute: bool

    def on_clock(self, origin_ns: int) -> int:
        """The instant on the recording's clock, whose recording starts at ``origin_ns``."""
        return self.ns if self.absolute else origin_ns + self.ns


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open window as the user wrote it; an end that is left out is the recording's own."""

    start: Instant | None
    end: Instant | None

    def on_clock(self, origin_ns: int, end_ns: int) -> tuple[int, int]:
        """The window in ns on the recording's clock.

        Args:
            origin_ns: The recording's start.
            end_ns: Its end.

        Raises:
            click.BadParameter: The window is empty or holds no instant of the recording.
        """
        start = self.start.on_clock(origin_ns) if self.start else origin_ns
        end = self.end.on_clock(origin_ns) if self.end else end_ns
        if end <= start:
            raise click.BadParameter("the window ends before it starts.", param_hint="--window")
        if end <= origin_ns or start >= end_ns:
            length = Decimal(end_ns - origin_ns) / 1_000_000
            raise click.BadParameter(
                f"the window lies outside the recording, which is {length:.3f} ms long.", param_hint="--window"
            )
        return start, end


def parse_instant(text: str) -> Instant | None:
    """One end of a window, exact to the nanosecond; None for an empty text, ValueError for any other nonsense."""
    if not text.strip():
        return None
    found = _INSTANT.fullmatch(text.strip())
    if not found:
        raise ValueError(f"'{text}' is not a time such as 12.5ms, 3s or 170000000000 (ns on the recording's clock)")
    number, unit = found.groups()
    ns = Decimal(number) * UNITS_NS[unit or "ns"]
    if ns != ns.to_integral_value():
        raise ValueError(f"'{text}' is finer than a nanosecond")
    return Instant(int(ns), absolute=unit is None)


class WindowType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """START:END, each a time with a unit (since the recording's start) or bare ns on its clock; either may be empty."""

    name = "START:END"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Window:
        """Parses; a window that cannot be one is a usage error."""
        if isinstance(value, Window):
            return value
        start, colon, end = str(value).partition(":")
        if not colon:
            self.fail(f"'{value}' has no colon; write START:END, for example 10ms:20ms or :1s.", param, ctx)
        try:
            return Window(parse_instant(start), parse_instant(end))
        except ValueError as error:
            self.fail(f"{error}.", param, ctx)


class RanksType(click.ParamType):  # type: ignore[type-arg]
    """One rank, or several as 0,2,5-7."""

    name = "RANKS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        """The ranks in rising order, each once."""
        if isinstance(value, tuple):
            return value
        ranks: set[int] = set()
        for part in str(value).split(","):
            found = _RANK_RANGE.fullmatch(part.strip())
            if not found:
                self.fail(f"'{value}' is not a rank, a list 0,2,5 or a range 0-7.", param, ctx)
            first, last = int(found[1]), int(found[2] or found[1])
            if last < first or last - first > _MOST_RANKS:
                self.fail(f"'{part.strip()}' is not a range of ranks.", param, ctx)
            ranks.update(range(first, last + 1))
        return tuple(sorted(ranks))


def sources_argument(function: F) -> F:
    """One recording, or one trace, or several trace files or folders of one job."""
    return click.argument(
        "sources", metavar="RECORDING|TRACE...", nargs=-1, required=True, type=click.Path(path_type=Path)
    )(function)


def ranks_option(function: F) -> F:
    """``--rank``: which ranks; all by default."""
    return click.option("--rank", "ranks", type=RanksType(), help="Only these ranks: 3, or 0,2,5-7.  [default: all]")(
        function
    )


def step_option(function: F) -> F:
    """``--step``: one step by its number in the trace."""
    return click.option("--step", type=int, metavar="N", help="Only this step, by the number that `steps` lists.")(
        function
    )


def window_option(function: F) -> F:
    """``--window``: a part of the recording by time."""
    return click.option(
        "--window",
        type=WindowType(),
        help="Only this time: 10ms:20ms since the recording's start (ns, us, ms, s), or bare ns on its clock.",
    )(function)


def scope_options(function: F) -> F:
    """``--rank``, ``--step`` and ``--window``."""
    return ranks_option(step_option(window_option(function)))


def json_option(function: F) -> F:
    """``--json``: the documented keys, times in exact ns."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON (docs/cli.md): exact ns, stable keys.")(
        function
    )


def limit_option(default: int) -> Callable[[F], F]:
    """``--limit``: how many rows a table shows; 0 is all of them."""

    def decorate(function: F) -> F:
        return click.option(
            "-n",
            "--limit",
            type=click.IntRange(min=0),
            default=default,
            show_default=True,
            help="Rows to show; 0 for all.",
        )(function)

    return decorate


def output_folder_option(function: F) -> F:
    """``-o``: the recording to write, which must not exist yet unless ``--force`` is given."""
    function = click.option("--force", is_flag=True, help="Replace what is at OUTPUT, if it is a recording.")(function)
    return click.option(
        "-o", "--output", required=True, type=click.Path(path_type=Path), help="The folder to write the recording to."
    )(function)


def debug_option() -> click.Option:
    """``--debug`` after the command's name, too."""

    def remember(ctx: click.Context, _param: click.Parameter, value: bool) -> None:
        root = ctx.find_root()
        if value and isinstance(root.obj, dict):
            root.obj["debug"] = True

    return click.Option(
        ["--debug"], is_flag=True, expose_value=False, callback=remember, help="Show the traceback of an error."
    )
