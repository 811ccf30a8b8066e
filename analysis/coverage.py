"""What a device can do with a set of models: one row a model, from the processes in which it ran.

A model is run eager, with torch.compile, and with torch.compile again in a new process whose compiler finds the caches
of the one before (``analysis.coverage_results`` reads each). The document is what ``stallscope coverage --json`` prints
and ``--compare`` reads.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..profiler.recording.errors import FormatError
from .coverage_results import RunResult, run_result

SCHEMA_VERSION = 1
RUNS = ("eager", "compiled", "warm")


@dataclass(frozen=True, slots=True)
class ModelRow:
    """One model.

    Attributes:
        name: Its name.
        source: Its factory, or the script.
        is_script: Whether it is a script, which is run once and as it is.
        precision: The element type; "" for a script.
        samples_per_step: As the user said.
        tokens_per_step: As the user said.
        eager: The run without torch.compile, or the script's; None if it was not asked for.
        compiled: The first run with it, its caches empty.
        warm: The second one, up to the first steps.
    """

    name: str
    source: str
    is_script: bool
    precision: str
    samples_per_step: float | None
    tokens_per_step: float | None
    eager: RunResult | None
    compiled: RunResult | None
    warm: RunResult | None

    @property
    def fallback_ops(self) -> tuple[str, ...]:
        """The ops that fell back, eager or compiled, each once."""
        runs = (self.eager, self.compiled)
        return tuple(sorted({row["op"] for run in runs if run is not None for row in run.fallbacks or ()}))

    @property
    def agrees(self) -> bool | None:
        """Whether every run that was compared agrees with the CPU; None if none was."""
        told = [run.agreement.get("agrees") for run in (self.eager, self.compiled) if run and run.agreement]
        known = [one for one in told if one is not None]
        return all(known) if known else None

    @property
    def largest_error(self) -> float | None:
        """The largest relative error of all that was compared; None if nothing was, or something is not finite."""
        told = [run.agreement for run in (self.eager, self.compiled) if run and run.agreement]
        if any(one.get("not_finite") for one in told):
            return None
        errors = [one[key] for one in told for key in ("outputs", "loss", "gradients") if one.get(key) is not None]
        return max(errors, default=None)


@dataclass(frozen=True, slots=True)
class Coverage:
    """A coverage run.

    Attributes:
        device: As the user named it; "" where the script chose.
        device_name: What its backend calls it.
        backend: Of torch.compile; "" where nothing was compiled.
        versions: Of the packages that matter.
        rows: The models, in the order of the file.
    """

    device: str
    device_name: str | None
    backend: str
    versions: dict[str, str]
    rows: tuple[ModelRow, ...]

    @property
    def counts(self) -> dict[str, int]:
        """models, eager, compiled (those that completed), with_fallbacks, agree and differ."""
        return {
            "models": len(self.rows),
            "eager": sum(completed(row.eager) for row in self.rows),
            "compiled": sum(completed(row.compiled) for row in self.rows),
            "compile_asked": sum(row.compiled is not None for row in self.rows),
            "with_fallbacks": sum(bool(row.fallback_ops) for row in self.rows),
            "agree": sum(row.agrees is True for row in self.rows),
            "differ": sum(row.agrees is False for row in self.rows),
        }


def completed(run: RunResult | None) -> bool:
    """Whether a run came to its end."""
    return run is not None and run.outcome == "completed"


def model_row(
    folder: Path,
    *,
    name: str,
    source: str,
    is_script: bool = False,
    precision: str = "",
    samples_per_step: float | None = None,
    tokens_per_step: float | None = None,
) -> ModelRow:
    """The row of a model, from the folder that holds a folder for each of its runs.

    Args:
        folder: Holds ``eager``, ``compiled`` and ``warm``; what is missing was not run. A script's run is ``eager``.
        name: The model's name.
        source: Its factory, or the script.
        is_script: Whether it is a script.
        precision: The element type.
        samples_per_step: As the user said.
        tokens_per_step: As the user said.
    """
    runs = {kind: run_result(folder / kind) if (folder / kind).is_dir() else None for kind in RUNS}
    return ModelRow(name, source, is_script, precision, samples_per_step, tokens_per_step, **runs)


def coverage_of(rows: tuple[ModelRow, ...], *, device: str, backend: str) -> Coverage:
    """The rows with what they have in common."""
    runs = [run for row in rows for run in (row.eager, row.compiled, row.warm) if run is not None]
    names = [str(run.device["name"]) for run in runs if run.device and run.device.get("name")]
    versions: dict[str, str] = {}
    for run in runs:
        versions |= run.versions
    return Coverage(device, names[0] if names else None, backend, versions, rows)


def per_second(per_step: float | None, run: RunResult | None) -> float | None:
    """How many of what a step has are done in a second of steady steps."""
    return per_step * 1e9 / run.step_ns if per_step and run is not None and run.step_ns else None


def coverage_document(found: Coverage) -> dict[str, Any]:
    """The coverage as JSON holds it (docs/cli.md)."""
    rows = []
    for row in found.rows:
        fields = asdict(row)
        for kind, run in (("eager", row.eager), ("compiled", row.compiled)):
            if fields[kind] is not None:
                fields[kind]["samples_per_s"] = per_second(row.samples_per_step, run)
                fields[kind]["tokens_per_s"] = per_second(row.tokens_per_step, run)
        fields |= {"fallback_ops": list(row.fallback_ops), "agrees": row.agrees, "largest_error": row.largest_error}
        rows.append(fields)
    return {
        "coverage_schema_version": SCHEMA_VERSION,
        "device": found.device,
        "device_name": found.device_name,
        "backend": found.backend,
        "versions": found.versions,
        "counts": found.counts,
        "rows": rows,
    }


def read_coverage(file: Path) -> dict[str, Any]:
    """The document in a file that ``stallscope coverage`` wrote.

    Raises:
        FormatError: It is no such file, or a newer version's.
    """
    try:
        document: Any = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{file} cannot be read: {error}.") from error
    version = document.get("coverage_schema_version") if isinstance(document, dict) else None
    if not isinstance(version, int) or not isinstance(document.get("rows"), list):
        raise FormatError(
            f"{file} is not the result of a coverage run.", hint="`stallscope coverage -o FILE` writes one."
        )
    if version > SCHEMA_VERSION:
        raise FormatError(f"{file} has version {version} of the format; this stallscope reads up to {SCHEMA_VERSION}.")
    for number, row in enumerate(document["rows"]):
        if not isinstance(row, dict) or not isinstance(row.get("name"), str):
            raise FormatError(f"{file}, row {number}: expected a model with a name.")
    found: dict[str, Any] = document
    return found
