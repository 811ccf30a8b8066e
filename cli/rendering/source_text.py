"""A line of the user's source, where the recording holds the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...profiler.recording.reader import Recording


def source_text(recording: Recording, file: str | None, line: int | None) -> str:
    """The text of a line without its indentation; "" where the recording does not hold it."""
    if not file or not line:
        return ""
    table = recording.table("sources", columns=["path", "text"])
    for path, text in zip(table["path"].to_pylist(), table["text"].to_pylist(), strict=True):
        if path == file and text:
            lines = text.split("\n")
            return lines[line - 1].strip() if line <= len(lines) else ""
    return ""
