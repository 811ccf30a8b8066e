"""The user's own source files as they were: those that occur in recorded stacks and are not of an installed package."""

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
        own = sorted(file for file in self._context.rows.files_seen() if is_users_file(file, foreign))
        for file in own[:MOST_FILES]:
            self._add(Path(file))
        if len(own) > MOST_FILES:
            self._context.loss(self.name, "files_left_out", "info", count=len(own) - MOST_FILES)

    def _add(self, path: Path) -> None:
        try:
            data = path.read_bytes()
        except OSError:
            return  # gone, or never there: a notebook's cell
        text = None
        if len(data) <= LARGEST_BYTES:
            text = self._context.redacted(data.decode("utf-8", errors="replace"))
        self._context.rows.append("sources", path=str(path), sha256=hashlib.sha256(data).hexdigest(), text=text)


def installed_folders() -> tuple[str, ...]:
    """Where Python and installed packages lie."""
    folders = {sys.prefix, sys.base_prefix, *sysconfig.get_paths().values(), site.getusersitepackages()}
    return tuple(sorted(f"{folder}/" for folder in folders if folder))


def is_users_file(file: str, foreign: tuple[str, ...]) -> bool:
    """Whether a frame's file is a source file of the user's project."""
    return (
        file.endswith(".py") and not file.startswith(foreign) and "site-packages" not in file and Path(file).is_file()
    )
