"""Graph breaks and recompilations with their reasons and lines, as torch._dynamo itself reports them.

It logs both (``TORCH_LOGS=graph_breaks,recompiles``) with the exact line of the user's code, which none of its counters
holds. A logging handler reads the messages; compilation is not changed by it.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import Any

LOG_NAMES = "graph_breaks,recompiles"
"""What ``TORCH_LOGS`` must name before torch is imported."""

_BREAK = re.compile(r"Graph break .*?in user code at (?P<file>.+):(?P<line>\d+)\s*$", re.MULTILINE)
_RECOMPILED = re.compile(r"Recompiling function (?P<function>\S+) in (?P<file>.+):(?P<line>\d+)\s*$", re.MULTILINE)
_GUARD = re.compile(r"^\s*-\s*(?:\d+/\d+:\s*)?(?P<reason>.+)$", re.MULTILINE)
_REASON = re.compile(r"(?:Graph Break )?Reason: (?P<reason>.+)", re.DOTALL)
_AFTER_REASON = re.compile(r"\n\s*(?:Explanation|Hint|Developer debug context|User code traceback):|\n\n\s*For more")
_LONGEST = 300
_MOST = 200


class CompileNotes(logging.Handler):
    """Collects graph breaks, recompilations, and how many compilations there were.

    Attributes:
        graph_breaks: ``{file, line, reason, count}``, each place and reason once.
        recompiles: ``{file, line, function, reason, count}``; file and line are where the function begins.
        compilations: Compilations that have begun.
    """

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.graph_breaks: list[dict[str, Any]] = []
        self.recompiles: list[dict[str, Any]] = []
        self.compilations = 0
        self._lock_notes = threading.Lock()
        self._removed = False

    def attach(self) -> None:
        """Begins; torch must have been imported with ``LOG_NAMES`` in ``TORCH_LOGS``."""
        from torch._dynamo.callback import callback_handler

        logging.getLogger("torch._dynamo").addHandler(self)
        callback_handler.register_start_callback(self._count)

    def detach(self) -> None:
        """Ends; what compiles later is not noted."""
        self._removed = True
        logging.getLogger("torch._dynamo").removeHandler(self)

    def _count(self, _arguments: Any = None) -> None:
        if not self._removed:
            self.compilations += 1

    def emit(self, record: logging.LogRecord) -> None:
        """Takes one message of torch._dynamo; other messages are left alone."""
        if not record.name.endswith(("__graph_breaks", "__recompiles")):
            return
        text = record.getMessage()
        with self._lock_notes:
            if found := graph_break_of(text):
                _add(self.graph_breaks, found)
            elif found := recompile_of(text):
                _add(self.recompiles, found)


def graph_break_of(text: str) -> dict[str, Any] | None:
    """The file, line and reason of a graph break in a message; None for another message."""
    place = _BREAK.search(text)
    if place is None:
        return None
    told = _REASON.search(text, place.end())
    reason = _AFTER_REASON.split(told["reason"], maxsplit=1)[0] if told else ""
    # The first paragraph says what was traced, the last what could not be.
    paragraphs = [part for part in reason.split("\n\n") if part.strip()]
    return {"file": place["file"], "line": int(place["line"]), "reason": _one_line(paragraphs[-1:])}


def recompile_of(text: str) -> dict[str, Any] | None:
    """The function of a recompilation and the guard that failed; None for another message."""
    place = _RECOMPILED.search(text)
    if place is None:
        return None
    guard = _GUARD.search(text, place.end())
    reason = re.sub(r"\s+# .*", "", guard["reason"]) if guard else ""
    return {
        "file": place["file"],
        "line": int(place["line"]),
        "function": place["function"],
        "reason": _one_line([reason]),
    }


def _one_line(paragraphs: list[str]) -> str:
    return " ".join(" ".join(paragraphs).split())[:_LONGEST]


def _add(notes: list[dict[str, Any]], found: dict[str, Any]) -> None:
    for known in notes:
        if all(known[key] == value for key, value in found.items()):
            known["count"] += 1
            return
    if len(notes) < _MOST:
        notes.append({**found, "count": 1})
