"""The converter process: ``python -m stallscope.profiler.session.converter ATTEMPT_FOLDER``.

It reads names of segments from stdin, one a line, converts each into the tables of the recording, and ends at the line
``finish`` or when the program that feeds it is gone. It runs at the lowest priority, beside the program and not in it.
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

from ..recording.segment import RAW
from ..recording.segments import convert_segment, read_sidecar

_NICENESS = 19


def main(arguments: list[str]) -> int:
    """Converts what stdin names; the exit code says whether all went well."""
    attempt, keep_raw = Path(arguments[0]), "--keep-raw" in arguments[1:]
    _lowest_priority()
    failed = 0
    for line in sys.stdin:
        name = line.strip()
        if name == "finish":
            break
        if name:
            failed += not _convert(attempt, name, keep_raw)
    return 1 if failed else 0


def _convert(attempt: Path, name: str, keep_raw: bool) -> bool:
    try:
        segment = read_sidecar(attempt / RAW / Path(name).name)
        convert_segment(attempt, segment, keep_raw=keep_raw)
    except Exception:  # noqa: BLE001 - one bad segment must not keep the next from being converted
        traceback.print_exc()
        return False
    return True


def _lowest_priority() -> None:
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    try:
        os.nice(_NICENESS)
    except (AttributeError, OSError):
        return  # no priorities here


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
