"""Records the two steps on a GPU in each detail, and holds what was recorded against bare torch.profiler.

    python benchmarks/gpu_capture.py --output runs/gpu [--rounds 10] [--sizes small,large] [--device cuda] [--json]

For each size and detail: a recording of a few steps stays in the output folder; its device operations are counted by
name and must be those that bare torch.profiler sees in as many steps; and steps with nothing, with bare torch.profiler
and with a recording are timed in rounds, as ``benchmarks/capture.py`` does. The exit code is 1 where a count differs,
and 2 where there is no such device. With ``--device cpu`` it runs without one, and counts operators instead.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from capture import Ratio, both, in_turn
from capture_workloads import SIZES, Mark, Size, bare_profiler, recorded, timed_block, training_step, unrecorded

from stallscope import open_recording

DETAILS = ("always", "low", "normal", "deep")
STEPS = 5
"""Steps of the recordings that stay, and of those that are counted."""


@dataclass(frozen=True, slots=True)
class Result:
    """One size and detail.

    Attributes:
        size: small or large.
        detail: The level of detail.
        device: What it ran on.
        recording: The folder that stays.
        recording_bytes: Its size.
        operations: Device operations (on the CPU: operators) in the recording.
        expected: The same by bare torch.profiler; None for ``always``, which runs none.
        differences: Name -> (recorded, expected), where they differ.
        ours_over_bare: Ratio of step times by the clock.
        ours_over_none: The same over nothing.
        none_ms: A step alone.
    """

    size: str
    detail: str
    device: str
    recording: str
    recording_bytes: int
    operations: int
    expected: int | None
    differences: dict[str, tuple[int, int]]
    ours_over_bare: Ratio | None
    ours_over_none: Ratio
    none_ms: float


def synchronizer(device: str) -> Callable[[], None]:
    """A function that waits for the device; for the CPU one that does nothing."""
    return torch.accelerator.synchronize if device != "cpu" else lambda: None


def operations_recorded(path: Path, device: str) -> Counter[str]:
    """Device operations of a recording by name; on the CPU, its operators."""
    slices = open_recording(path).table("slices", columns=["name", "raw_category"]).to_pylist()
    return Counter(row["name"] for row in slices if row["raw_category"] in _counted(device))


def operations_of_trace(path: Path, device: str) -> Counter[str]:
    """The same from torch's own JSON, read with the standard library."""
    events = json.loads(path.read_text())["traceEvents"]
    return Counter(one["name"] for one in events if one.get("ph") == "X" and one.get("cat") in _counted(device))


def _counted(device: str) -> tuple[str, ...]:
    return ("cpu_op",) if device == "cpu" else ("kernel", "gpu_memcpy", "gpu_memset")


def counts(step: Callable[[], None], detail: str, device: str, path: Path) -> tuple[Counter[str], Counter[str] | None]:
    """Operations of ``STEPS`` steps by our recording, which stays at ``path``, and by bare torch.profiler."""
    settle = synchronizer(device)
    with recorded(path, detail) as mark:
        _run(step, mark, settle)
    found = operations_recorded(path, device)
    if detail == "always":
        return found, None
    result: list[Any] = []
    with bare_profiler(detail, None if device == "cpu" else device, result) as mark:
        _run(step, mark, settle)
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.json"
        result[0].kineto_results.save(str(trace))
        return found, operations_of_trace(trace, device)


def _run(step: Callable[[], None], mark: Mark, settle: Callable[[], None]) -> None:
    for _ in range(STEPS):
        step()
        settle()
        mark()


def overhead(
    step: Callable[[], None], detail: str, device: str, size: Size, rounds: int
) -> tuple[Ratio, Ratio | None, float]:
    """Ours over nothing, ours over bare torch.profiler (None for ``always``), and a step alone [ms]."""
    settle = synchronizer(device)
    kind = None if device == "cpu" else device
    settings = {"outlier_factor": 1e9} if detail == "always" else {}
    with tempfile.TemporaryDirectory() as folder:
        ways = {
            "none": unrecorded,
            "bare": lambda: bare_profiler(detail, kind),
            "ours": lambda: recorded(Path(folder) / "recording", detail, convert=False, **settings),
        }

        def block(way: str) -> Any:
            with ways[way]() as mark:
                return timed_block(step, mark, size.first, size.steps, settle)

        blocks = in_turn(block, rounds, with_bare=detail != "always")
    alone = 1000 * statistics.median(one.wall_s for way, one in blocks if way == "none")
    bare = None if detail == "always" else both(blocks, "ours", "bare")[0]
    return both(blocks, "ours", "none")[0], bare, alone


def measure(size_name: str, detail: str, options: argparse.Namespace) -> Result:
    """One size and detail: the recording that stays, its counts, and the overhead."""
    step = training_step(SIZES[size_name], options.device)
    for _ in range(9):
        step()
    path = options.output / f"{size_name}-{detail}"
    found, expected = counts(step, detail, options.device, path)
    differences = {}
    if expected is not None:
        names = sorted(found.keys() | expected.keys())
        differences = {name: (found[name], expected[name]) for name in names if found[name] != expected[name]}
    over_none, over_bare, alone = overhead(step, detail, options.device, SIZES[size_name], options.rounds)
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return Result(
        size_name, detail, options.device, str(path), size, found.total(),
        expected.total() if expected is not None else None, differences, over_bare, over_none, alone,
    )  # fmt: skip


def print_table(results: list[Result]) -> None:
    """As Markdown, and each difference."""
    print(
        "| step | detail | alone | ours over bare | ours over nothing | operations | bare | recording |\n"
        + "|---" * 8
        + "|"
    )
    for one in results:
        over_bare = one.ours_over_bare.text() if one.ours_over_bare else ""
        expected = "" if one.expected is None else f"{one.expected:,}"
        print(
            f"| {one.size} | {one.detail} | {one.none_ms:.1f} ms | {over_bare} | {one.ours_over_none.text()} "
            f"| {one.operations:,} | {expected} | {one.recording_bytes / 1e6:.2f} MB |"
        )
    for one in results:
        for name, (found, expected_count) in one.differences.items():
            print(f"{one.size}, {one.detail}: {found} of {expected_count} {name}")


def main() -> int:
    """Measures, prints a table or JSON; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, default=Path("runs/gpu"))
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--sizes", default="small,large")
    parser.add_argument("--details", default=",".join(DETAILS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.device != "cpu" and not (torch.accelerator.is_available() and options.device == _accelerator()):
        print(
            f"There is no {options.device} device here; torch sees {_accelerator()}. Try --device cpu.", file=sys.stderr
        )
        return 2
    torch.set_num_threads(1)
    options.output.mkdir(parents=True, exist_ok=True)
    results = []
    for size in options.sizes.split(","):
        for detail in options.details.split(","):
            results.append(measure(size, detail, options))
            print(f"{size}, {detail}: done", file=sys.stderr)
    if options.json:
        print(json.dumps([asdict(one) for one in results]))
    else:
        print_table(results)
    return 1 if any(one.differences for one in results) else 0


def _accelerator() -> str:
    return torch.accelerator.current_accelerator().type if torch.accelerator.is_available() else "the CPU alone"


if __name__ == "__main__":
    sys.exit(main())
