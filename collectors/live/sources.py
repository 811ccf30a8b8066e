"""The user's own source files as they were: those that occur in recorded stacks and are not of an installed package.

What torch's profiler has traced is not read before the recording is converted. Where it traces Python's calls, the
modules of the user's that are loaded may all be in there, and are kept, too.
"""

from __future__ import annotations

import hashlib
import site
import sys
import sysconfig
from pathlib import Path

from ...profiler.recording.collector import CaptureContext

LARGEST_BYTES = 1 << 20
"""A larger file is listed by its digest, without its text."""

MOST_FILES = 500


class SourcesCollector:
    """Writes ``sources`` at the end. Switched off by ``sources = false``."""

    name = "sources"
    details = ("always", "low", "normal", "deep")
    needs: tuple[str, ...] = ()

    def available(self) -> str | None:
        """Always."""
        return None

    def start(self, context: CaptureContext) -> None:
        """Notes the session."""
        self._context = context

    def stop(self) -> None:
        """Reads and writes the files."""
        if not self._context.settings["sources"]:
            return
        foreign = installed_folders()
        seen = self._context.rows.files_seen()
        maybe = loaded_files() - seen if self._calls_were_traced() else set()
        own = [file for files in (seen, maybe) for file in sorted(files) if is_users_file(file, foreign)]
        for file in own[:MOST_FILES]:
            self._add(Path(file))
        if len(own) > MOST_FILES:
            self._context.loss(self.name, "files_left_out", "info", count=len(own) - MOST_FILES)

    def _calls_were_traced(self) -> bool:
        traced = self._context.torch_recorded[1] > 0 or self._context.torch_recording_since is not None
        return traced and self._context.detail != "low"

    def _add(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError:
            return  # gone, or never there: a notebook's cell
        text = None
        if len(data) <= LARGEST_BYTES:
            text = self._context.redacted(data.decode("utf-8", errors="replace"))
        self._context.rows.append("sources", path=str(path), sha256=hashlib.sha256(data).hexdigest(), text=text)


def loaded_files() -> set[str]:
    """The files of all loaded modules but the profiler's own."""
    package = __name__.partition(".")[0]
    files = set()
    for known_as, module in list(sys.modules.items()):
        facts = getattr(module, "__dict__", {})  # programs put other objects there; attributes may run their code
        # A module that was started with -m is known as __main__ alone.
        name = getattr(facts.get("__spec__"), "name", None) or known_as
        file = facts.get("__file__")
        if isinstance(file, str) and (not name.startswith(f"{package}.") or name.startswith(f"{package}.samples.")):
            files.add(file)
    return files


def installed_folders() -> tuple[str, ...]:
    """Where Python and installed packages lie."""
    folders = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), site.getusersitepackages()}
    return tuple(sorted(f"{folder}/" for folder in folders if folder))


def is_users_file(file: str, foreign: tuple[str, ...]) -> bool:
    """Whether a frame's file is a source file of the user's project."""
    return (
        file.endswith(".py") and not file.startswith(foreign) and "site-packages" not in file and Path(file).is_file()
    )
