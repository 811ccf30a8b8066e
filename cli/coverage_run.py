"""Runs the models of ``stallscope coverage`` one after the other, each in processes of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .coverage_models import ModelEntry

if TYPE_CHECKING:
    from ..analysis.coverage import ModelRow
    from ..analysis.coverage_results import RunResult
    from ..profiler.session.coverage_task import CoverageTask

Told = Callable[[str], None]

_BEFORE_THE_DEVICE = ("start", "import", "factory")
"""A failure in one of these stages would be the same with torch.compile."""


def run_models(entries: Sequence[ModelEntry], folder: Path, tell: Told) -> tuple[ModelRow, ...]:
    """Runs the models and returns their rows.

    Args:
        entries: The models.
        folder: An empty folder, which gets one for each model.
        tell: Is told of each run that has ended, in a sentence.
    """
    return tuple(_run_model(entry, folder / f"{number:03d}", tell) for number, entry in enumerate(entries))


def _run_model(entry: ModelEntry, folder: Path, tell: Told) -> ModelRow:
    from ..analysis.coverage import model_row

    if entry.program:
        _run(entry, "script", folder / "eager", folder / "caches", tell)
    else:
        first = _run(entry, "eager", folder / "eager", folder / "eager_caches", tell)
        if entry.settings.compile and not (first.outcome == "failed" and first.stage in _BEFORE_THE_DEVICE):
            caches = folder / "compiler_caches"
            second = _run(entry, "compiled", folder / "compiled", caches, tell)
            if entry.settings.warm and second.outcome == "completed":
                _run(entry, "warm", folder / "warm", caches, tell)
    return model_row(
        folder,
        name=entry.name,
        source=entry.source,
        is_script=bool(entry.program),
        precision="" if entry.program else entry.settings.precision,
        samples_per_step=entry.settings.samples,
        tokens_per_step=entry.settings.tokens,
    )


def _run(entry: ModelEntry, kind: str, folder: Path, caches: Path, tell: Told) -> RunResult:
    from ..analysis.coverage_results import run_result
    from ..profiler.session.coverage_process import run_task
    from .rendering.numbers import duration

    settings = entry.settings
    run_task(
        _task(entry, kind), folder, limit_s=settings.time_limit_s, caches=caches,
        cache_variables=settings.cache_variables,
    )  # fmt: skip
    result = run_result(folder)
    how = result.outcome if result.outcome == "completed" else f"{result.outcome} in {result.stage}: {result.reason}"
    tell(f"{entry.name}, {kind}: {how} ({duration(result.wall_ns)})")
    return result


def _task(entry: ModelEntry, kind: str) -> CoverageTask:
    from ..profiler.session.coverage_task import CoverageTask

    settings = entry.settings
    return CoverageTask(
        kind=kind,
        name=entry.name,
        factory=entry.factory,
        program=entry.program,
        device=settings.device,
        imports=settings.imports,
        backend=settings.backend,
        precision=settings.precision,
        optimizer=settings.optimizer,
        steps=settings.steps,
        warm_up=settings.warm_up,
        tolerance=settings.tolerance,
    )
