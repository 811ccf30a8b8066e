"""The page of ``stallscope coverage --compare``: newly broken first, then newly supported, then what changed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .coverage_page import markdown_text
from .rendering.numbers import duration, plural
from .rendering.text import name, printable

if TYPE_CHECKING:
    from ..analysis.coverage_comparison import Change, CoverageComparison
    from .rendering.page import Page

_WIDEST = 70


def print_comparison(out: Page, found: CoverageComparison) -> None:
    """Prints the page."""
    from .rendering.tables import name_column, print_table

    out.print(verdict(found))
    for what, base, new in found.environment:
        out.print(printable(f"  {what}: {base or 'none'} -> {new or 'none'}"))
    for title, note, changes in _sections(found):
        out.heading(title, note)
        columns = [name_column(heading) for heading in ("model", "what", "base", "new")]
        print_table(out, columns, [_cells(change) for change in changes])
    for line in _names(found):
        out.print()
        out.print(line)


def comparison_markdown(found: CoverageComparison) -> str:
    """The page as Markdown."""
    lines = [f"**{markdown_text(verdict(found))}**", ""]
    lines += [markdown_text(f"{what}: {base or 'none'} -> {new or 'none'}") for what, base, new in found.environment]
    for title, note, changes in _sections(found):
        lines += ["", f"### {title}", *([note, ""] if note else [""]), "| model | what | base | new |"]
        lines.append("| --- | --- | --- | --- |")
        lines += [f"| {' | '.join(markdown_text(cell) for cell in _cells(change))} |" for change in changes]
    lines += ["", *(markdown_text(line) for line in _names(found))]
    return "\n".join(lines).rstrip()


def verdict(found: CoverageComparison) -> str:
    """The first line."""
    parts = [
        f"{len(found.newly_broken)} newly broken",
        f"{len(found.newly_supported)} newly supported",
        plural(len(found.changed), "other change"),
        f"{plural(len(found.unchanged), 'model')} as before",
    ]
    return f"{', '.join(parts)}."


def _sections(found: CoverageComparison) -> Iterator[tuple[str, str, tuple[Change, ...]]]:
    times = any(change.unit == "ns" for change in found.changed)
    note = "times differ between these two runs; two single runs do not tell why" if times else ""
    for title, said, changes in (
        ("Newly broken", "", found.newly_broken),
        ("Newly supported", "", found.newly_supported),
        ("Changed", note, found.changed),
    ):
        if changes:
            yield title, said, changes


def _cells(change: Change) -> tuple[str, str, str, str]:
    what = f"{change.what} ({change.direction})" if change.direction and change.unit else change.what
    return name(change.model, _WIDEST), name(what, _WIDEST), _value(change, change.base), _value(change, change.new)


def _value(change: Change, value: str | int | None) -> str:
    return duration(int(value)) if change.unit == "ns" and value is not None else name(str(value), _WIDEST)


def _names(found: CoverageComparison) -> Iterator[str]:
    for title, names in (("As before", found.unchanged), ("Only in new", found.added), ("Only in base", found.removed)):
        if names:
            yield printable(f"{title}: {', '.join(names)}")
