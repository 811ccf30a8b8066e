"""Reading tools that print: one that is run again and again, or one that prints a line each period.

Both are waited for on a thread of their own, so that a slow tool holds nobody.
"""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Sequence

_TIMEOUT_S = 20.0


class RepeatedCommand:
    """Runs a command every period and keeps what it printed last.

    Args:
        command: The command line.
        period_s: From the end of one run to the start of the next.
    """

    def __init__(self, command: Sequence[str], period_s: float) -> None:
        self._command, self._period_s = list(command), period_s
        self._quit = threading.Event()
        self._latest: str | None = None
        self._thread = threading.Thread(target=self._run, name=f"stallscope-{self._command[0]}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def _run(self) -> None:
        while not self._quit.is_set():
            try:
                ran = subprocess.run(
                    self._command, capture_output=True, text=True, timeout=_TIMEOUT_S, stdin=subprocess.DEVNULL,
                    check=True,
                )  # fmt: skip
                self._latest = ran.stdout
            except (OSError, subprocess.SubprocessError):
                pass  # a run that fails gives no numbers; the next may
            self._quit.wait(self._period_s)

    def take(self) -> str | None:
        """What was printed last, once; None where nothing is new."""
        latest, self._latest = self._latest, None
        return latest

    def stop(self) -> None:
        """Ends; a run in progress is not waited for."""
        self._quit.set()


class LineStream:
    """Keeps the last line that a long-running command printed.

    Args:
        command: The command line.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)
        self._latest: str | None = None
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts the command.

        Raises:
            OSError: It is not there.
        """
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
            start_new_session=True,
        )  # fmt: skip
        threading.Thread(target=self._read, name=f"stallscope-{self._command[0]}", daemon=True).start()

    def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        for line in self._process.stdout:
            if line.strip():
                self._latest = line

    def take(self) -> str | None:
        """The last line, once; None where nothing is new."""
        latest, self._latest = self._latest, None
        return latest

    def stop(self) -> None:
        """Ends the command."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=2.0)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._process = None
