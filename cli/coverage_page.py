"""The page of ``stallscope coverage``: the verdict, one row a model, and what stands behind the figures."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .rendering.numbers import ABSENT, count, duration, plural, size
from .rendering.text import name, printable, source_line

if TYPE_CHECKING:
    from ..analysis.coverage import Coverage, ModelRow
    from ..analysis.coverage_results import RunResult
    from .rendering.page import Page
    from .rendering.tables import Cell

OUTCOME_WORDS = {"completed": "runs", "failed": "FAILS", "crashed": "CRASHES", "hung": "HANGS"}
_SHOWN = 5
_UNSTEADY = 1.5
"""Where the slowest block of steps takes this many times as long as the fastest, the page says so."""

Fact = tuple[str, str | None, int | None]
"""A sentence, and the file and line that it is about."""


def print_coverage(out: Page, found: Coverage) -> None:
    """Prints the page."""
    from .rendering.tables import Cell, Column, name_column, number_column, print_table

    for line in textwrap.wrap(verdict(found), out.width):
        out.print(line)
    out.heading("What works", "error: the largest relative error to the CPU's outputs, loss and gradients")
    columns = [
        name_column("model"), Column("eager"), Column("compiled"), number_column("fallback"),
        number_column("breaks"), number_column("recompiled"), number_column("error"),
        number_column("host mem"), number_column("device mem"),
    ]  # fmt: skip
    works: list[list[str | Cell]] = []
    for row in found.rows:
        cells: list[str | Cell] = list(_works(row))
        for place, run in ((1, row.eager), (2, row.compiled)):
            if run is not None and run.outcome != "completed":
                cells[place] = Cell(str(cells[place]), "bold red")
        works.append(cells)
    print_table(out, columns, works)
    out.heading("How fast", "cold, warm: torch.compile, all steps; the rest is eager unless it says compiled")
    titles = ("first step", "cold", "warm", "eager step", "compiled step", "a second")
    print_table(
        out, [name_column("model"), *(number_column(title) for title in titles)], [_speeds(row) for row in found.rows]
    )
    if any(row_details(row) for row in found.rows):
        out.heading("Why")
    for row in found.rows:
        for who, facts in row_details(row):
            out.print(who)
            for fact in facts:
                for told in _fact_lines(fact, out.width):
                    out.print(told)


def verdict(found: Coverage) -> str:
    """The first line: how many models run, compile, fall back and agree."""
    counts = found.counts
    where = " ".join(part for part in (found.device, f"({found.device_name})" if found.device_name else "") if part)
    parts = [f"{counts['eager']} of {plural(counts['models'], 'model')} {_verb('run', counts['eager'])}"]
    if counts["compile_asked"]:
        parts.append(f"{counts['compiled']} {_verb('compile', counts['compiled'])} ({found.backend})")
    reference = "it"
    if found.device.partition(":")[0] == "cpu":
        reference = "eager"
    else:
        parts.append(f"{counts['with_fallbacks']} {_verb('fall', counts['with_fallbacks'])} back to the CPU")
    if counts["differ"]:
        of = counts["agree"] + counts["differ"]
        parts.append(f"{counts['differ']} of {of} {_verb('differ', counts['differ'])} from {reference}")
    elif counts["agree"]:
        parts.append(f"{counts['agree']} {_verb('agree', counts['agree'])} with {reference}")
    return printable(f"{f'On {where}: ' if where else ''}{', '.join(parts)}.")


def _verb(verb: str, number: int) -> str:
    return f"{verb}s" if number == 1 else verb


def _works(row: ModelRow) -> list[str]:
    runs = [run for run in (row.eager, row.compiled) if run is not None]
    noted = row.eager if row.is_script else row.compiled
    host = [run.peak_rss_bytes for run in runs if run.peak_rss_bytes is not None]
    device = [run.peak_device_bytes for run in runs if run.peak_device_bytes is not None]
    seen = any(run.fallbacks if run.outcome != "completed" else run.fallbacks is not None for run in runs)
    return [
        name(row.name, 40),
        _outcome(row.eager),
        _outcome(row.compiled),
        plural(len(row.fallback_ops), "op") if seen else ABSENT,
        count(_times(noted.graph_breaks)) if noted is not None else ABSENT,
        count(_times(noted.recompiles)) if noted is not None else ABSENT,
        _error(row),
        size(max(host, default=None)),
        size(max(device, default=None)),
    ]


def _times(notes: Sequence[dict[str, object]]) -> int:
    return sum(int(str(one["count"])) for one in notes)


def _outcome(run: RunResult | None) -> str:
    return ABSENT if run is None else OUTCOME_WORDS[run.outcome]


def _error(row: ModelRow) -> str:
    """The largest relative error, with the word where it is too large."""
    if row.agrees is None:
        return ABSENT
    told = "not finite" if row.largest_error is None else f"{row.largest_error:.1e}" if row.largest_error else "0"
    return told if row.agrees else f"{told} DIFFERS"


def _speeds(row: ModelRow) -> list[str]:
    eager, compiled, warm = row.eager, row.compiled, row.warm
    noted = eager if row.is_script else compiled
    return [
        name(row.name, 40),
        duration(eager.first_step_ns if eager else None),
        duration((noted.compile_ns or None) if noted else None),
        duration(warm.compile_ns if warm else None),
        duration(eager.step_ns if eager else None),
        duration(compiled.step_ns if compiled else None),
        _rate(row),
    ]


def _rate(row: ModelRow) -> str:
    """Samples or tokens a second, eager."""
    from ..analysis.coverage import per_second

    for per_step, unit in ((row.tokens_per_step, "tokens"), (row.samples_per_step, "samples")):
        value = per_second(per_step, row.eager)
        if value is not None:
            return f"{value:,.0f} {unit}" if value >= 10 else f"{value:.2g} {unit}"
    return ABSENT


def row_details(row: ModelRow) -> list[tuple[str, list[Fact]]]:
    """Of each run that there is something to say of: whose it is; what did not work, fell back, compiled again."""
    runs = (("eager", row.eager), ("compiled", row.compiled), ("warm", row.warm))
    said = [(kind, list(_facts(run, kind))) for kind, run in runs if run is not None]
    who = printable(row.name)
    return [(who if row.is_script else f"{who}, {kind}", facts) for kind, facts in said if facts]


def _fact_lines(fact: Fact, width: int) -> list[str]:
    """A fact with its place behind it, or below it where both do not fit."""
    text, file, line = fact
    place = source_line(file, line, width // 2) if file else ""
    safe = printable(text)
    if len(safe) + len(place) + 4 <= width:
        return [f"  {safe}  {place}".rstrip()]
    return [f"  {name(text, width - 2)}", *([f"    {place}"] if place else [])]


def _facts(run: RunResult, kind: str) -> Iterator[Fact]:
    """What is to say of a run: text, file, line."""
    if run.outcome != "completed":
        word = {"failed": "failed", "crashed": "crashed", "hung": "hung"}[run.outcome]
        yield f"{word} in {run.stage}: {run.reason}", run.file, run.line
    if kind == "warm":
        return
    for one in (run.fallbacks or ())[:_SHOWN]:
        steps = f" in {plural(run.recorded_steps, 'step')}" if run.recorded_steps else ""
        times = f"{plural(one['count'], 'time')}{steps}, {duration(one['host_ns'])}"
        yield f"{one['op']} fell back {times}", one["file"], one["line"]
    for one in run.graph_breaks[:_SHOWN]:
        yield f"graph break ({plural(one['count'], 'time')}): {one['reason']}", one["file"], one["line"]
    for one in run.recompiles[:_SHOWN]:
        yield f"recompiled {one['function']}: {one['reason']}", one["file"], one["line"]
    for notes, what in ((run.fallbacks or (), "fallbacks"), (run.graph_breaks, "graph breaks"),
                        (run.recompiles, "recompilations")):  # fmt: skip
        if len(notes) > _SHOWN:
            yield f"{len(notes) - _SHOWN} more {what}: --json has all", None, None
    told = run.agreement
    if told and told.get("agrees") is False:
        yield _differs(told), None, None
    if run.step_note and run.outcome == "completed":
        yield f"step: {run.step_note}", None, None
    if run.step_low_ns and run.step_high_ns and run.step_high_ns > _UNSTEADY * run.step_low_ns:
        spread = f"{duration(run.step_low_ns)} to {duration(run.step_high_ns)}"
        yield f"step: unsteady, {spread}; the machine may have been busy", None, None


def _differs(told: dict[str, object]) -> str:
    errors = [f"{key} {told[key]:.1e}" for key in ("outputs", "loss", "gradients") if told.get(key) is not None]
    errors += [f"{key} not finite or of another shape" for key in _texts(told.get("not_finite"))]
    worst = f" (of {told['worst_gradient']})" if told.get("worst_gradient") else ""
    allowed = f"{told['precision']}, allowed {told['tolerance']:g}"
    return f"differs from the CPU ({allowed}): {', '.join(errors)}{worst}"


def _texts(value: object) -> list[str]:
    return [str(one) for one in value] if isinstance(value, (list, tuple)) else []


def markdown_page(found: Coverage) -> str:
    """The page as Markdown: the verdict, one table with one row a model, and the details as a list."""
    titles = [
        "model", "eager", "compiled", "CPU fallback", "graph breaks", "recompiled", "error to CPU", "host memory",
        "device memory",
        "first step", "cold compile", "warm compile", "step, eager", "step, compiled", "a second",
    ]  # fmt: skip
    lines = [f"**{markdown_text(verdict(found))}**", "", _markdown_row(titles)]
    lines.append(_markdown_row(["---", "---", "---", *["---:"] * (len(titles) - 3)]))
    lines += [_markdown_row([*_works(row), *_speeds(row)[1:]]) for row in found.rows]
    notes = [
        f"{who}: {printable(text)}" + (f" ({source_line(file, line, 200)})" if file else "")
        for row in found.rows
        for who, facts in row_details(row)
        for text, file, line in facts
    ]
    return "\n".join([*lines, *([""] if notes else []), *(f"- {markdown_text(line)}" for line in notes)])


def _markdown_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(markdown_text(cell) for cell in cells)} |"


def markdown_text(text: str) -> str:
    """A text that Markdown shows as it is, in a table cell too."""
    for character in "\\|`*_<>[]":
        text = text.replace(character, f"\\{character}")
    return text
