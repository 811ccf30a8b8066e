"""Folders of coverage processes as they leave them, without running one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

SECOND = 1_000_000_000
AGREES = {
    "precision": "float32", "tolerance": 1e-4, "outputs": 1e-6, "loss": 0.0, "gradients": 2e-6,
    "worst_gradient": "head.weight", "not_finite": [], "agrees": True,
}  # fmt: skip
DIFFERS = {**AGREES, "outputs": 0.02, "gradients": 0.5, "agrees": False}
BREAK = {"file": "/home/ana/model.py", "line": 28, "reason": "Dynamic shape operator", "count": 3}
RECOMPILE = {
    "file": "/home/ana/model.py", "line": 41, "function": "forward", "count": 2,
    "reason": "tensor 'tokens' size mismatch at index 0. expected 24, actual 32",
}  # fmt: skip


def blocks(*step_ns: int, compilations: tuple[int, ...] = ()) -> list[dict[str, int]]:
    told = compilations or (0,) * len(step_ns)
    return [{"steps": 5, "ns": 5 * ns, "compilations": n} for ns, n in zip(step_ns, told, strict=True)]


def completed(**facts: Any) -> dict[str, Any]:
    return {"stage": "done", "outcome": "completed", "device": {"type": "cpu", "name": None}, **facts}


def exited(code: int = 0) -> dict[str, Any]:
    return ending("exited", exit_code=code)


def ending(outcome: str, *, exit_code: int | None = None, signal: str | None = None) -> dict[str, Any]:
    return {
        "outcome": outcome, "exit_code": exit_code, "signal": signal, "limit_s": 3.0, "wall_ns": 4 * SECOND,
        "peak_rss_bytes": 300 << 20,
    }  # fmt: skip


def write_process(
    folder: Path,
    report: dict[str, Any] | None,
    ended: dict[str, Any],
    *,
    log: str = "",
    kind: str = "eager",
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "task.json").write_text(json.dumps({"kind": kind}))
    if report is not None:
        (folder / "report.json").write_text(json.dumps(report))
    (folder / "ending.json").write_text(json.dumps({**ended, "printed": log}))
    return folder
