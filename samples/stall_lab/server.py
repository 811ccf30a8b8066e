"""Runs workloads one after the other, each in a process of its own that starts with torch already imported.

Reads the arguments of ``stall_lab.run`` as one JSON list a line, and answers each with a JSON object: ``status`` (of
the process) and ``wall_s``. Every run is a fork of a process that has imported and registered things and done nothing
else: no thread of the device, of autograd or of OpenMP was ever started in it.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .run import main as run_main

_IMPORTED = ("torch", "torch._dynamo", "torch.utils.data", "torch.optim", "stallscope")


class RunError(RuntimeError):
    """A run ended with an error; the text is the end of what it wrote."""


class Runner:
    """Starts runs in the server, one at a time."""

    def __init__(self, server: subprocess.Popen[str]) -> None:
        self._server = server

    def run(self, arguments: list[str], folder: Path) -> dict[str, Any]:
        """Runs once.

        Args:
            arguments: Of ``stall_lab.run``, without ``--out``.
            folder: Where to; what the run prints is in ``output.txt`` there.

        Returns:
            What the run wrote to ``run.json``.

        Raises:
            RunError: It failed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        assert self._server.stdin is not None and self._server.stdout is not None
        self._server.stdin.write(json.dumps([*arguments, "--out", str(folder)]) + "\n")
        self._server.stdin.flush()
        answer = self._server.stdout.readline()
        if not answer or json.loads(answer)["status"]:
            text = (folder / "output.txt").read_text()[-2000:] if (folder / "output.txt").exists() else "no output"
            raise RunError(f"{' '.join(arguments)}: {text}")
        result: dict[str, Any] = json.loads((folder / "run.json").read_text())
        return result


@contextmanager
def runner() -> Iterator[Runner]:
    """A server for the length of the block."""
    command = [sys.executable, "-m", __spec__.name]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield Runner(server)
        finally:
            assert server.stdin is not None
            server.stdin.close()


def _in_child(arguments: list[str]) -> None:
    """What the forked process does: run, and end as a program ends."""
    folder = Path(arguments[arguments.index("--out") + 1])
    output = os.open(folder / "output.txt", os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    run_main(arguments)


def serve() -> None:
    """Until the input ends."""
    from ..simulated_accelerator import load

    for name in _IMPORTED:
        importlib.import_module(name)
    importlib.import_module("torch").set_num_threads(1)
    load()
    for line in sys.stdin:
        began = time.perf_counter()
        child = os.fork()
        if not child:
            _in_child(json.loads(line))
            return
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"status": status, "wall_s": round(time.perf_counter() - began, 3)}), flush=True)


if __name__ == "__main__":
    serve()
