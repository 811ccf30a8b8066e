"""The process of ``stallscope coverage`` in which one model runs: ``python -m ... TASK_FILE``.

It may crash, hang or be killed: each stage is on disk before it begins, and ``faulthandler`` writes where Python was.
"""

from __future__ import annotations

import copy
import ctypes
import faulthandler
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..recording.coverage_files import COMPILE_FOLDER, RECORDING_FOLDER
from ..recording.errors import StallscopeError
from .compile_notes import CompileNotes
from .coverage_agreement import agreement
from .coverage_task import CoverageTask, Report, read_task
from .coverage_training import BLOCKS, Training, load_workload, prepare
from .environment import versions
from .secrets import Redactor, environment_secrets

LIMIT_VARIABLE = "STALLSCOPE_COVERAGE_LIMIT_S"
"""Set by the parent: after this many seconds it kills the process, which writes its stacks shortly before."""

_LONGEST = 2000
_PARENT_DEATH_SIGNAL = 1


def main(arguments: list[str]) -> None:
    """Runs the task of a file and writes its report beside it."""
    file = Path(arguments[0])
    _die_with_parent()
    faulthandler.enable()
    if limit := os.environ.get(LIMIT_VARIABLE):
        faulthandler.dump_traceback_later(float(limit) * 0.9)
    task, report = read_task(file), Report(file.parent)
    redact = Redactor(environment_secrets(os.environ))
    try:
        report.stage("import")
        import torch

        prepare(task.imports)
        report.note(versions=versions(), torch_threads=torch.get_num_threads())
        if task.kind == "script":
            _run_script(task, report, file.parent)
        else:
            _train(task, report, file.parent)
    except Exception as error:  # noqa: BLE001 - the model's own failure: it is the result
        report.note(outcome="failed", error=_described(error, redact))
        traceback.print_exc()
        raise SystemExit(1) from None
    report.note(outcome="completed", stage="done")


def _die_with_parent() -> None:
    """Asks Linux to kill this process when its parent dies: nobody else would end one that hangs."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL)


def _described(error: Exception, redact: Redactor) -> dict[str, Any]:
    """The exception, with the frames that it went through, innermost last; of one of ours, what it says."""
    if isinstance(error, StallscopeError):
        return {"type": "", "message": redact(str(error))[:_LONGEST], "frames": []}
    frames = [
        {"file": frame.filename, "line": frame.lineno, "function": frame.name}
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    text = redact(str(error))[:_LONGEST]
    return {"type": type(error).__name__, "message": text, "frames": frames[-60:]}


def _run_script(task: CoverageTask, report: Report, folder: Path) -> None:
    """Runs a program as ``stallscope record`` does; its exit code is the process's."""
    from .program import load_script
    from .recorded_program import record_program
    from .settings import resolve_settings

    report.stage("script")
    code, module = load_script(task.program[0], list(task.program[1:]))
    settings = resolve_settings({"detail": "normal", "sources": False})
    with _noted(report):
        try:
            record_program(code, module, folder / RECORDING_FOLDER, settings, label=task.name)
        except SystemExit as ended:
            if ended.code not in (None, 0):
                report.note(outcome="failed", exit_code=ended.code if isinstance(ended.code, int) else 1)
                raise


def _train(task: CoverageTask, report: Report, folder: Path) -> None:
    report.stage("factory")
    workload = load_workload(task.factory)
    reference = copy.deepcopy(workload.model)
    report.note(parameters=sum(one.numel() for one in reference.parameters()))
    report.stage("move to the device")
    training = Training(workload, task)
    reference.to(training.dtype).train(training.trains)
    _name_device(training, report)
    batches = [training.batch(number) for number in range(1 + task.warm_up + task.steps)]
    if task.kind == "eager":
        _steps(task, report, training, batches, CompileNotes())
    else:
        with _noted(report) as notes, _compilations(folder):
            _steps(task, report, training, batches, notes)
    report.note(peak_device_bytes=training.peak_device_bytes())
    if task.kind == "warm":
        return
    report.stage("recorded steps")
    _record(task, training, batches, folder / RECORDING_FOLDER)
    report.note(recorded_steps=task.recorded_steps)
    report.stage("comparison with the CPU")
    report.note(agreement=agreement(training, reference, workload.loss, task.tolerance, task.precision))


@contextmanager
def _noted(report: Report) -> Iterator[CompileNotes]:
    """Notes graph breaks and recompilations of the block, also of one that fails."""
    notes = CompileNotes()
    notes.attach()
    try:
        yield notes
    finally:
        notes.detach()
        report.note(
            compilations=notes.compilations, graph_breaks=notes.graph_breaks, recompiles=notes.recompiles,
        )  # fmt: skip


def _steps(
    task: CoverageTask, report: Report, training: Training, batches: list[tuple[Any, Any]], notes: CompileNotes
) -> None:
    """The first step, the warm-up, and the steady steps in blocks, each with the compilations that fell into it."""
    report.stage("first step")
    report.note(first_step_ns=training.timed(batches[:1]))
    report.stage("warm-up")
    training.timed(batches[1 : 1 + task.warm_up])
    if task.kind == "warm":
        return
    report.stage("steady steps")
    rest = batches[1 + task.warm_up :]
    blocks = []
    for number in range(BLOCKS):
        block = rest[len(rest) * number // BLOCKS : len(rest) * (number + 1) // BLOCKS]
        before = notes.compilations
        if block:
            ns = training.timed(block)
            blocks.append({"steps": len(block), "ns": ns, "compilations": notes.compilations - before})
            report.note(blocks=blocks)


@contextmanager
def _compilations(folder: Path) -> Iterator[None]:
    """Records compilations alone, which costs the steps nothing."""
    from .profile import profile

    with profile(folder / COMPILE_FOLDER, detail="low", collectors="compile", sources=False):
        yield


def _record(task: CoverageTask, training: Training, batches: list[tuple[Any, Any]], path: Path) -> None:
    """Records some steps in full, from an optimizer at its start: making its state may fall back, too."""
    from .profile import profile

    training.new_optimizer()
    # Whoever reads it converts it: a converter would take processor time from the model for a few steps' sake. The text
    # of the source is kept, since the line of a fallback is read from it.
    with profile(path, detail="normal", label=task.name, convert=False) as recording:
        for number in range(task.recorded_steps):
            training.step(batches[number % len(batches)])
            recording.step()
        training.synchronize()


def _name_device(training: Training, report: Report) -> None:
    kind = training.device.type
    module: Any = getattr(training.torch, kind, None)
    name = None
    if kind != "cpu" and hasattr(module, "get_device_name"):
        name = str(module.get_device_name(training.device.index or 0))
    report.note(device={"type": kind, "name": name})


if __name__ == "__main__":
    main(sys.argv[1:])
