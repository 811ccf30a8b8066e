"""Mapped files: the same numbers before and after their pages are let go of, and fewer of them in the process."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

from stallscope.analysis.mapped_files import let_go, mapped

COUNT = 4 << 20


def resident(of: Path) -> int:
    """How many KiB of a file are in this process."""
    found, mine = 0, False
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            mine = line.endswith(str(of))
        elif mine and line.startswith("Rss:"):
            found += int(line.split()[1])
    return found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc tells what is in the process")
def test_pages_are_let_go_of_and_read_again(tmp_path: Path) -> None:
    path = tmp_path / "column"
    np.arange(COUNT, dtype=np.int64).tofile(path)
    column = mapped(path, np.int64)
    assert type(column) is np.ndarray
    before = int(column.sum())
    assert resident(path) > COUNT * 8 // 1024 // 2
    assert not let_go(1 << 62)
    assert resident(path) > COUNT * 8 // 1024 // 2
    assert let_go(0)
    assert resident(path) == 0
    assert int(column.sum()) == before == COUNT * (COUNT - 1) // 2
    del column
    assert let_go(0)  # of what is no longer mapped there is nothing to let go of
