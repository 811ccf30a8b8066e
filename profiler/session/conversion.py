"""The converter process, as the program's process sees it: started at the first segment, never waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from ..recording.segment import SIDECAR, Segment
from ..recording.segments import pending_segments


class Conversion:
    """Hands finished segments to one converter process.

    Args:
        attempt: The folder of the rank's attempt.
        enabled: Otherwise segments stay as they are until the recording is opened.
        keep_raw: Keep torch's JSON after its conversion.
    """

    def __init__(self, attempt: Path, *, enabled: bool, keep_raw: bool) -> None:
        self._attempt = attempt
        self._enabled = enabled
        self._keep_raw = keep_raw
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._problem: str | None = None

    def submit(self, segment: Segment) -> None:
        """Queues a segment. Where the converter is gone, the segment stays for the next reader to convert."""
        if not self._enabled:
            return
        with self._lock:
            if self._process is None and self._problem is None:
                self._start()
            self._tell(f"{segment.name}{SIDECAR}\n")

    def _start(self) -> None:
        command = [sys.executable, "-m", f"{__package__}.converter", str(self._attempt.resolve())]
        if self._keep_raw:
            command.append("--keep-raw")
        # One thread each: the cores belong to the program.
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "ARROW_NUM_THREADS": "1"}
        for name in ("PYTHONSTARTUP", "PYTHONINSPECT", "PYTHONWARNINGS", "LD_PRELOAD"):
            environment.pop(name, None)
        with (self._attempt / "raw" / "converter.log").open("ab") as log:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment,
                    start_new_session=True,  # a Ctrl-C in the terminal is for the program
                )  # fmt: skip
            except OSError as error:
                self._problem = f"the converter could not be started: {error}"

    def _tell(self, line: str) -> None:
        if self._process is None or self._process.stdin is None or self._problem:
            return
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except (OSError, ValueError):
            self._problem = "the converter ended before its time"

    def finish(self, wait_s: float) -> list[tuple[str, str, str]]:
        """Lets the converter finish for at most ``wait_s``, then ends it.

        Returns:
            What is to be told as losses: (kind, severity, detail).
        """
        told = []
        with self._lock:
            self._tell("finish\n")
            if self._process is not None:
                self._end(self._process, wait_s)
        if self._problem:
            told.append(("converter_failed", "warning", self._problem))
        left = [segment.name for segment in pending_segments(self._attempt)]
        if left and self._enabled:
            told.append(
                (
                    "not_converted",
                    "info",
                    f"{len(left)} segments are converted when the recording is opened: {left[0]}, ...",
                )
            )
        return told

    def _end(self, process: subprocess.Popen[bytes], wait_s: float) -> None:
        try:
            code = process.wait(timeout=wait_s) if wait_s else process.poll()
        except subprocess.TimeoutExpired:
            code = None
        if code is None:
            process.kill()  # whatever it was at, its segment counts as not converted
            process.wait()
        elif code != 0:
            self._problem = f"the converter ended with exit code {code}"
        if process.stdin is not None:
            try:
                process.stdin.close()
            except OSError:
                return
