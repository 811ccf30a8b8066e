"""Small programs that are recorded, and what the tests look at afterwards."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from stallscope import open_recording
from stallscope.profiler.recording.reader import Recording

STEPS = 6

SHARED_BUILD = "STALLSCOPE_SIMULATED_ACCELERATOR_CACHE"
"""Where tests/conftest.py keeps the one build of the simulated accelerator that all tests share."""


class Training:
    """A small regression that gives the same losses every time."""

    def __init__(self, width: int = 16) -> None:
        torch.set_num_threads(1)
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(width, width), torch.nn.ReLU(), torch.nn.Linear(width, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.inputs, self.targets = torch.randn(8, width), torch.randn(8, 1)

    def step(self) -> float:
        loss = (self.model(self.inputs) - self.targets).pow(2).mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


def losses_without_recording(steps: int = STEPS) -> list[float]:
    training = Training()
    return [training.step() for _ in range(steps)]


def run_python(*arguments: str, cwd: Path, environment: dict[str, str] | None = None, **named: Any) -> Any:
    """Runs this Python with ``arguments`` in ``cwd``; variables of ours do not leak in."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("STALLSCOPE_", "KINETO"))}
    env[SHARED_BUILD] = os.environ[SHARED_BUILD]
    return subprocess.run(
        [sys.executable, *arguments], cwd=cwd, env=env | (environment or {}), capture_output=True, text=True,
        timeout=named.pop("timeout", 120), check=False, **named,
    )  # fmt: skip


def record(*arguments: str, cwd: Path, **named: Any) -> Any:
    """Runs ``stallscope record ARGUMENTS`` in ``cwd``."""
    return run_python("-m", "stallscope", "record", "--quiet", *arguments, cwd=cwd, **named)


def all_losses(recording: Recording) -> list[dict[str, Any]]:
    return recording.table("losses").to_pylist()


def opened(path: Path) -> Recording:
    return open_recording(path)
