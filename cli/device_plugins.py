"""The vendors' device plug-ins for torch: which are installed, whether torch has their device, and what is recorded."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import metadata

from .check import Check

GROUP = "torch.backends"
"""The entry points by which torch loads device plug-ins when it is imported."""

RECORDS = {
    "neuron": "torch.profiler's trace, and torch_neuronx's own files (NeuronConfig) beside the recording",
    "tpu": "torch.profiler's trace, and torch_tpu's .xplane.pb (TpuProfilerConfig) beside the recording",
}
DISTRIBUTIONS = {"neuron": "torch-neuronx", "tpu": "torch-tpu"}
"""Device type -> the package that brings it."""


def device_plugins(registered: str | None) -> Iterator[Check]:
    """A check for every plug-in that is installed.

    Args:
        registered: The device type that a plug-in has given torch, as torch names it; None if there is none.
    """
    for device, (package, version) in sorted(_installed().items()):
        told = f"{package} {version}"
        if device == registered:
            yield Check("recording", f"plug-in {device}", "ok", f"{told}: {RECORDS.get(device, 'torch.profiler')}")
        else:
            yield Check(
                "recording", f"plug-in {device}", "note", f"{told} is installed, and torch has no device {device!r}",
                "Most plug-ins register their device only where the hardware and its driver are there; import the "
                "package by hand to see its own message.",
            )  # fmt: skip


def _installed() -> dict[str, tuple[str, str]]:
    """Device type -> (package, version)."""
    found = {}
    for entry in metadata.entry_points(group=GROUP):
        if entry.dist is not None:
            name = entry.dist.name
            device = next((device for device, known in DISTRIBUTIONS.items() if _same(known, name)), entry.name)
            found[device] = (name, entry.dist.version)
    for device, package in DISTRIBUTIONS.items():
        try:
            found.setdefault(device, (package, metadata.version(package)))
        except metadata.PackageNotFoundError:
            continue
    return found


def _same(name: str, other: str) -> bool:
    return name.lower().replace("_", "-") == other.lower().replace("_", "-")
