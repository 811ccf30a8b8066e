"""What a process of ``stallscope coverage`` is asked to do, and the report it keeps while it does it.

Both are JSON files in a folder of the process: ``task.json`` is written before it starts, ``report.json`` again with
each stage, so that it says how far the process came however it ended.
"""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ..recording.coverage_files import REPORT_FILE, TASK_FILE
from ..recording.parquet_files import write_atomically

KINDS = ("eager", "compiled", "warm", "script")
"""eager and compiled: training without and with torch.compile; warm: the compiled model's first steps again, in a new
process with the caches that ``compiled`` left; script: a program that is run and recorded as it is."""


@dataclass(frozen=True, slots=True)
class CoverageTask:
    """One process of a coverage run.

    Attributes:
        kind: One of ``KINDS``.
        name: The model's name.
        factory: ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``; "" for a script.
        program: The script's path and arguments; empty for a factory.
        device: The device's name, as in ``model.to(device)``; "" for a script, which chooses its own.
        imports: ``MODULE`` or ``MODULE:FUNCTION`` to import (and call) before anything else.
        backend: The backend of torch.compile.
        precision: The element type of parameters and inputs, a name in torch.
        optimizer: The class in torch.optim.
        steps: Steady steps to time.
        warm_up: Steps after the first that are not timed.
        recorded_steps: Steps to record afterwards.
        tolerance: The largest relative error that counts as agreement; None: by the precision.
    """

    kind: str
    name: str
    factory: str = ""
    program: tuple[str, ...] = ()
    device: str = ""
    imports: tuple[str, ...] = ()
    backend: str = "inductor"
    precision: str = "float32"
    optimizer: str = "AdamW"
    steps: int = 15
    warm_up: int = 3
    recorded_steps: int = 3
    tolerance: float | None = None

    def write(self, folder: Path) -> Path:
        """Writes the task into the folder of its process, and returns the file."""
        file = folder / TASK_FILE
        file.write_text(json.dumps(asdict(self), indent=1))
        return file


def read_task(file: Path) -> CoverageTask:
    """The task in a file."""
    fields = json.loads(file.read_text())
    for name in ("program", "imports"):
        fields[name] = tuple(fields[name])
    return CoverageTask(**fields)


class Report:
    """What a process has found so far; on disk after every change."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / REPORT_FILE
        self._began = time.monotonic_ns()
        self._facts: dict[str, Any] = {"stage": "start", "stages": []}
        self._write()

    def stage(self, name: str) -> None:
        """Says that the process now begins with ``name``."""
        self._facts["stage"] = name
        self._facts["stages"].append({"stage": name, "after_ns": time.monotonic_ns() - self._began})
        self._write()

    def note(self, **facts: Any) -> None:
        """Adds facts; a value replaces an earlier one of the same name."""
        self._facts.update(facts)
        self._write()

    def _write(self) -> None:
        write_atomically(self._file, json.dumps(self._facts, default=str).encode(), durable=False)
