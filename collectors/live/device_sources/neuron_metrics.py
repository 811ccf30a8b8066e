"""Counts of torch_neuronx's compilation cache, from the package itself: what was compiled anew, what was found.

They are there while the program runs with ``TORCH_NEURONX_METRICS_ENABLED=1``; the package is never imported here.
"""

from __future__ import annotations

import sys
from typing import Any

from .reading import DeviceDescription, Reading

DEVICE_TYPE = "neuron"
SWITCH = "TORCH_NEURONX_METRICS_ENABLED=1"

COUNTERS = {
    "CompilationCache.InMemoryHits": "compiled graphs found in memory",
    "CompilationCache.InMemoryMisses": "compiled graphs not in memory",
    "CompilationCache.PersistentHits": "compiled graphs found on disk",
    "CompilationCache.PersistentMisses": "compiled graphs not on disk",
    "CompilationCache.Evictions": "compiled graphs evicted",
    "CompilationCache.TotalCompilations": "compilations",
}
"""The package's counter -> what it is called here."""


class NeuronMetricsSource:
    """The cache's counters, as they grow."""

    name = "torch_neuronx.metrics"

    def available(self) -> str | None:
        """Whether the program has imported the package, and it counts."""
        metrics = _metrics()
        if metrics is None:
            return "torch_neuronx is not imported"
        return None if _names(metrics) else f"torch_neuronx counts nothing; run with {SWITCH}"

    def start(self) -> None:
        """Nothing to open."""

    def stop(self) -> None:
        """Nothing to close."""

    def devices(self) -> list[DeviceDescription]:
        """None: the cache is the process's."""
        return []

    def read(self) -> list[Reading]:
        """The counters that exist so far."""
        metrics = _metrics()
        if metrics is None:
            return []
        return [
            Reading(COUNTERS[name], "", float(metrics.get_counter_value(name)), DEVICE_TYPE, None)
            for name in _names(metrics)
        ]


def _metrics() -> Any | None:
    return getattr(sys.modules.get("torch_neuronx"), "metrics", None)


def _names(metrics: Any) -> list[str]:
    return [name for name in metrics.get_counter_names() if name in COUNTERS]
