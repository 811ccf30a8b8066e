"""The errors a user can meet. Each says what happened, where, what was expected, and one thing to do.

The command line prints them once, without a traceback (``--debug`` shows it), and exits with ``exit_code``.
"""

from __future__ import annotations


class StallscopeError(Exception):
    """A failure that the user can act on.

    Args:
        message: What happened and where: the file, row or field, and what was expected.
        hint: One thing to do, as a sentence; empty where there is none.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(StallscopeError):
    """The call itself cannot be right: a wrong option, a missing path, two options that exclude each other."""

    exit_code = 2


class FormatError(StallscopeError):
    """A file is not what it should be: no trace, no recording, or one that a newer version wrote."""


class CaptureError(StallscopeError):
    """A recording cannot be started or written."""


class QueryError(StallscopeError):
    """A SQL statement was refused, failed, or ran out of its time or memory."""
