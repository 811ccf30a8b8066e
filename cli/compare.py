"""``stallscope compare``: two sides of runs, which is faster, how certain that is, and why."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .options import RanksType, json_option, limit_option

if TYPE_CHECKING:
    from ..analysis.compare import Compared

HTML_ROWS = 100
MARKDOWN_ROWS = 10

_SHARE = re.compile(r"\+?(\d+(?:\.\d+)?)\s*(%)?")


class ShareType(click.ParamType):  # type: ignore[type-arg]  # generic only in newer versions of click
    """A share in percent: ``2%``, or ``2``."""

    name = "PERCENT"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The share, 0..1 and more."""
        if isinstance(value, float):
            return value
        found = _SHARE.fullmatch(str(value).strip())
        if not found:
            self.fail(f"'{value}' is not a percentage such as 2% or 0.5%.", param, ctx)
        return float(found[1]) / 100


_DIFFERENCE = "base_ns, new_ns, difference_ns"


@described(
    "compare",
    short="Which of two sides is faster, how certain that is, and why.",
    examples=(
        ("Two traces, or two recordings", "stallscope compare before.json.gz after.json.gz"),
        ("Several runs a side: what tells a change from chance", "stallscope compare --base 'runs/a*' 'runs/b*'"),
        ("The same, named one by one", "stallscope compare --base A1 --base A2 B1 B2"),
        ("Folders of recordings, a run each", "stallscope compare runs/before runs/after"),
        ("One run a side, when you know that runs differ by 1 %", "stallscope compare A B --run-sd 1%"),
        ("Against the baseline of a gate, which holds several runs", "stallscope compare perf/baseline.json runs/new"),
        ("A page to send to somebody", "stallscope compare A B --html compare.html"),
    ),
    output_keys={
        "verdict": "faster, slower, no difference beyond the margin, cannot tell, or no verdict (too few runs)",
        "headline": "the verdict as one sentence",
        "why": "the largest parts of the difference of the mean step, as one sentence",
        "unit": "step, or recording where a side marks no steady step",
        "statistic": "median or mean: what the verdict is about",
        "margin_frac": "the difference that does not matter",
        "base_runs": (
            "list: name, status, steps, steps_ns, median_ns, mean_ns, p95_ns, within (value, low, high, block: a "
            "bootstrap within the run; null with fewer than four steps)"
        ),
        "new_runs": "the same of the new side",
        "median": (
            "the median step: key, title, unit, base_values and new_values (one a run), base and new (their means), "
            "difference, comparison (verdict, ratio, low, high, margin_frac, runs_base, runs_new, run_sd_frac, "
            "sd_source, runs_needed, reason; null: not known)"
        ),
        "mean": "the mean step, in the same way",
        "parts": f"list by state and root cause: state, cause, {_DIFFERENCE}; adds up to the mean step exactly",
        "states": "the same by state",
        "places": (
            f"stalls and exposed copies by root cause and line: state, cause, file, line, base_line (where it was), "
            f"function, {_DIFFERENCE}"
        ),
        "metrics": "list of single figures, each like median",
        "kernels": (
            "list by name and grid: name, detail, short_name, change (new, gone, count, time, same, not listed), "
            "base_count, new_count, base_device_ns, new_device_ns, device_difference_ns, and the same of host; a step"
        ),
        "ops": "the same by op",
        "lines": "the same by line (name) and function (detail)",
        "fallbacks": "list: op, root_op, file, line, base_count, new_count, base_ns, new_ns; a run",
        "compilations": "list: kind (recompiled, graph break), name, file, line, reason, base_count, new_count; a run",
        "ranks": f"list: rank, base_device, new_device, {_DIFFERENCE}",
        "environment": "what else differs: name, kind, base, new, unlike (apples and pears)",
        "outliers": "list: side, run, rank, step, ns, typical_ns, note; they are in every figure",
        "notes": "what to know to read the rest",
    },
)
@click.argument("sources", metavar="[BASE] NEW...", nargs=-1, required=True)
@click.option(
    "--base",
    "bases",
    multiple=True,
    metavar="PATH",
    help="A run of the base side, or a pattern or folder of them; may be repeated. Every other path is then a new run.",
)
@click.option("--rank", "ranks", type=RanksType(), help="Only these ranks: 3, or 0,2,5-7.  [default: all]")
@click.option(
    "--margin", type=ShareType(), default=0.02, show_default="2%", help="The difference that does not matter."
)
@click.option("--run-sd", type=ShareType(), help="How much runs differ by themselves, where that is known.")
@click.option(
    "--statistic",
    type=click.Choice(("median", "mean")),
    default="median",
    show_default=True,
    help="What the verdict is about.",
)
@limit_option(8)
@json_option
@click.option("--markdown", type=click.Path(path_type=Path), help="Write it as Markdown to this file (- for stdout).")
@click.option("--html", "html_file", type=click.Path(path_type=Path), help="Write it as one HTML page to this file.")
def command(
    sources: tuple[str, ...],
    bases: tuple[str, ...],
    ranks: tuple[int, ...] | None,
    margin: float,
    run_sd: float | None,
    statistic: str,
    limit: int,
    as_json: bool,
    markdown: Path | None,
    html_file: Path | None,
) -> None:
    """Say which of two sides is faster, by how much, how certain that is, and why.

    A side is one run or several: recordings, traces, baseline files; a folder of recordings, or a
    quoted pattern, names a run per entry. The run is the unit: five runs a side give a verdict, one
    run a side tells how these two differ. Only steady steps that all runs have count; outliers are
    named, not dropped.
    """
    from ..analysis.compare import compare
    from .runs import run_paths, sides_alike

    base_paths, new_paths = (run_paths(side) for side in _sides(sources, bases))
    both = [path for path in base_paths if path.resolve() in {other.resolve() for other in new_paths}]
    if both and len(base_paths) + len(new_paths) > 2:
        raise UsageError(f"{both[0]} is on both sides.")
    found = compare(
        *sides_alike(base_paths, new_paths, ranks=ranks),
        margin_frac=margin,
        run_sd_frac=run_sd,
        statistic="median" if statistic == "median" else "mean",
    )
    names = _side_names(base_paths, new_paths)
    if html_file is not None:
        _write_html(html_file, found, names)
    if markdown is not None:
        _write_markdown(markdown, found, names)
    if as_json:
        from .rendering.json_output import print_json

        print_json(asdict(found))
    elif markdown is None or str(markdown) != "-":
        _print(found, names, limit)


def _sides(sources: tuple[str, ...], bases: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The paths of the two sides.

    Raises:
        UsageError: It is not clear which path is on which side.
    """
    if bases:
        return bases, sources
    if len(sources) == 2:
        return sources[:1], sources[1:]
    if len(sources) == 1:
        raise UsageError(
            f"only {sources[0]} is named: a comparison has two sides.", hint="`stallscope compare BASE NEW`."
        )
    raise UsageError(
        f"{len(sources)} paths are named, and which are the base side is not said.",
        hint="Several runs a side: `stallscope compare --base A1 --base A2 B1 B2`, or patterns in quotes.",
    )


def _side_names(base: list[Path], new: list[Path]) -> tuple[str, str]:
    """What to call the sides: the name of a run, with its folders where both have the same."""
    alike = base[0].name == new[0].name
    return _side_name(base, whole=alike), _side_name(new, whole=alike)


def _side_name(paths: list[Path], *, whole: bool) -> str:
    first = str(paths[0]) if whole else paths[0].name or paths[0].resolve().name
    return first if len(paths) == 1 else f"{len(paths)} runs ({first} ...)"


def _print(found: Compared, names: tuple[str, str], limit: int) -> None:
    from .rendering.compare_report import compare_report
    from .rendering.page import page
    from .rendering.report_terminal import print_head, print_section

    out = page()
    report = compare_report(found, *names, limit=limit)
    print_head(out, report)
    for section in report.sections:
        print_section(out, section)


def _write_html(path: Path, found: Compared, names: tuple[str, str]) -> None:
    from .output import written_whole
    from .rendering.compare_charts import difference_chart, states_chart, steps_chart
    from .rendering.compare_report import compare_report
    from .rendering.report_html import html_page

    report = compare_report(found, *names, limit=HTML_ROWS)
    charts = [chart for chart in (states_chart(found), difference_chart(found), steps_chart(found)) if chart]
    with written_whole(path) as temporary:
        temporary.write_text(html_page(report, charts), encoding="utf-8")


def _write_markdown(path: Path, found: Compared, names: tuple[str, str]) -> None:
    from .output import written_whole
    from .rendering.compare_report import compare_report
    from .rendering.report_markdown import markdown

    text = markdown(compare_report(found, *names, limit=MARKDOWN_ROWS))
    if str(path) == "-":
        click.echo(text, nl=False)
        return
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
