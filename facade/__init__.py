"""stallscope: why an accelerator waited in a PyTorch step, on which line, and since when.

``profile(path)`` records what runs inside its block. ``open_recording(path)`` opens a recording, or the trace of
another tool, for reading. Nothing heavy is imported until one of them is called: a training script that imports
stallscope loads neither pandas, duckdb nor torch because of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["__version__", "open_recording", "profile", "schedule"]

if TYPE_CHECKING:
    from .profiler.recording.reader import open_recording as open_recording
    from .profiler.session.profile import profile as profile
    from .profiler.session.schedule import schedule as schedule

_LAZY = {
    "open_recording": "stallscope.profiler.recording.reader",
    "profile": "stallscope.profiler.session.profile",
    "schedule": "stallscope.profiler.session.schedule",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
