"""kill -9 at any moment leaves a recording that opens, says so, and holds every part that was closed."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from stallscope.profiler.recording.reader import open_recording
from stallscope.profiler.recording.schema import TABLES

from .killed_writer import PARTS

REPOSITORY = Path(__file__).resolve().parents[2]


def run_and_kill(path: Path, after_lines: int, delay_s: float) -> list[str]:
    """The lines that a writer reported before it was killed, ``delay_s`` after line number ``after_lines``."""
    command = [sys.executable, "-m", "tests.recording.killed_writer", str(path)]
    process = subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(after_lines)]
    time.sleep(delay_s)
    process.kill()
    lines += process.stdout.readlines()
    process.stdout.close()
    process.wait()
    return [line.strip() for line in lines if line.endswith("\n")]


@pytest.mark.parametrize("seed", range(20))
def test_every_closed_part_survives(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    # Every fourth kill falls near the end of a rank, where its parts are merged.
    near_close = PARTS + chance.randrange(-1, 2)
    after_lines = near_close if seed % 4 == 0 else chance.randrange(1, 2 * PARTS)
    lines = run_and_kill(tmp_path / "run", after_lines, chance.uniform(0, 0.03))

    recording = open_recording(tmp_path / "run")
    reported = {rank: [line.split()[1] for line in lines if line.startswith(f"{rank} ")] for rank in recording.ranks}
    assert sum(map(len, reported.values())) == len(lines) >= after_lines
    for rank in recording.ranks:
        says = reported[rank]
        is_closed = "closed" in says
        status = recording.rank_info(rank)["status"]
        # The kill may fall between the last byte of rank.json and the line that reports it.
        assert status == "completed" if is_closed else status in ("killed", "completed")
        if not says or len(says) < PARTS:
            assert status == "killed"
        found = recording.table("slices", ranks=rank, columns=["slice_id"]).column("slice_id").to_numpy()
        base = rank << 40
        assert sorted(found - base) == list(range(len(found))), "each row once, none of those before it missing"
        assert len(found) >= max((int(rows) for rows in says if rows != "closed"), default=0)
        assert recording.table("counters", ranks=rank).num_rows >= len([rows for rows in says if rows != "closed"])
    assert recording.table("losses").num_rows == 0
    for name in TABLES:
        recording.table(name)
