"""How often ``compare_runs`` says faster or slower where nothing changed, and how often it finds a true change.

    python benchmarks/regression.py [--comparisons 2000] [--runs 5] [--new-runs 5] [--json]

Every run has an effect of its own (log-normal, 1 % standard deviation) and a few hundred steps of one of four kinds.
Seeds are fixed: the same command prints the same table.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter

import numpy as np
from numpy.typing import NDArray

from stallscope.analysis.run_statistics import compare_runs

STEPS = 300
RUN_SD = 0.01
VERDICTS = ("faster", "slower", "no difference beyond the margin", "cannot tell")


def autoregressive(rng: np.random.Generator, rho: float) -> NDArray[np.float64]:
    """Steps around 1 with 5 % standard deviation, each drawn towards the one before."""
    noise = rng.normal(0, 0.05 * np.sqrt(1 - rho * rho), STEPS)
    steps = np.empty(STEPS)
    last = rng.normal(0, 0.05)
    for n in range(STEPS):
        last = rho * last + noise[n]
        steps[n] = 1 + last
    return steps


def bimodal(rng: np.random.Generator) -> NDArray[np.float64]:
    """Nine steps in ten near 1, the tenth near 1.4 (a checkpoint, a slow batch)."""
    return np.where(rng.random(STEPS) < 0.1, 1.4, 1.0) + rng.normal(0, 0.02, STEPS)


KINDS = {
    "autocorrelated .5": lambda rng: autoregressive(rng, 0.5),
    "autocorrelated .8": lambda rng: autoregressive(rng, 0.8),
    "log-normal": lambda rng: rng.lognormal(0, 0.2, STEPS),
    "bimodal": bimodal,
}


def run_value(rng: np.random.Generator, kind: str, factor: float, statistic: str) -> float:
    """One run's value: its mean or median step, times the run's own effect."""
    steps = KINDS[kind](rng) * np.exp(rng.normal(0, RUN_SD)) * factor
    return float(np.mean(steps) if statistic == "mean" else np.median(steps))


def verdicts(
    kind: str, factor: float, margin: float, runs: tuple[int, int], comparisons: int, statistic: str
) -> Counter[str]:
    """Verdicts over many comparisons of so many runs on the base and the new side, the new one slower by ``factor``."""
    seed = [sorted(KINDS).index(kind), round(factor * 1000), round(margin * 1000), runs[0], statistic == "median"]
    seed += [runs[1]] if runs[1] != runs[0] else []
    rng = np.random.default_rng(seed)
    counts: Counter[str] = Counter()
    for _ in range(comparisons):
        base = [run_value(rng, kind, 1.0, statistic) for _ in range(runs[0])]
        new = [run_value(rng, kind, factor, statistic) for _ in range(runs[1])]
        counts[compare_runs(base, new, margin_frac=margin).verdict] += 1
    return counts


def main() -> None:
    """Prints one row for each kind of step, change and margin."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=2000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--new-runs", type=int, help="runs of the new side, where it has another number")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = options.runs, options.new_runs or options.runs
    rows = []
    for statistic in ("mean", "median"):
        for kind in KINDS:
            for factor in (1.0, 1.05):
                for margin in (0.0, 0.02):
                    counts = verdicts(kind, factor, margin, runs, options.comparisons, statistic)
                    row = {"statistic": statistic, "steps": kind, "true_change": factor - 1, "margin": margin}
                    rows.append(row | {name: counts[name] for name in VERDICTS})
    if options.json:
        print(json.dumps(rows))
        return
    print("| statistic | steps | true change | margin |", " | ".join(VERDICTS), "|")
    print("|---" * (4 + len(VERDICTS)) + "|")
    for row in rows:
        of = f"| {row['statistic']} | {row['steps']} | {row['true_change']:+.0%} | {row['margin']:.0%} |"
        print(of, " | ".join(str(row[name]) for name in VERDICTS), "|")


if __name__ == "__main__":
    main()
