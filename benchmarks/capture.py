"""What recording costs: a step with nothing, with bare torch.profiler, and with stallscope, for each detail.

    python benchmarks/capture.py [--rounds 20] [--sizes small,large] [--details low,deep] [--quick] [--json]

A round runs the three ways one after the other, in an order that changes, so that a busy machine slows all of them. A
block of a round is the mean over its steps; the ratio of two blocks of a round is one observation, and a row shows the
median over the rounds with the 95 % interval of a bootstrap over them. Bare torch.profiler has the options that the
detail gives it in a recording. ``always`` runs no torch.profiler, so it is compared with nothing at all.

Left out of a step's time is one thing only: the pause in which a segment of torch's profiler is ended and exported,
which the recording keeps as ``overhead`` outside of its steps. It is reported in a table of its own, with what comes
after it: the time until the recording is complete, its size, and the step while the converter runs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

BOOTSTRAPS = 4000
STAGES = re.compile(r"stop ([\d.]+) ms, export ([\d.]+) ms, ")


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of step times: the median over the rounds, and the bounds of its 95 % interval."""

    median: float
    low: float
    high: float

    def text(self) -> str:
        """As a cell of a table."""
        return f"{self.median:.3f} ({self.low:.3f} to {self.high:.3f})"


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
    """One size of step with one detail."""

    size: str
    detail: str
    rounds: int
    none_ms: float
    ours_over_none: Ratio
    ours_over_bare: Ratio | None
    bare_over_none: Ratio | None
    converting_over_not: Ratio | None
    afterwards: Afterwards


def ratio(over: list[float], under: list[float]) -> Ratio:
    """The median over rounds of a round's ratio, with a percentile bootstrap over rounds."""
    ratios = np.array(over) / np.array(under)
    drawn = np.random.default_rng(0).choice(ratios, (BOOTSTRAPS, len(ratios)))
    low, high = np.percentile(np.median(drawn, axis=1), (2.5, 97.5))
    return Ratio(float(np.median(ratios)), float(low), float(high))


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


def measure(size_name: str, detail: str, rounds: int) -> Cell:
    """All rounds of one cell; runs in a process of its own."""
    import capture_workloads as workloads
    import torch

    torch.set_num_threads(1)
    size = workloads.SIZES[size_name]
    step = workloads.training_step(size)
    times: dict[str, list[float]] = {"none": [], "ours": []}
    after: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "recording"

        def block(way: str) -> float:
            ways: dict[str, Callable[[], AbstractContextManager[Any]]] = {
                "none": workloads.unrecorded,
                "bare": lambda: workloads.bare_profiler(detail),
                "ours": lambda: workloads.recorded(path, detail),
            }
            with ways[way]() as mark:
                took = workloads.timed_block(step, mark, size.steps)
                ended = time.perf_counter()
            if way == "ours":
                after.append(afterwards(path, time.perf_counter() - ended))
            return took

        if detail != "always":
            times["bare"] = []
        order = list(times)
        for turn in range(rounds + 1):
            random.Random(turn).shuffle(order)
            taken = {way: block(way) for way in order}
            if turn:  # the first round imports and warms up
                for way, took in taken.items():
                    times[way].append(took)
        converting = None if detail == "always" else _while_converting(workloads, step, path, detail, size, rounds)
    return _cell(size_name, detail, times, after[1:], converting)


def _cell(
    size: str, detail: str, times: dict[str, list[float]], after: list[dict[str, float]], converting: Ratio | None
) -> Cell:
    return Cell(
        size, detail, len(times["ours"]), 1000 * statistics.median(times["none"]),
        ratio(times["ours"], times["none"]),
        ratio(times["ours"], times["bare"]) if "bare" in times else None,
        ratio(times["bare"], times["none"]) if "bare" in times else None,
        converting, Afterwards(**{key: statistics.median(row[key] for row in after) for key in after[0]}),
    )  # fmt: skip


def _while_converting(
    workloads: Any, step: Callable[[], None], path: Path, detail: str, size: Any, rounds: int
) -> Ratio:
    """Steps without torch's profiler while the converter is at work on a segment of ours, over steps while it is not.

    A recording of one block's steps is ended; its converter goes on beside the timed steps. The other half of the pair
    is the same without conversion.
    """
    pairs: dict[bool, list[float]] = {True: [], False: []}
    for turn in range(max(2, rounds // 2)):
        for convert in (True, False) if turn % 2 else (False, True):
            schedule = f"0,0,{size.steps},1"
            with workloads.recorded(path, detail, schedule=schedule, convert=convert) as mark:
                workloads.timed_block(step, mark, size.steps - workloads.WARM_UP)
                pairs[convert].append(workloads.timed_block(step, mark, max(1, size.steps // 2)))
    return ratio(pairs[True], pairs[False])


def print_tables(cells: list[Cell]) -> None:
    """As Markdown."""
    print(
        "| step | detail | alone | ours over bare | bare over nothing | ours over nothing |\n|---|---|---|---|---|---|"
    )
    for cell in cells:
        cells_text = [
            one.text() if one else "" for one in (cell.ours_over_bare, cell.bare_over_none, cell.ours_over_none)
        ]
        print(f"| {cell.size} | {cell.detail} | {cell.none_ms:.1f} ms |", " | ".join(cells_text), "|")
    print(
        "\n| step | detail | events | stop | export | longest pause | complete after | bytes an event "
        "| step while converting |\n|---|---|---|---|---|---|---|---|---|"
    )
    for cell in cells:
        told = cell.afterwards
        converting = cell.converting_over_not.text() if cell.converting_over_not else ""
        print(
            f"| {cell.size} | {cell.detail} | {told.events:,.0f} | {told.stop_us:.2f} us | {told.export_us:.2f} us "
            f"| {told.pause_ms:.0f} ms | {told.complete_s:.2f} s ({told.complete_us:.1f} us) "
            f"| {told.bytes_per_event:.1f} | {converting} |"
        )


def main() -> None:
    """Measures each cell in a process of its own, and prints two tables or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--sizes", default="small,large")
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
                cells.append(pool.apply(measure, (size, detail, options.rounds)))
            print(f"{size}, {detail}: done", file=sys.stderr)
    if options.json:
        print(json.dumps([asdict(cell) for cell in cells]))
    else:
        print_tables(cells)


if __name__ == "__main__":
    main()
