"""The one recording that this process may be making, and what forked and spawned children know of it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .session import Session

PARENT_VARIABLE = "STALLSCOPE_RECORDING_PROCESS"
"""Set while a process records, to its id: children inherit it and do not record by themselves."""

_current: Session | None = None
_fork_hook_installed = False


def session() -> Session | None:
    """The recording in progress in this process, if any."""
    return _current if _current is not None and _current.active else None


def session_path() -> Path:
    """Where it records to."""
    assert _current is not None
    return _current.path


def enter(started: Session) -> None:
    """Makes a started session the current one, known to children by the environment."""
    global _current, _fork_hook_installed
    _current = started
    os.environ[PARENT_VARIABLE] = str(os.getpid())
    if not _fork_hook_installed and hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_after_fork)
        _fork_hook_installed = True


def leave(ended: Session) -> None:
    """Forgets the session."""
    global _current
    if _current is ended:
        _current = None
        os.environ.pop(PARENT_VARIABLE, None)


def is_child_that_must_not_record(allowed: bool) -> bool:
    """Whether this process was started by one that records, and was not told to record as well."""
    parent = os.environ.get(PARENT_VARIABLE)
    return parent is not None and parent != str(os.getpid()) and not allowed


def _after_fork() -> None:
    global _current
    if _current is not None:
        _current.forget_in_child()
        _current = None
