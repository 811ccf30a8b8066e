"""``stallscope gate``: budgets held against a run and its baseline, for a CI job to pass or fail by."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .options import F, json_option, ranks_option

if TYPE_CHECKING:
    from ..analysis.budgets import Budgets
    from ..analysis.gate import GateReport
    from .gate_sides import NamedRuns

BUDGETS_FILE = Path("stallscope.toml")
"""Read without being named, where it is in the working folder."""

STDOUT = "-"

_OPTIONS = {
    "step_time": "Median steady step: +5% over the baseline, or at most 80ms.",
    "step_time_p95": "95th percentile of the steady steps.",
    "peak_memory": "Most memory held at once on a device: +5%, +64MiB, or 30GiB.",
    "cold_start": "Time of the steps that compile or warm up.",
    "compiles": "Compilations in the whole run: +0, or a number.",
    "recompiles": "What was compiled again, or compiled in a steady step.",
    "fallbacks": "Ops on the CPU: none, or baseline (those that it has).",
    "bytes_moved": "Bytes copied in a step.",
    "communication_waiting": "Time of a step spent waiting for peers.",
    "losses": "Events missing from the recording.",
}


def budget_options(function: F) -> F:
    """An option for each budget; ``--stall-share`` names its cause."""
    function = click.option(
        "--stall-share",
        multiple=True,
        metavar="CAUSE=LIMIT",
        help="Share of the step lost to a cause: input=5%, gc=+1%. Repeatable.",
    )(function)
    for name, words in reversed(_OPTIONS.items()):
        option = f"--{name.replace('_', '-')}"
        function = click.option(option, name, metavar="LIMIT", help=words)(function)
    return function


@described(
    "gate",
    short="Hold a run against budgets and a baseline: exit 0, 1 or 3.",
    examples=(
        ("Against a recording of the main branch", "stallscope gate runs/new --baseline runs/main --run-sd 2%"),
        ("Five runs against five: no spread need be supplied", "stallscope gate 'new/*' --baseline 'main/*'"),
        ("Budgets of its own", "stallscope gate runs/new --baseline base.json --step-time +3% --fallbacks none"),
        ("Make a baseline that is small enough to commit", "stallscope gate 'main/*' --write-baseline base.json"),
        ("In a GitHub job", "stallscope gate runs/new --baseline history --github --junit gate.xml"),
    ),
    output_keys={
        "verdict": "kept, broken or cannot_tell",
        "exit_code": "0, 1 or 3, in that order",
        "what": "the first line of every report: the verdict and how much",
        "why": "the second: what is behind it",
        "where": "the third: the line to look at",
        "budgets": (
            "list, broken ones first: {name, kind (time in ns, size in bytes, count, share 0..1, ops), verdict, "
            "on_unknown, value, low, high (its 95 % interval), base, limit, runs_new, runs_base, basis, run_sd_frac, "
            "reason, blame (text, file, line, function; null), fallbacks}"
        ),
        "incomplete": "the runs that did not complete, as sentences",
        "new": "names of the new runs",
        "baseline": "names of the baseline's runs",
        "environment": "what differs besides the code: name, kind, base, new, unlike",
        "notes": "what to know to believe the rest",
    },
)
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--baseline",
    multiple=True,
    metavar="PATH",
    help="What to hold it against: runs, a baseline file, a history. Repeatable.",
)
@click.option(
    "--budgets",
    "budgets_file",
    type=click.Path(path_type=Path),
    help=f"A TOML file of budgets.  [default: {BUDGETS_FILE}, if it is there]",
)
@budget_options
@click.option("--run-sd", metavar="SHARE", help="How much the same code differs from run to run, such as 2%.")
@click.option(
    "--on-unknown", type=click.Choice(["fail", "warn"]), help="Where a budget cannot be told.  [default: fail]"
)
@ranks_option
@click.option(
    "--write-baseline", type=click.Path(path_type=Path), metavar="FILE", help="Write RUNs as a baseline; judge nothing."
)
@click.option(
    "--markdown", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as Markdown (- for stdout)."
)
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the report as JUnit XML.")
@click.option("--github", is_flag=True, help="Print annotations; add the report to $GITHUB_STEP_SUMMARY.")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@json_option
def command(runs: tuple[str, ...], **options: Any) -> None:
    """Hold runs against budgets and a baseline. Exit 0: kept; 1: broken; 3: it cannot be told.

    Each RUN is a recording or trace; a pattern or a folder of runs names several. A budget breaks only
    where the 95 % interval of its figure lies wholly over the limit. A run that did not complete never
    passes. Without budgets: step time +5%, peak memory +5%, recompiles +0, fallbacks of the baseline.
    """
    from .gate_sides import baseline_runs, new_runs

    files = [options[name] for name in ("write_baseline", "markdown", "junit") if options[name]]
    if str(options["markdown"]) == STDOUT:
        files.remove(options["markdown"])
    _free(files, force=options["force"])
    if options["write_baseline"]:
        if options["baseline"]:
            raise UsageError("--write-baseline judges nothing, so --baseline has no place beside it.")
        _write_baseline(new_runs(runs, options["ranks"]), options["write_baseline"])
        return
    budgets = _budgets(options)
    if not options["baseline"] and any(budget.value is None for budget in budgets.budgets):
        names = ", ".join(budget.key for budget in budgets.budgets if budget.value is None)
        raise UsageError(f"these budgets take a baseline: {names}.", hint="Give --baseline, or a value such as 80ms.")
    new = new_runs(runs, options["ranks"])
    base = baseline_runs(options["baseline"], new, options["ranks"])
    report = judge(budgets, new, base)
    _publish(report, options)
    click.get_current_context().exit(report.exit_code)


def judge(budgets: Budgets, new: NamedRuns, base: NamedRuns) -> GateReport:
    """The gate's answer; places are worked out only where a budget is broken."""
    from ..analysis.gate import gate

    return gate(budgets, new.runs, base.runs, sides=lambda: (new.side(), base.side()))


def _budgets(options: Mapping[str, Any]) -> Budgets:
    """Those of the file with those of the options in their place; the defaults where there are neither."""
    from ..analysis.budgets import DEFAULTS, Budgets, parse_budgets, parse_share, read_budgets

    path = options["budgets_file"] or (BUDGETS_FILE if BUDGETS_FILE.is_file() else None)
    entries: dict[str, object] = {name: options[name] for name in _OPTIONS if options[name] is not None}
    for text in options["stall_share"]:
        cause, equals, limit = text.partition("=")
        if not equals:
            raise UsageError(f"--stall-share {text} has no '='.", hint="Write --stall-share input=5%.")
        entries[f"stall_share.{cause}"] = limit
    run_sd = None if options["run_sd"] is None else parse_share(options["run_sd"])
    given = parse_budgets(entries, on_unknown=options["on_unknown"] or "fail", run_sd_frac=run_sd)
    chosen = (read_budgets(path) if path else Budgets(())).with_others(given)
    if not chosen.budgets:
        chosen = parse_budgets(DEFAULTS, on_unknown=options["on_unknown"] or "fail", run_sd_frac=chosen.run_sd_frac)
    return chosen.with_on_unknown(options["on_unknown"]) if options["on_unknown"] else chosen


def _write_baseline(new: NamedRuns, path: Path) -> None:
    from ..analysis.baselines import baseline_of, baseline_text
    from .output import written_whole
    from .rendering.numbers import plural
    from .rendering.page import note

    for run in new.runs:
        if run.status != "completed":
            raise UsageError(f"{run.name} did not complete ({run.status}), so it is no baseline.")
    text = baseline_text(baseline_of(new.runs, new.side().places))
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8")
    note(f"{path}: {plural(len(new.runs), 'run')}, {len(text.encode()) / 1024:.0f} KiB.")


def _free(paths: list[Path], *, force: bool) -> None:
    from .output import must_be_free

    for path in paths:
        must_be_free(path, force=force)


def _publish(report: GateReport, options: Mapping[str, Any]) -> None:
    """Writes the files that were asked for, then prints."""
    from .output import written_whole
    from .rendering.gate_files import document, github_annotations, junit
    from .rendering.gate_markdown import gate_markdown

    writers: dict[str, Callable[[GateReport], str]] = {"markdown": gate_markdown, "junit": junit}
    on_stdout = str(options["markdown"]) == STDOUT
    for name, write in writers.items():
        if options[name] and not (name == "markdown" and on_stdout):
            with written_whole(options[name]) as temporary:
                temporary.write_text(write(report), encoding="utf-8")
    if options["as_json"]:
        from .rendering.json_output import print_json

        print_json(document(report))
    elif on_stdout:
        click.echo(gate_markdown(report), nl=False)
    else:
        from .rendering.gate_table import print_gate
        from .rendering.page import page

        print_gate(page(), report)
    if options["github"]:
        for line in github_annotations(report):
            click.echo(line, err=options["as_json"])
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(gate_markdown(report))
