"""The progress line: silent for quick work and for logs, gone when the work is done."""

from __future__ import annotations

import io

from stallscope.cli.rendering.progress import ProgressLine


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_quick_work_shows_nothing() -> None:
    stream, clock = Terminal(), Clock()
    progress = ProgressLine(stream, clock)
    clock.now = 0.9
    progress("reading a.json", 0.5)
    progress.close()
    assert stream.getvalue() == ""


def test_slow_work_shows_a_line_that_goes_away() -> None:
    stream, clock = Terminal(), Clock()
    progress = ProgressLine(stream, clock)
    clock.now = 1.5
    progress("reading a.json", 0.5)
    progress("reading a.json", 0.5)  # too soon after the last to be drawn
    assert stream.getvalue().count("a.json") == 1
    assert "] 50 %" in stream.getvalue().replace("]  50", "] 50")
    progress.close()
    assert stream.getvalue().endswith("\r\x1b[K")


def test_a_log_shows_nothing() -> None:
    stream, clock = io.StringIO(), Clock()
    progress = ProgressLine(stream, clock)
    clock.now = 5.0
    progress("reading a.json", 0.5)
    progress.close()
    assert stream.getvalue() == ""
