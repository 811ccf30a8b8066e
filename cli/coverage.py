"""``stallscope coverage``: what a device can do with a set of models, and what changed between two versions of it."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .options import json_option

if TYPE_CHECKING:
    from ..analysis.coverage import Coverage
    from .coverage_models import ModelEntry

_SIM = "stallscope.samples.simulated_accelerator:load"


@described(
    "coverage",
    short="What runs on a device, eager and compiled, and what changed since.",
    examples=(
        ("Four small models on a GPU", "stallscope coverage samples/model_factories/models.toml --device cuda"),
        (
            "A device whose backend must be imported first",
            "stallscope coverage models.toml --device neuron --import torch_neuronx --compile-backend neuron",
        ),
        (
            "The simulated accelerator, kept for later",
            f"stallscope coverage models.toml --device sim --import {_SIM} --compile-backend aot_eager -o base.json",
        ),
        ("A script as it is, with its arguments", "stallscope coverage --samples 32 train.py -- --lr 3e-4"),
        ("What a new version of the backend supports or breaks", "stallscope coverage --compare base.json new.json"),
    ),
    output_keys={
        "coverage_schema_version": "1",
        "device, device_name, backend, versions": "what it ran on; backend is torch.compile's",
        "counts": "{models, eager, compiled, compile_asked, with_fallbacks, agree, differ}",
        "rows": (
            "list of {name, source, is_script, precision, samples_per_step, tokens_per_step, eager, compiled, warm, "
            "fallback_ops, agrees, largest_error}; eager, compiled and warm are null where not run, else {outcome "
            "(completed, failed, crashed, hung), stage, reason, file, line, wall_ns, peak_rss_bytes, "
            "peak_device_bytes, first_step_ns, step_ns, step_low_ns, step_high_ns, steady_steps, step_note, "
            "compile_ns, compilations, graph_breaks (list of {file, line, reason, count}), recompiles (list of "
            "{file, line, function, reason, count}), fallbacks (null: not recorded; list of {op, root_op, count, "
            "host_ns, host_self_ns, file, line}), recorded_steps, agreement ({precision, tolerance, outputs, loss, "
            "gradients, worst_gradient, not_finite, agrees}), device, versions, samples_per_s, tokens_per_s}"
        ),
        "with --compare": (
            "{newly_supported, newly_broken, changed (each a list of {model, what, base, new, unit, direction}), "
            "unchanged, added, removed (names), environment (list of [what, base, new])}"
        ),
    },
)
@click.argument("targets", metavar="MODELS.toml|SCRIPT [-- ARGS]...", nargs=-1, required=True)
@click.option("--compare", "is_comparison", is_flag=True, help="Compare two results: BASE.json NEW.json.")
@click.option("--device", help="The device, as in model.to(device).  [default: as the TOML file says]")
@click.option(
    "--import", "imports", multiple=True, metavar="MODULE[:FUNCTION]",
    help="Import this first, and call the function: what registers the device. May be repeated.",
)  # fmt: skip
@click.option("--compile-backend", "backend", metavar="NAME", help="The backend of torch.compile.  [default: inductor]")
@click.option("--no-compile", is_flag=True, help="Run eager only.")
@click.option("--precision", metavar="TYPE", help="The element type of the models: bfloat16, ...  [default: float32]")
@click.option("--steps", type=click.IntRange(min=3), help="Steady steps to time.  [default: 15]")
@click.option("--time-limit", "time_limit_s", type=click.FloatRange(min=1), metavar="SECONDS",
              help="End a process that takes longer.  [default: 300]")  # fmt: skip
@click.option("--samples", type=click.FloatRange(min=0, min_open=True), help="Samples a step, for samples a second.")
@click.option("--tokens", type=click.FloatRange(min=0, min_open=True), help="Tokens a step, for tokens a second.")
@click.option("--only", multiple=True, metavar="NAME", help="Only this model of the file. May be repeated.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), help="Write the result (JSON) to this file, for --compare."
)
@click.option("--force", is_flag=True, help="Replace the file at OUTPUT.")
@click.option("--keep", type=click.Path(path_type=Path), help="Keep recordings and output of each process here.")
@click.option("--markdown", is_flag=True, help="Print Markdown.")
@json_option
def command(
    targets: tuple[str, ...],
    is_comparison: bool,
    no_compile: bool,
    only: tuple[str, ...],
    output: Path | None,
    force: bool,
    keep: Path | None,
    markdown: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Run models on a device, each in processes of its own, and tell what works.

    For each model: whether it runs eager and compiled, what falls back to the CPU, graph breaks and
    recompilations, cold and warm compile time, the steady step, how far its results are from the
    CPU's. A crash or a hang is a row of the table, and the command's exit code is 0; --compare exits
    with 1 if something is newly broken. docs/coverage.md says what a factory is.
    """
    from .rendering.page import note

    if is_comparison:
        click.get_current_context().exit(_compare(targets, as_json, markdown))
    settings["compile"] = False if no_compile else None
    entries = _entries(targets, settings, only)
    if output is not None:
        from .output import must_be_free

        must_be_free(output, force=force)
    with ExitStack() as stack:
        found = _run(entries, _folder(keep, stack), note)
    from ..analysis.coverage import coverage_document

    document = coverage_document(found)
    if output is not None:
        _write(output, document)
    if as_json:
        from .rendering.json_output import print_json

        print_json(document)
        return
    from .coverage_page import markdown_page, print_coverage
    from .rendering.page import page

    if markdown:
        click.echo(markdown_page(found))
    else:
        print_coverage(page(), found)


def _entries(targets: tuple[str, ...], settings: dict[str, Any], only: tuple[str, ...]) -> list[ModelEntry]:
    """The models that the command line names.

    Raises:
        UsageError: A file is not there, arguments follow a TOML file, or --only names no model.
    """
    from .coverage_models import entries_of_file, entry_of_script, must_name_devices

    target = Path(targets[0])
    if not target.exists():
        raise UsageError(f"{target} does not exist.", hint="Name a TOML file of models, or a script.")
    if target.suffix != ".toml":
        return [entry_of_script(targets, settings)]
    if len(targets) > 1:
        raise UsageError(f"{targets[1]!r} follows the TOML file.", hint="Only a script takes arguments.")
    entries = entries_of_file(target, settings)
    unknown = [name for name in only if name not in [entry.name for entry in entries]]
    if unknown:
        names = ", ".join(entry.name for entry in entries)
        raise UsageError(f"{target} has no model {unknown[0]!r}.", hint=f"It has: {names}.")
    chosen = [entry for entry in entries if not only or entry.name in only]
    must_name_devices(chosen)
    return chosen


def _folder(keep: Path | None, stack: ExitStack) -> Path:
    """The folder for the processes: the user's, which must be new or empty, or a temporary one."""
    if keep is None:
        import tempfile

        return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="stallscope-coverage-")))
    if keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise UsageError(f"{keep} is not an empty folder.", hint="Name a new one with --keep.")
    keep.mkdir(parents=True, exist_ok=True)
    return keep.resolve()


def _run(entries: list[ModelEntry], folder: Path, note: Any) -> Coverage:
    from ..analysis.coverage import coverage_of
    from .coverage_run import run_models

    rows = run_models(entries, folder, note)
    devices = list(dict.fromkeys(entry.settings.device for entry in entries if entry.factory))
    backends = list(dict.fromkeys(e.settings.backend for e in entries if e.factory and e.settings.compile))
    return coverage_of(rows, device=", ".join(devices), backend=", ".join(backends))


def _write(output: Path, document: dict[str, Any]) -> None:
    import json

    from .output import written_whole
    from .rendering.json_output import plain

    with written_whole(output) as temporary:
        temporary.write_text(json.dumps(plain(document), indent=1, allow_nan=False) + "\n", encoding="utf-8")


def _compare(targets: tuple[str, ...], as_json: bool, markdown: bool) -> int:
    """Compares two results and returns the exit code: 1 if something is newly broken."""
    from dataclasses import asdict

    from ..analysis.coverage import read_coverage
    from ..analysis.coverage_comparison import compare_coverage

    if len(targets) != 2:
        raise UsageError(f"--compare takes two results; {len(targets)} given.", hint="--compare BASE.json NEW.json")
    found = compare_coverage(*(read_coverage(Path(target)) for target in targets))
    if as_json:
        from .rendering.json_output import print_json

        print_json(asdict(found))
    elif markdown:
        from .coverage_comparison_page import comparison_markdown

        click.echo(comparison_markdown(found))
    else:
        from .coverage_comparison_page import print_comparison
        from .rendering.page import page

        print_comparison(page(), found)
    return 1 if found.newly_broken else 0
