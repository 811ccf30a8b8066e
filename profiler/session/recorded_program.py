"""``stallscope record``: a program run and recorded without a change to it, and its end passed on exactly."""

from __future__ import annotations

import atexit
import hashlib
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import CodeType, ModuleType

from . import running
from .ending import Ending, die_of
from .environment import place_in_job
from .program import run_program, without_our_frames
from .session import Session
from .settings import Settings


def default_folder(program: str) -> Path:
    """Where a program is recorded if nothing else is said: below ``runs``, the same folder in every rank."""
    stem = Path(program).stem or "program"
    run_id = place_in_job().run_id
    if run_id is None:
        return Path("runs") / f"{stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    return Path("runs") / f"{stem}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def record_program(
    code: CodeType,
    module: ModuleType,
    path: Path,
    settings: Settings,
    *,
    label: str | None = None,
    force: bool = False,
    recorded: Callable[[Session], None] | None = None,
) -> None:
    """Runs the program under a recording, and ends as it ends: normally, or with SystemExit.

    Its uncaught exception is printed as Python prints it, and becomes exit code 1. A Ctrl-C ends the process by SIGINT,
    after the program's exit handlers.

    Args:
        code: The program.
        module: Its ``__main__``.
        path: The recording's folder.
        settings: Resolved settings.
        label: What to call the run.
        force: Replace another run's recording.
        recorded: Called with the ended session.

    Raises:
        StallscopeError: The recording could not begin; the program was not run.
        SystemExit: As the program asked for, or 1 after an exception.
    """
    interrupted = _InterruptAtExit()
    session = Session(path, settings, label=label, force=force, device_when_used=True)
    session.start()
    ending = Ending(session)
    ending.install()
    running.enter(session)
    error: BaseException | None = None
    try:
        run_program(code, module)
        _join_threads()
    except BaseException as raised:  # noqa: BLE001 - the program's own end: shown below, never lost
        error = without_our_frames(raised)
    if error is not None and not isinstance(error, SystemExit):
        sys.excepthook(type(error), error, error.__traceback__)
    with ending.held_back():
        clean = error is None or (isinstance(error, SystemExit) and error.code in (None, 0))
        session.stop("completed" if clean else "failed", error)
        running.leave(session)
    ending.remove()
    if recorded is not None:
        recorded(session)
    if isinstance(error, SystemExit):
        raise error
    if isinstance(error, KeyboardInterrupt):
        interrupted.pending = True
        raise SystemExit(130)
    if error is not None:
        raise SystemExit(1)


def _join_threads() -> None:
    """Waits for the program's threads, as Python does before it exits."""
    for thread in threading.enumerate():
        if not thread.daemon and thread not in (threading.main_thread(), threading.current_thread()):
            thread.join()


class _InterruptAtExit:
    """Lets the process die of SIGINT at the very end, as Python does after a Ctrl-C that nobody caught.

    Exit handlers run last in, first out: this one is registered before the program could register any.
    """

    def __init__(self) -> None:
        self.pending = False
        atexit.register(self._at_exit)

    def _at_exit(self) -> None:
        if self.pending:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError, AttributeError):
                    stream.flush()
            die_of(signal.SIGINT)
