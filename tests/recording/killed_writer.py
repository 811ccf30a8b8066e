"""Writes a recording until it is killed: run by test_kills in a process of its own.

After each part is closed, a line ``rank rows`` says how many rows of ``slices`` are in closed parts; ``rank closed``
says that the rank has its final status.
"""

from __future__ import annotations

import sys

from stallscope.profiler.recording.writer import RecordingWriter

from .builders import slices

PARTS = 25
ROWS = 300


def main(path: str) -> None:
    recording = RecordingWriter.create(path, run_id="run")
    for rank in range(1000):
        writer = recording.rank(rank)
        for part in range(PARTS):
            first = part * ROWS
            writer.append("slices", slices(ROWS, seed=part, rank=rank, first=first))
            writer.append("counters", {"track_id": [part], "ts": [part], "value": [0.5]})
            writer.flush()
            report(f"{rank} {first + ROWS}")
        writer.close()
        report(f"{rank} closed")


def report(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
