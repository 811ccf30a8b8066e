"""Training runs with one known mistake that can be switched off: what an analysis of stalls is measured on.

Each workload is a small honest training script. Its names, places and durations are drawn from a seed, so that nothing
can be learned by heart. What a mistake really costs is *measured*: the same script of the same seed, once with the
mistake and once without, each in a process of its own, compared by the simulated accelerator's own engine log, which no
analysis sees (``benchmarks/attribution.py``).

    python -m stallscope.samples.stall_lab.run slow_loader --regime balanced --seed 3 --out runs/slow_loader
"""

from __future__ import annotations

from .regimes import REGIMES, Regime
from .script import Script, write_script
from .workload import Injection, Workload
from .workloads import WORKLOADS

__all__ = ["REGIMES", "WORKLOADS", "Injection", "Regime", "Script", "Workload", "write_script"]
