"""Runs one process of ``stallscope coverage`` and outlives whatever happens to it.

The process has a session of its own, so that a time limit ends it together with what it started; its output goes to a
file; how it ended and the most memory it held are written beside its report.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from ..recording.coverage_files import ENDING_FILE, LOG_FILE
from .compile_notes import LOG_NAMES
from .coverage_child import LIMIT_VARIABLE
from .coverage_task import CoverageTask
from .secrets import Redactor, environment_secrets, masked_arguments

CACHE_VARIABLES = (
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "TORCH_NEURONX_NEFF_CACHE_DIR",
    "TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR",
    "TORCH_NEURONX_HLO_CACHE_DIR",
)
"""Variables that name the folder of a compiler's cache; a cold run gets empty ones."""

_TAIL_BYTES = 1 << 16
_LONGEST_PAUSE_S = 0.1
_PATIENCE_NS = 10_000_000_000
"""How long a process that was killed may take to be gone."""


@dataclass(frozen=True, slots=True)
class Ending:
    """How a process ended.

    Attributes:
        outcome: exited, killed_by_signal, or out_of_time.
        exit_code: Its exit code; None unless it exited.
        signal: The name of the signal; None if it exited.
        limit_s: How long it was allowed to take.
        wall_ns: How long it took.
        peak_rss_bytes: The most memory that it, or a process that it waited for, held; None: it could not be ended.
        printed: The end of what it printed, without what looks secret.
    """

    outcome: str
    exit_code: int | None
    signal: str | None
    limit_s: float
    wall_ns: int
    peak_rss_bytes: int | None
    printed: str


def run_task(
    task: CoverageTask, folder: Path, *, limit_s: float, caches: Path, cache_variables: tuple[str, ...] = ()
) -> Ending:
    """Runs a task in a process of its own, in an empty folder, and says how it ended.

    Args:
        task: What to do.
        folder: Is made; gets the task, the report, the output, the recordings and how it ended.
        limit_s: Seconds after which it is killed.
        caches: The folder for the caches of compilers; an empty one makes the run cold.
        cache_variables: Environment variables to point there besides ``CACHE_VARIABLES``.
    """
    folder.mkdir(parents=True)
    began = time.monotonic_ns()
    process = _started(task.write(folder), folder, _environment(limit_s, caches, cache_variables))
    try:
        status, peak, in_time = _wait(process.pid, began + round(limit_s * 1e9))
    finally:  # whatever it has started, and itself where we are interrupted
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    wall_ns = time.monotonic_ns() - began
    code = os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL
    process.returncode = code  # reaped above, which Popen cannot know
    masked, secrets = masked_arguments(task.program)
    printed = Redactor(secrets + environment_secrets(os.environ))(_tail(folder / LOG_FILE))
    ending = Ending(
        outcome="out_of_time" if not in_time else "exited" if code >= 0 else "killed_by_signal",
        exit_code=code if code >= 0 else None,
        signal=_signal_name(-code) if code < 0 else None,
        limit_s=limit_s,
        wall_ns=wall_ns,
        peak_rss_bytes=peak,
        printed=printed,
    )
    replace(task, program=tuple(masked)).write(folder)
    (folder / ENDING_FILE).write_text(json.dumps(asdict(ending), indent=1))
    return ending


def _started(task_file: Path, folder: Path, environment: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", f"{__package__}.coverage_child", str(task_file)]
    with (folder / LOG_FILE).open("wb") as log:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env=environment,
        )  # fmt: skip


def _environment(limit_s: float, caches: Path, more: tuple[str, ...]) -> dict[str, str]:
    env = dict(os.environ)
    for name in (*CACHE_VARIABLES, *more):
        (caches / name.lower()).mkdir(parents=True, exist_ok=True)
        env[name] = str(caches / name.lower())
    logs = env.get("TORCH_LOGS")
    env["TORCH_LOGS"] = f"{logs},{LOG_NAMES}" if logs else LOG_NAMES
    env[LIMIT_VARIABLE] = str(limit_s)
    env["PYTHONUNBUFFERED"] = "1"
    return env


def _wait(process_id: int, until: int) -> tuple[int | None, int | None, bool]:
    """Waits for the end, killing everything at the limit: wait status, peak memory [bytes], whether it was in time.

    A process that waits inside a driver may not even be killed: it is left alone after a while, its status None.
    """
    pause, in_time = 0.005, True
    while True:
        ended, status, usage = os.wait4(process_id, os.WNOHANG)
        if ended:
            return status, usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024), in_time
        now = time.monotonic_ns()
        if now >= until and in_time:
            in_time = False
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process_id, signal.SIGKILL)
        elif now >= until + _PATIENCE_NS:
            return None, None, False
        time.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE_S)


def _tail(file: Path) -> str:
    with file.open("rb") as log:
        log.seek(0, 2)
        log.seek(max(log.tell() - _TAIL_BYTES, 0))
        return log.read().decode("utf-8", "replace")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
