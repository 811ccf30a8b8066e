"""Commands whose analysis looks at one rank at a time: which ranks to ask, how to sort, how to print."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ..profiler.recording.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

    from ..profiler.recording.reader import Recording
    from .opening import Scope
    from .rendering.frames import Field
    from .rendering.page import Page

F = TypeVar("F", bound=Callable[..., Any])
Build = Callable[[int], "pd.DataFrame"]


@dataclass(frozen=True, slots=True)
class Ordering:
    """How the rows are sorted: by a column, largest first; as the analysis returns them where there is none."""

    column: str | None

    def sorted(self, frame: pd.DataFrame) -> pd.DataFrame:
        """The frame in that order.

        Raises:
            UsageError: It has no such column.
        """
        if self.column is None:
            return frame
        if self.column not in frame.columns:
            from .main import unknown_word

            raise UsageError(unknown_word("column", self.column, [str(name) for name in frame.columns]))
        text = not hasattr(frame[self.column].dtype, "kind") or frame[self.column].dtype.kind not in "iufb"
        attributes = frame.attrs
        frame = frame.sort_values(self.column, ascending=text, kind="stable", na_position="last")
        frame.attrs = attributes
        return frame


def sort_option(function: F) -> F:
    """``--sort``: by any column of the JSON output."""
    return click.option("--sort", metavar="COLUMN", help="Sort by this key of the --json output, largest first.")(
        function
    )


def print_rank_json(key: str, scope: Scope, build: Build, ordering: Ordering) -> None:
    """Prints ``{key: rows of all chosen ranks, "selection": {rank: what they are about}}``."""
    from .rendering.frames import records
    from .rendering.json_output import print_json

    rows, selection = [], {}
    for rank in scope.ranks:
        frame = ordering.sorted(build(rank))
        rows += [{"rank": rank, **row} for row in records(frame)]
        selection[str(rank)] = frame.attrs.get("selection")
    print_json({"selection": selection, key: rows})


def print_rank_tables(
    page: Page,
    recording: Recording,
    scope: Scope,
    chosen: Sequence[int] | None,
    build: Build,
    ordering: Ordering,
    fields: Callable[[pd.DataFrame], Sequence[Field]],
    limit: int,
    empty: str,
) -> None:
    """Prints a table for each rank that the user chose; for the first where they chose none.

    Args:
        page: Where to.
        recording: The recording.
        scope: What was asked for.
        chosen: The ranks that the user named, None for none.
        build: The frame of a rank.
        ordering: How to sort it.
        fields: Its columns on the page.
        limit: Rows of each table; 0 for all.
        empty: What to say where a rank has no rows.
    """
    from .rendering.frames import print_frame
    from .rendering.page import note

    ranks = scope.ranks if chosen else scope.ranks[:1]
    for index, rank in enumerate(ranks):
        frame = ordering.sorted(build(rank))
        if index:
            page.print()
        heading = str(frame.attrs.get("selection") or "")
        page.print(f"rank {rank}: {heading}" if len(recording.ranks) > 1 else heading)
        if len(frame):
            print_frame(page, frame, fields(frame), limit=limit)
        else:
            note(empty)
    if not chosen and len(scope.ranks) > 1:
        note(f"This is rank {ranks[0]} of {len(scope.ranks)}: --rank chooses others, --rank 0-7 several.")
