"""What ``stallscope summary`` of a recording costs, and how that grows with its size.

    python benchmarks/summary.py RECORDING [RECORDING ...] [--rounds 5]

Each summary runs in a process of its own, with an empty cache, the recordings one after the other within a round, so
that a busy machine slows all of them. Shown are the medians and the least over the rounds of CPU-seconds (user and
system, the interpreter and its imports included), the most resident memory, and CPU-seconds against the first
recording: of recordings of the same kind of run that ratio should be that of their slices.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

from ingest import run

OURS = "import sys; from stallscope.cli.main import main; main(['summary', sys.argv[1]])"


@dataclass(frozen=True, slots=True)
class Cost:
    """What the summary of one recording took."""

    recording: str
    events: int
    slices: int
    cpu_s: float
    least_cpu_s: float
    peak_mb: float


def sizes(recording: Path) -> tuple[int, int]:
    """The events that a recording was imported from, and its slices."""
    import pyarrow.parquet as pq

    told = [json.loads(path.read_text()) for path in recording.rglob("rank.json")]
    events = sum(sum(rank.get("import", {}).get("events", {}).values()) for rank in told)
    return events, sum(pq.read_metadata(path).num_rows for path in recording.glob("ranks/*/*/slices/*.parquet"))


def measure(recordings: list[Path], rounds: int) -> list[Cost]:
    """One row a recording."""
    found: dict[Path, list[tuple[float, float]]] = {path: [] for path in recordings}
    for _ in range(rounds):
        for path, costs in found.items():
            with tempfile.TemporaryDirectory() as cache:
                os.environ["XDG_CACHE_HOME"] = cache
                costs.append(run([sys.executable, "-c", OURS, str(path)]))
    return [
        Cost(
            path.name,
            *sizes(path),
            statistics.median(cpu for cpu, _ in costs),
            min(cpu for cpu, _ in costs),
            statistics.median(peak for _, peak in costs),
        )
        for path, costs in found.items()
    ]


def main() -> None:
    """Prints a table, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = measure(options.recordings, options.rounds)
    if options.json:
        print(json.dumps([asdict(row) for row in rows]))
        return
    print("| recording | events | slices | CPU-seconds | least | peak MB | slices, against the first | CPU-seconds |")
    print("|---|---|---|---|---|---|---|---|")
    first = rows[0]
    for row in rows:
        more = f"{row.slices / max(first.slices, 1):.2f} | {row.cpu_s / first.cpu_s:.2f}"
        costs = f"{row.cpu_s:.2f} | {row.least_cpu_s:.2f} | {row.peak_mb:.0f}"
        print(f"| {row.recording} | {row.events:,} | {row.slices:,} | {costs} | {more} |")


if __name__ == "__main__":
    main()
