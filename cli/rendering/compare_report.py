"""A comparison as a report: which tables it has, in which order, and how a difference reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import numbers
from .report import Report, ReportCell, Section, Tone
from .tables import Column, name_column, number_column
from .text import path_end

if TYPE_CHECKING:
    from ...analysis.compare import Compared, RankDifference, RunLine
    from ...analysis.compare_metrics import MetricDifference
    from ...analysis.compare_work import WorkDifference

SMALL_FRAC = 0.0005
"""A part whose difference is a smaller share of the mean step is left out of the tables; ``--json`` has it."""

RANKS_SHOWN = 32
FEW_BYTES = 4096


def compare_report(found: Compared, base: str, new: str, *, limit: int) -> Report:
    """The report of a comparison.

    Args:
        found: The comparison.
        base: What to call the base side.
        new: What to call the new side.
        limit: The most rows of a table; 0 for all.
    """
    warnings = [note for note in found.notes if note.startswith(("New: ", "Apples and pears"))]
    work = [_kernels(found, limit), _ops(found, limit)]
    if any(row.name == "device" and row.unlike for row in found.environment):
        work.reverse()  # another device runs other kernels: the ops are what both have
    sections = [
        _environment(found),
        _runs(found),
        _parts(found, limit),
        _places(found, limit),
        *work,
        _lines(found, limit),
        _metrics(found),
        _fallbacks(found, limit),
        _compilations(found, limit),
        _ranks(found),
        _outliers(found, limit),
    ]
    return Report(
        title=f"{base} -> {new}",
        lines=(found.headline, found.why),
        warnings=warnings,
        notes=[note for note in found.notes if note not in warnings],
        sections=[section for section in sections if section.rows],
    )


def signed(ns: int) -> str:
    """A difference in time with its sign; 0 has none."""
    return f"+{numbers.duration(ns)}" if ns > 0 else numbers.duration(ns)


def change(base: float | None, new: float | None) -> str:
    """A change in percent of base; ``-`` where base is 0 or one is not known.

    >>> [change(100, 95), change(3, 3), change(0, 4), change(1, 300), change(100_000, 100_001)]
    ['-5.0 %', '0 %', '-', 'x300', '<0.1 %']
    """
    if not base or new is None:
        return numbers.ABSENT
    if base == new:
        return "0 %"
    ratio = new / base
    if ratio >= 10:
        return f"x{ratio:,.0f}"
    percent = f"{100 * (ratio - 1):+.1f} %"
    return "<0.1 %" if percent in ("+0.0 %", "-0.0 %") else percent


def _tone(difference: float | None, scale: float) -> Tone:
    """More is worse, for all that is compared here; what is small is neither."""
    if difference is None or abs(difference) < 0.02 * abs(scale):
        return ""
    return "worse" if difference > 0 else "better"


def _cells(*texts: str | ReportCell) -> list[ReportCell]:
    return [cell if isinstance(cell, ReportCell) else ReportCell(cell) for cell in texts]


def _environment(found: Compared) -> Section:
    columns = (Column("fact"), name_column("base", 2), name_column("new", 2), Column(""))
    rows = [
        _cells(row.name, row.base, row.new, ReportCell("apples and pears", "warn") if row.unlike else row.kind)
        for row in found.environment
    ]
    return Section("What differs besides the code", "", columns, rows)


def _runs(found: Compared) -> Section:
    within = f"{found.statistic} within the run"
    titles = ("steps", "median", "mean", "p95", within)
    columns = (Column("side"), name_column("run"), *(number_column(title) for title in titles), Column("status"))
    rows = []
    for side, runs in (("base", found.base_runs), ("new", found.new_runs)):
        rows += [_run(side, run) for run in runs]
    note = "" if len(rows) == 2 else "the run is the unit: each counts once"
    return Section("Runs", note, columns, rows)


def _run(side: str, run: RunLine) -> list[ReportCell]:
    interval = numbers.ABSENT
    if run.within:
        interval = f"{numbers.duration(round(run.within.low))} .. {numbers.duration(round(run.within.high))}"
    figures = (numbers.duration(value) for value in (run.median_ns, run.mean_ns, run.p95_ns))
    status = ReportCell(run.status, "" if run.status == "completed" else "worse")
    return _cells(side, run.name, numbers.count(run.steps) if run.steps else "whole", *figures, interval, status)


def _parts(found: Compared, limit: int) -> Section:
    mean = found.mean
    columns = (
        Column("state"), Column("root cause"), number_column("base"), number_column("new"), number_column("difference"),
        number_column("of base"),
    )  # fmt: skip
    scale = max(abs(part.difference_ns) for part in found.parts) if found.parts else 0
    rows = []
    for state in found.states:
        mine = [part for part in found.parts if part.state == state.state and part.cause]
        shown = [part for part in mine if abs(part.difference_ns) >= SMALL_FRAC * max(mean.base or 0, 1)]
        for part in (state, *(shown[:limit] if limit else shown)):
            if part.base_ns or part.new_ns:
                title = state.state.replace("_", " ") if part is state else ""
                rows.append(
                    _cells(
                        title, part.cause, numbers.duration(part.base_ns), numbers.duration(part.new_ns),
                        ReportCell(signed(part.difference_ns), _tone(part.difference_ns, scale)),
                        change(part.base_ns, part.new_ns),
                    )
                )  # fmt: skip
    total = (numbers.duration(mean.base), numbers.duration(mean.new), signed(mean.difference or 0))
    rows.append(_cells("mean", "", *total, change(mean.base, mean.new)))
    rows.append(_cells("median", "", *_medians(found)))
    noun = "mean step" if found.unit == "step" else "recording"
    return Section(f"The {noun}, part by part", "the four states add up to the mean, to the nanosecond", columns, rows)


def _medians(found: Compared) -> tuple[str, ...]:
    row = found.median
    return (
        numbers.duration(row.base), numbers.duration(row.new), signed(row.difference or 0), change(row.base, row.new),
    )  # fmt: skip


def _places(found: Compared, limit: int) -> Section:
    columns = (
        number_column("difference"), number_column("base"), number_column("new"), Column("state"), Column("root cause"),
        Column("line", fit=path_end, weight=2), name_column("in"),
    )  # fmt: skip
    threshold = SMALL_FRAC * max(found.mean.base or 0, 1)
    chosen = [row for row in found.places if abs(row.difference_ns) >= threshold]
    rows = []
    for row in chosen[:limit] if limit else chosen:
        line = f"{row.file}:{row.line}" if row.file and row.line else row.file or numbers.ABSENT
        line += f" (was :{row.base_line})" if row.base_line else ""
        rows.append(
            _cells(
                ReportCell(signed(row.difference_ns), _tone(row.difference_ns, row.base_ns)),
                numbers.duration(row.base_ns), numbers.duration(row.new_ns), row.state.replace("_", " "), row.cause,
                line, row.function or numbers.ABSENT,
            )
        )  # fmt: skip
    title = "Why the device waited more or less"
    return Section(title, "each mean step, by root cause and line", columns, rows, len(chosen) - len(rows))


def _work(
    title: str,
    note: str,
    rows: Sequence[WorkDifference],
    limit: int,
    both: Callable[[WorkDifference], tuple[int, int]],
    names: tuple[Column, ...],
    cells: Callable[[WorkDifference], tuple[str, ...]],
) -> Section:
    """A table of kernels, ops or lines by one of their times, its sums last."""
    columns = (
        number_column("difference"), number_column("base"), number_column("new"), number_column("times"),
        Column("change"), *names,
    )  # fmt: skip

    def difference(row: WorkDifference) -> int:
        base, new = both(row)
        return new - base

    chosen = sorted((row for row in rows if difference(row)), key=lambda row: -abs(difference(row)))
    shown = [
        _cells(
            ReportCell(signed(difference(row)), _tone(difference(row), both(row)[0])),
            *(numbers.duration(value) for value in both(row)), _times(row), row.change, *cells(row),
        )
        for row in (chosen[:limit] if limit else chosen)
    ]  # fmt: skip
    more = len(chosen) - len(shown)
    if shown:
        base, new = (sum(both(row)[side] for row in rows) for side in (0, 1))
        total = (signed(new - base), numbers.duration(base), numbers.duration(new), "", "", "all together")
        shown.append(_cells(*total, *[""] * (len(names) - 1)))
    return Section(title, note, columns, shown, more)


def _times(row: WorkDifference) -> str:
    """How often in a step, on both sides where that differs; ``-`` where it is not counted."""
    if not row.base_count and not row.new_count:
        return numbers.ABSENT
    base, new = (f"{count:.4g}" for count in (row.base_count, row.new_count))
    return base if base == new else f"{base} -> {new}"


def _device(row: WorkDifference) -> tuple[int, int]:
    return row.base_device_ns, row.new_device_ns


def _host(row: WorkDifference) -> tuple[int, int]:
    return row.base_host_ns, row.new_host_ns


def _kernels(found: Compared, limit: int) -> Section:
    return _work(
        "Kernels", "by name and grid, device time in a mean step", found.kernels, limit, _device,
        (name_column("kernel", 2), name_column("grid, block")),
        lambda row: (row.short_name, row.detail or numbers.ABSENT),
    )  # fmt: skip


def _ops(found: Compared, limit: int) -> Section:
    if any(any(_device(row)) for row in found.ops):
        return _work(
            "Ops", "device time of what each launched itself, in a mean step", found.ops, limit, _device,
            (name_column("op"), number_column("host")), lambda row: (row.name, signed(row.host_difference_ns)),
        )  # fmt: skip
    note = "self time on the host in a mean step"
    return _work("Ops", note, found.ops, limit, _host, (name_column("op"),), lambda row: (row.name,))


def _lines(found: Compared, limit: int) -> Section:
    note = "self time on the training threads, waits included; device: what each launched"
    return _work(
        "Lines", note, found.lines, limit, _host,
        (Column("line", fit=path_end, weight=3), name_column("in"), number_column("device")),
        lambda row: (row.name or "(no line known)", row.detail or numbers.ABSENT, signed(row.device_difference_ns)),
    )  # fmt: skip


def _metrics(found: Compared) -> Section:
    columns = (
        Column("figure"), number_column("base"), number_column("new"), number_column("difference"),
        number_column("of base"), number_column("95 % interval"),
    )  # fmt: skip
    steps = {run.steps for run in (*found.base_runs, *found.new_runs)}
    rows = [_metric(row) for row in found.metrics if _worth_a_row(row, same_steps=len(steps) == 1)]
    return Section("Other figures", "the mean over a side's runs", columns, rows)


def _worth_a_row(row: MetricDifference, *, same_steps: bool) -> bool:
    """Leaves out what is nothing on both sides, a few bytes, or longer only since there are more steps."""
    if row.key == "execution_ns" and not same_steps:
        return False
    return max(row.base or 0, row.new or 0) > (FEW_BYTES if row.unit == "bytes" else 0)


_SHOWN: dict[str, Callable[[int | None], str]] = {
    "ns": numbers.duration,
    "bytes": numbers.size,
    "count": numbers.count,
}


def _metric(row: MetricDifference) -> list[ReportCell]:
    show: Callable[[int | None], str] = {"ns": numbers.duration, "bytes": numbers.size, "count": numbers.count}[
        row.unit
    ]
    difference = numbers.ABSENT
    if row.difference is not None:
        difference = f"+{show(row.difference)}" if row.difference > 0 else show(row.difference)
    interval = numbers.ABSENT
    if row.comparison and row.comparison.low is not None and row.comparison.high is not None:
        interval = f"{row.comparison.low - 1:+.1%} .. {row.comparison.high - 1:+.1%}"
    tone = _tone(row.difference, row.base or 0)
    return _cells(
        row.title, show(row.base), show(row.new), ReportCell(difference, tone), change(row.base, row.new), interval
    )


def _fallbacks(found: Compared, limit: int) -> Section:
    columns = (
        name_column("op"), number_column("base"), number_column("new"), number_column("base time"),
        number_column("new time"), Column("line", fit=path_end),
    )  # fmt: skip
    rows = [
        _cells(
            row.op if row.op == row.root_op else f"{row.op} in {row.root_op}", numbers.count(row.base_count),
            numbers.count(row.new_count), numbers.duration(row.base_ns),
            ReportCell(numbers.duration(row.new_ns), _tone(row.new_ns - row.base_ns, row.base_ns)),
            f"{row.file}:{row.line}" if row.file else numbers.ABSENT,
        )
        for row in (found.fallbacks[:limit] if limit else found.fallbacks)
    ]  # fmt: skip
    return Section("Ops that fell back to the CPU", "in a whole run", columns, rows, len(found.fallbacks) - len(rows))


def _compilations(found: Compared, limit: int) -> Section:
    columns = (
        Column("what"), name_column("name"), number_column("base"), number_column("new"),
        Column("line", fit=path_end), name_column("reason", 2),
    )  # fmt: skip
    rows = [
        _cells(
            row.kind, row.name if row.name != row.kind else numbers.ABSENT, numbers.count(row.base_count),
            ReportCell(numbers.count(row.new_count), _tone(row.new_count - row.base_count, row.base_count)),
            f"{row.file}:{row.line}" if row.file else numbers.ABSENT, " ".join(row.reason.split()),
        )
        for row in (found.compilations[:limit] if limit else found.compilations)
    ]  # fmt: skip
    return Section(
        "Compiled again, and graph breaks", "in a whole run", columns, rows, len(found.compilations) - len(rows)
    )


def _ranks(found: Compared) -> Section:
    columns = (
        number_column("rank"), Column("device"), number_column("base"), number_column("new"),
        number_column("difference"), number_column("of base"),
    )  # fmt: skip
    rows = [
        _cells(
            str(row.rank), row.base_device if row.base_device == row.new_device else _both_devices(row),
            numbers.duration(row.base_ns), numbers.duration(row.new_ns),
            ReportCell(
                numbers.ABSENT if row.difference_ns is None else signed(row.difference_ns),
                _tone(row.difference_ns, row.base_ns or 0),
            ),
            change(row.base_ns, row.new_ns),
        )
        for row in (found.ranks if len(found.ranks) > 1 else ())
    ]  # fmt: skip
    return Section("Ranks", "mean step of each device", columns, rows[:RANKS_SHOWN], max(len(rows) - RANKS_SHOWN, 0))


def _both_devices(row: RankDifference) -> str:
    return f"{row.base_device or numbers.ABSENT} -> {row.new_device or numbers.ABSENT}"


def _outliers(found: Compared, limit: int) -> Section:
    alone = len(found.base_runs) == len(found.new_runs) == 1
    columns = (
        Column("side"), *(() if alone else (name_column("run"),)), Column("what"), number_column("time"),
        number_column("usual"), name_column("", 4),
    )  # fmt: skip
    rows = [
        _cells(
            row.side, *(() if alone else (row.run,)),
            "the run" if row.step is None else f"step {row.step} of rank {row.rank}",
            numbers.duration(row.ns), numbers.duration(row.typical_ns), row.note,
        )
        for row in (found.outliers[:limit] if limit else found.outliers)
    ]  # fmt: skip
    note = "counted in every figure: nothing was dropped"
    return Section("Outliers", note, columns, rows, len(found.outliers) - len(rows))
