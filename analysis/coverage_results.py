"""What became of one process of ``stallscope coverage``: read from the files it left, however it ended.

Its report says how far it came, how it ended is its parent's word, fallbacks and compilations are read from its
recordings, and where a crash or a hang stood from the stack that ``faulthandler`` printed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from ..profiler.recording.coverage_files import (
    COMPILE_FOLDER,
    ENDING_FILE,
    RECORDING_FOLDER,
    REPORT_FILE,
    TASK_FILE,
)
from ..profiler.recording.errors import StallscopeError
from ..profiler.recording.reader import Recording, open_recording
from . import intervals as iv
from .fallbacks import fallbacks
from .source_position import origin_of
from .steps import STEADY, steps

OUTCOMES = ("completed", "failed", "crashed", "hung")
"""completed; failed: an exception or an exit code; crashed: ended by a signal; hung: killed at the time limit."""

_STACK_BLOCK = re.compile(r"^(?P<who>Current thread|Thread) 0x[^\n]*\(most recent call first\):\n", re.MULTILINE)
_STACK_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+) in (?P<function>[^\n]+)$', re.MULTILINE)
_PRINTED_FRAME = re.compile(r'^  File "(?P<file>[^"\n]+)", line (?P<line>\d+)', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class RunResult:
    """One process. Times in ns, memory in bytes; None is unknown.

    Attributes:
        outcome: One of ``OUTCOMES``.
        stage: What it was doing: ``done``, or the stage in which it ended.
        reason: Why it did not complete, in words; "" if it did.
        file: Where that was, in the user's code if it was there.
        line: The line in ``file``.
        wall_ns: How long the process took.
        peak_rss_bytes: The most host memory it held.
        peak_device_bytes: The most memory that tensors held on the device.
        first_step_ns: The first step, compilation included.
        step_ns: A steady step: the median over the blocks; of a script over its recorded steps.
        step_low_ns: The fastest block.
        step_high_ns: The slowest one.
        steady_steps: Steps behind ``step_ns``.
        step_note: Why there is no steady step, or what it includes; "" otherwise.
        compile_ns: Time in torch.compile, over all steps.
        compilations: How often it compiled.
        graph_breaks: ``{file, line, reason, count}``.
        recompiles: ``{file, line, function, reason, count}``.
        fallbacks: ``{op, root_op, count, host_ns, host_self_ns, file, line}``; None where nothing was recorded.
        recorded_steps: Steps in which fallbacks were counted; None for a whole script.
        agreement: Relative errors against the CPU; None where it was not compared.
        device: ``{type, name}``.
        versions: Of the packages that matter.
    """

    outcome: str
    stage: str
    reason: str = ""
    file: str | None = None
    line: int | None = None
    wall_ns: int | None = None
    peak_rss_bytes: int | None = None
    peak_device_bytes: int | None = None
    first_step_ns: int | None = None
    step_ns: int | None = None
    step_low_ns: int | None = None
    step_high_ns: int | None = None
    steady_steps: int = 0
    step_note: str = ""
    compile_ns: int | None = None
    compilations: int | None = None
    graph_breaks: tuple[dict[str, Any], ...] = ()
    recompiles: tuple[dict[str, Any], ...] = ()
    fallbacks: tuple[dict[str, Any], ...] | None = None
    recorded_steps: int | None = None
    agreement: dict[str, Any] | None = None
    device: dict[str, Any] | None = None
    versions: dict[str, str] = field(default_factory=dict)


def run_result(folder: Path) -> RunResult:
    """What became of the process whose folder this is."""
    task, report, ending = (_read(folder / name) for name in (TASK_FILE, REPORT_FILE, ENDING_FILE))
    recorded = _opened(folder / RECORDING_FOLDER)
    compiled = _opened(folder / COMPILE_FOLDER) or (recorded if task.get("kind") == "script" else None)
    outcome = _outcome(report, ending)
    stage = "done" if outcome == "completed" else str(report.get("stage", "start"))
    reason, file, line = _why(outcome, report, ending)
    steady = _steady_of_script(recorded) if task.get("kind") == "script" else _steady(report.get("blocks") or [])
    return RunResult(
        outcome=outcome,
        stage=stage,
        reason=reason,
        file=file,
        line=line,
        wall_ns=ending.get("wall_ns"),
        peak_rss_bytes=ending.get("peak_rss_bytes"),
        peak_device_bytes=report.get("peak_device_bytes"),
        first_step_ns=report.get("first_step_ns"),
        **steady,
        compile_ns=_compile_ns(compiled) if compiled is not None else None,
        compilations=report.get("compilations"),
        graph_breaks=tuple(report.get("graph_breaks") or ()),
        recompiles=tuple(report.get("recompiles") or ()),
        fallbacks=_fallbacks(recorded) if recorded is not None else None,
        recorded_steps=report.get("recorded_steps"),
        agreement=report.get("agreement"),
        device=report.get("device"),
        versions=report.get("versions") or {},
    )


def _read(file: Path) -> dict[str, Any]:
    """A file of the process; empty where it did not come to write it."""
    try:
        content = json.loads(file.read_text())
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _opened(folder: Path) -> Recording | None:
    """A recording of the process; None where it left none that can be opened."""
    if not folder.is_dir():
        return None
    try:
        recording = open_recording(folder)
    except StallscopeError:
        return None
    return recording if recording.ranks else None


def _outcome(report: dict[str, Any], ending: dict[str, Any]) -> str:
    if ending.get("outcome") == "out_of_time":
        return "hung"
    if ending.get("outcome") == "killed_by_signal":
        return "crashed"
    completed = ending.get("exit_code") == 0 and report.get("outcome") == "completed"
    return "completed" if completed else "failed"


def _why(outcome: str, report: dict[str, Any], ending: dict[str, Any]) -> tuple[str, str | None, int | None]:
    """Why it did not complete, and where."""
    if outcome == "completed":
        return "", None, None
    if outcome in ("crashed", "hung"):
        place = stack_position(str(ending.get("printed") or ""))
        if outcome == "hung":
            return f"no end after {ending.get('limit_s'):g} s", *place
        killed = ": killed, perhaps for want of memory" if ending.get("signal") == "SIGKILL" else ""
        return f"{ending.get('signal')}{killed}", *place
    error = report.get("error")
    if isinstance(error, dict):
        said = ": ".join(str(part) for part in (error.get("type"), error.get("message")) if part)
        return said, *_innermost(error.get("frames") or [])
    last, at, number = _printed_error(str(ending.get("printed") or ""))
    return last or f"exit code {ending.get('exit_code')}", at, number


def _printed_error(text: str) -> tuple[str, str | None, int | None]:
    """The error of the last traceback that a script printed, and where it was; "" without one."""
    _, found, after = text.rpartition("Traceback (most recent call last):\n")
    if not found:
        return "", None, None
    body = re.match(r"(?:[ \t].*\n|\n)*", after)
    stack, rest = (body[0], after[body.end() :]) if body else ("", after)
    frames = [{"file": one["file"], "line": int(one["line"])} for one in _PRINTED_FRAME.finditer(stack)]
    return rest.partition("\n")[0][:300], *_innermost(frames)


def stack_position(text: str) -> tuple[str | None, int | None]:
    """The innermost line of the user's code in the stacks that faulthandler printed last, else the innermost at all.

    The thread that crashed comes first; where it ran no Python, and at a time limit, it is the main thread, which
    faulthandler prints last.
    """
    blocks = list(_STACK_BLOCK.finditer(text))
    spans = [
        (block["who"], text[block.end() : blocks[number + 1].start() if number + 1 < len(blocks) else len(text)])
        for number, block in enumerate(blocks)
    ]
    current = [body for who, body in spans if who == "Current thread"][-1:]
    for body in [*current, *(body for _, body in reversed(spans))]:
        frames = [{"file": found["file"], "line": int(found["line"])} for found in _STACK_FRAME.finditer(body)]
        if frames:
            return _innermost(frames[::-1])
    return None, None


def _innermost(frames: Sequence[dict[str, Any]]) -> tuple[str | None, int | None]:
    """The last frame of the user's own code, else the last one; frames are outermost first."""
    own = [frame for frame in frames if origin_of(frame.get("file")) == "user"]
    chosen = (own or list(frames))[-1:]
    return (chosen[0].get("file"), chosen[0].get("line")) if chosen else (None, None)


def _steady(blocks: list[dict[str, Any]]) -> dict[str, Any]:
    """The steady step from blocks of steps in which nothing was compiled."""
    calm = [block for block in blocks if not block["compilations"]]
    if not calm:
        return {"step_note": "every block of steps compiled something" if blocks else ""}
    means = sorted(block["ns"] / block["steps"] for block in calm)
    left = len(blocks) - len(calm)
    return {
        "step_ns": round(median(means)),
        "step_low_ns": round(means[0]),
        "step_high_ns": round(means[-1]),
        "steady_steps": sum(block["steps"] for block in calm),
        "step_note": f"{left} of {len(blocks)} blocks compiled something and are left out" if left else "",
    }


def _steady_of_script(recording: Recording | None) -> dict[str, Any]:
    """The steady step of a recorded script, on its first device."""
    if recording is None:
        return {}
    frame = steps(recording)
    rank = recording.ranks[0]
    rows = frame[(frame["rank"] == rank) & (frame["phase"] == STEADY) & (frame["dur"] > 0)]
    if not len(rows):
        return {"step_note": "no steady step is in its recording"}
    first = rows[(rows["device_type"] == rows["device_type"].iloc[0])]
    index = first["device_index"].iloc[0]
    chosen = first[first["device_index"].isna() if index is None or index != index else first["device_index"] == index]
    durations = sorted(int(value) for value in (chosen if len(chosen) else first)["dur"])
    return {
        "step_ns": round(median(durations)),
        "step_low_ns": durations[0],
        "step_high_ns": durations[-1],
        "steady_steps": len(durations),
        "step_note": "recorded, so it includes the cost of recording",
    }


def _compile_ns(recording: Recording) -> int:
    """How long anything was compiled, with compilations inside others once."""
    table = recording.table("slices", columns=["ts", "dur", "category", "kind"]).to_pylist()
    rows = [row for row in table if row["category"] == "compile" and row["kind"] == "complete"]
    return iv.total(
        iv.union(iv.intervals([row["ts"] for row in rows], [row["ts"] + (row["dur"] or 0) for row in rows]))
    )


def _fallbacks(recording: Recording) -> tuple[dict[str, Any], ...]:
    columns = ["op", "root_op", "count", "host_ns", "host_self_ns", "file", "line"]
    frame = fallbacks(recording)[columns]
    plain = frame.astype(object).where(frame.notna(), None).to_dict("records")
    return tuple(
        {str(key): int(value) if key in ("count", "host_ns", "host_self_ns", "line") and value is not None else value
         for key, value in row.items()}
        for row in plain
    )  # fmt: skip
