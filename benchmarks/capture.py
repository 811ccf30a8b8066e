"""What recording costs: a step with nothing, with bare torch.profiler, and with stallscope, for each detail.

    python benchmarks/capture.py [--rounds 20] [--sizes small,large] [--details low,deep] [--quick] [--json]

How fast a machine is drifts by a tenth within a second, so what is compared stands next to each other: nothing, bare,
recorded, bare, nothing, and so on. The mean step of a block is held against those of the same way's blocks right before
and after; a row shows the geometric mean of the middle 80 % of these ratios, with the 95 % interval of a bootstrap over
them, once by the clock and once in CPU-seconds of the process, which on a busy machine are the steadier measure.
Bare torch.profiler has the options that the detail gives it in a recording. ``always`` runs no torch.profiler, so it is
compared with nothing at all; its windows are switched off.

The first steps of each block (eight small ones, two large ones) pay for the start of a recording, or of the profiler,
and stand in a column of their own. Left out of the other steps' time is one thing only: the pause in which a segment of
torch's profiler is ended and exported, which the recording keeps as ``overhead`` outside of its steps. It is reported
in a table of its own, from some further recordings, with what comes after it: the time until the recording is complete,
its size, and the step while the converter runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

BOOTSTRAPS = 4000
MOST_AFTERWARDS = 8
STAGES = re.compile(r"stop ([\d.]+) ms, export ([\d.]+) ms, ")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of step times: the mean over the rounds, and the bounds of its 95 % interval."""

    mean: float
    low: float
    high: float

    def text(self) -> str:
        """As a cell of a table."""
        return f"{self.mean:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True, slots=True)
class Afterwards:
    """What a recording costs besides its steps; medians over the rounds.

    Attributes:
        events: Rows of slices and memory in a recording.
        stop_us: Ending torch's profiler [us an event].
        export_us: Writing its JSON [us an event].
        pause_ms: The longest of a round's pauses.
        complete_s: From the end of the block until the recording is complete.
        complete_us: The same [us an event].
        bytes_per_event: On disk.
    """

    events: float
    stop_us: float
    export_us: float
    pause_ms: float
    complete_s: float
    complete_us: float
    bytes_per_event: float


@dataclass(frozen=True, slots=True)
class Cell:
    """One size of step with one detail. Of each comparison: by the clock, and in CPU-seconds.

    ``starting_ms`` is by how much the first steps of a recording, together, take longer than those of bare
    torch.profiler (``always``: of nothing), in the median.
    """

    size: str
    detail: str
    rounds: int
    none_ms: float
    none_cpu_ms: float
    starting_ms: float
    ours_over_none: tuple[Ratio, Ratio]
    ours_over_bare: tuple[Ratio, Ratio] | None
    bare_over_none: tuple[Ratio, Ratio] | None
    converting_over_not: tuple[Ratio, Ratio] | None
    afterwards: Afterwards


def middle(logs: np.ndarray) -> np.ndarray:
    """The geometric mean of ratios given as logarithms, without a tenth at either end: a hiccup hits single rounds."""
    cut = logs.shape[-1] // 10
    kept = np.sort(logs, axis=-1)[..., cut : logs.shape[-1] - cut]
    return np.exp(kept.mean(axis=-1))


def ratio(logs: np.ndarray) -> Ratio:
    """The mean of ratios given as logarithms, with a percentile bootstrap."""
    drawn = np.random.default_rng(0).choice(logs, (BOOTSTRAPS, len(logs)))
    low, high = np.percentile(middle(drawn), (2.5, 97.5))
    return Ratio(float(middle(logs)), float(low), float(high))


def against(sequence: list[tuple[str, float]], over: str, under: str) -> np.ndarray:
    """Logarithms of the ratio of each block of one way to the last of another before it and the first one after it.

    Args:
        sequence: Way and time of all blocks, as they followed each other.
        over: The way above the line.
        under: The way below it.
    """
    logs = []
    for at, (way, took) in enumerate(sequence):
        before = next((other for name, other in reversed(sequence[:at]) if name == under), None)
        after = next((other for name, other in sequence[at + 1 :] if name == under), None)
        if way == over and before is not None and after is not None:
            logs.append(np.log(took) - (np.log(before) + np.log(after)) / 2)
    return np.array(logs)


def afterwards(path: Path, complete_s: float) -> dict[str, float]:
    """What one recording tells of itself."""
    from stallscope import open_recording

    recording = open_recording(path)
    events = sum(recording.table(name).num_rows for name in ("slices", "memory"))
    paused = [row for row in recording.table("losses").to_pylist() if row["kind"] == "paused"]
    stages = [tuple(float(ms) for ms in found.groups()) for row in paused if (found := STAGES.search(row["detail"]))]
    stored = sum(file.stat().st_size for file in path.rglob("*.parquet"))
    return {
        "events": events,
        "stop_us": 1000 * sum(stop for stop, _ in stages) / events,
        "export_us": 1000 * sum(export for _, export in stages) / events,
        "pause_ms": max((row["dur"] / 1e6 for row in paused), default=0.0),
        "complete_s": complete_s,
        "complete_us": 1e6 * complete_s / events,
        "bytes_per_event": stored / events,
    }


def in_turn(block: Callable[[str], Any], rounds: int, *, with_bare: bool) -> list[tuple[str, Any]]:
    """The blocks of all rounds, as they followed each other; those of a first round, which imports, are left out."""
    ways = ("none", "bare", "ours", "bare") if with_bare else ("none", "ours")
    for way in ways:
        block(way)
    return [(way, block(way)) for way in (*ways * rounds, "none")]


def both(sequence: list[tuple[str, Any]], over: str, under: str) -> tuple[Ratio, Ratio]:
    """The ratio of two ways by the clock, and in CPU-seconds."""
    by_clock = [(way, block.wall_s) for way, block in sequence]
    by_cpu = [(way, block.cpu_s) for way, block in sequence]
    return ratio(against(by_clock, over, under)), ratio(against(by_cpu, over, under))


def starting_ms(blocks: list[tuple[str, Any]], under: str) -> float:
    """By how much the first steps take longer in a recording than in another way, in the median of the blocks."""
    of_way = {name: [block.starting_s for way, block in blocks if way == name] for name in ("ours", under)}
    return 1000 * (statistics.median(of_way["ours"]) - statistics.median(of_way[under]))


class Measurement:
    """One cell, measured in this process.

    Args:
        size_name: small or large.
        detail: The level of detail.
        folder: For recordings.
        steps: Timed in a block, if not as the size says.
    """

    def __init__(self, size_name: str, detail: str, folder: Path, steps: int | None = None) -> None:
        import capture_workloads
        import torch

        torch.set_num_threads(1)
        self.workloads, self.detail = capture_workloads, detail
        size = capture_workloads.SIZES[size_name]
        self.size = replace(size, steps=steps or size.steps)
        self.step = capture_workloads.training_step(self.size)
        self.path = folder / "recording"
        self.is_light = detail == "always"

    def block(self, way: str) -> Any:
        """The mean step of one block run in one of the three ways."""
        settings = {"outlier_factor": 1e9} if self.is_light else {}
        ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {
            "none": self.workloads.unrecorded,
            "bare": lambda: self.workloads.bare_profiler(self.detail),
            "ours": lambda: self.workloads.recorded(self.path, self.detail, convert=False, **settings),
        }
        with ways[way]() as mark:
            return self.workloads.timed_block(self.step, mark, self.size.first, self.size.steps)

    def rounds(self, rounds: int) -> list[tuple[str, Any]]:
        """The blocks of all rounds and their ways."""
        return in_turn(self.block, rounds, with_bare=not self.is_light)

    def afterwards(self, times: int) -> Afterwards:
        """What some complete recordings say of themselves."""
        found = []
        for _ in range(times):
            with self.workloads.recorded(self.path, self.detail) as mark:
                self.workloads.timed_block(self.step, mark, self.size.first, self.size.steps)
                ended = time.perf_counter()
            found.append(afterwards(self.path, time.perf_counter() - ended))
        return Afterwards(**{key: statistics.median(one[key] for one in found) for key in found[0]})

    def converting(self, pairs: int) -> tuple[Ratio, Ratio]:
        """Steps without torch's profiler while the converter is at work on a segment, over steps while it is not.

        A schedule ends the segment of a block's steps; the converter goes on beside the steps that are timed then. The
        other half of a pair is the same without conversion.
        """
        blocks = []
        first, steps = self.size.first, self.size.steps
        for convert in (*(False, True) * pairs, False):
            schedule = f"0,0,{first + steps},1"
            with self.workloads.recorded(self.path, self.detail, schedule=schedule, convert=convert) as mark:
                self.workloads.timed_block(self.step, mark, first, steps)
                took = self.workloads.timed_block(self.step, mark, 0, max(1, steps // 2))  # at once
                blocks.append((str(convert), took))
        return both(blocks, str(True), str(False))


def measure(size: str, detail: str, rounds: int, steps: int | None = None) -> Cell:
    """All of one cell."""
    with tempfile.TemporaryDirectory() as folder:
        here = Measurement(size, detail, Path(folder), steps)
        blocks = here.rounds(rounds)
        alone = [block for way, block in blocks if way == "none"]
        few = min(max(2, rounds // 5), MOST_AFTERWARDS)
        return Cell(
            size, detail, rounds, 1000 * statistics.median(one.wall_s for one in alone),
            1000 * statistics.median(one.cpu_s for one in alone),
            starting_ms(blocks, "none" if here.is_light else "bare"),
            both(blocks, "ours", "none"),
            None if here.is_light else both(blocks, "ours", "bare"),
            None if here.is_light else both(blocks, "bare", "none"),
            None if here.is_light else here.converting(few), here.afterwards(few),
        )  # fmt: skip


def print_tables(cells: list[Cell]) -> None:
    """As Markdown."""
    print("| step | detail | measure | alone | ours over bare | bare over nothing | ours over nothing ", end="")
    print("| first steps |\n" + "|---" * 8 + "|")
    for cell in cells:
        for measure_of, alone in ((0, cell.none_ms), (1, cell.none_cpu_ms)):
            ratios = (cell.ours_over_bare, cell.bare_over_none, cell.ours_over_none)
            told = " | ".join(one[measure_of].text() if one else "" for one in ratios)
            first = "" if measure_of else f"{cell.starting_ms:+.1f} ms"
            print(
                f"| {cell.size} | {cell.detail} | {('clock', 'CPU')[measure_of]} | {alone:.1f} ms | {told} | {first} |"
            )
    print("\n| step | detail | events | stop | export | longest pause | complete after | bytes an event ", end="")
    print("| step while converting |\n" + "|---" * 9 + "|")
    for cell in cells:
        told_after = cell.afterwards
        converting = cell.converting_over_not[1].text() if cell.converting_over_not else ""
        print(
            f"| {cell.size} | {cell.detail} | {told_after.events:,.0f} | {told_after.stop_us:.2f} us "
            f"| {told_after.export_us:.2f} us | {told_after.pause_ms:.0f} ms "
            f"| {told_after.complete_s:.2f} s ({told_after.complete_us:.1f} us an event) "
            f"| {told_after.bytes_per_event:.1f} | {converting} |"
        )


def main() -> None:
    """Measures each cell in a process of its own, and prints two tables or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--steps", type=int, help="timed in a block; default: 25 small ones, 4 large ones")
    parser.add_argument("--details", default="always,low,normal,deep")
    parser.add_argument("--quick", action="store_true", help="three rounds of the small step: does it run?")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.quick:
        options.rounds, options.sizes = 3, "small"
    cells = []
    for size in options.sizes.split(","):
        for detail in options.details.split(","):
            with multiprocessing.get_context("spawn").Pool(1) as pool:
                cells.append(pool.apply(measure, (size, detail, options.rounds, options.steps)))
            print(f"{size}, {detail}: done", file=sys.stderr)
    if options.json:
        print(json.dumps([asdict(cell) for cell in cells]))
    else:
        print_tables(cells)


if __name__ == "__main__":
    main()
