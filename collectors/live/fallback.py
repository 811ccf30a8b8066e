"""Ops that the backend itself says it ran on the CPU.

Most backends leave a signature in the trace (``aten::_to_cpu`` under the op) that the analysis finds without any
collector. A backend that keeps a list of its own is asked for it here: names as they appear, without counts or times,
since the list has none. A copy to the CPU that the program asked for (``.cpu()``, ``.item()``) is in no such list.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from ...profiler.recording.collector import CaptureContext

VENDORS = {"torch_neuronx": "get_fallback_ops"}
"""Module -> its function that lists the names of ops that fell back."""


class FallbackCollector:
    """An instant for each op when it first appears in a vendor's list."""

    name = "fallback"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self, vendors: dict[str, str] | None = None) -> None:
        self._vendors = vendors or VENDORS
        self._known: set[tuple[str, str]] = set()

    def available(self) -> str | None:
        """Always: a vendor's package may be imported later."""
        return None

    def start(self, context: CaptureContext) -> None:
        """What fell back before is not this recording's."""
        self._context = context
        self._known = set(self._listed())

    def stop(self) -> None:
        """Looks a last time."""
        self.on_tick()

    def on_tick(self) -> None:
        """Writes what is new in the lists."""
        for module, op in self._listed():
            if (module, op) not in self._known:
                self._known.add((module, op))
                rows = self._context.rows
                rows.slice(
                    op, "fallback", rows.now(), 0, kind="instant", args=json.dumps({"listed by": module}),
                )  # fmt: skip

    def _listed(self) -> list[tuple[str, str]]:
        found: list[tuple[str, str]] = []
        for module, function in self._vendors.items():
            vendor: Any = sys.modules.get(module)
            if vendor is not None and hasattr(vendor, function):
                found += [(module, str(op)) for op in getattr(vendor, function)()]
        return found
