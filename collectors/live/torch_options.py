"""What torch's profiler is asked for: by level of detail, and by the accelerator that is there."""

from __future__ import annotations

import inspect
import sys
import warnings
from pathlib import Path
from typing import Any

OPTIONS: dict[str, dict[str, bool]] = {
    "always": {},
    "low": {},
    "normal": {"with_stack": True, "profile_memory": True},
    "deep": {
        "with_stack": True, "profile_memory": True, "record_shapes": True, "with_flops": True, "with_modules": True,
    },
}  # fmt: skip
"""Options of torch's profiler for each level of detail; all others are off."""

_KNOWN_DEVICES = ("cuda", "xpu", "mtia", "hpu")


def accelerator(only_if_initialised: bool) -> str | None:
    """The type of the accelerator to record, as torch's profiler takes it; None for the CPU alone.

    Args:
        only_if_initialised: Do not name one that the program has not used yet: asking the profiler for it could
            initialise its driver, which must not happen in a program that is about to fork.
    """
    import torch

    private = torch._C._get_privateuse1_backend_name()
    for device in (*_KNOWN_DEVICES, private):
        module = getattr(torch, device, None) if device != "privateuseone" else None
        if module is None or (only_if_initialised and not _is_initialised(module)):
            continue
        if _says(module, "is_available"):
            return device
    return None


def _is_initialised(module: Any) -> bool:
    """Whether the program has used the device; a backend that cannot tell counts as used once it is registered."""
    return _says(module, "is_initialized") if hasattr(module, "is_initialized") else True


def _says(module: Any, question: str) -> bool:
    try:
        return bool(getattr(module, question)())
    except Exception:  # noqa: BLE001 - a vendor's module; one that cannot answer has no device
        return False


def vendor_config(device: str | None, folder: Path) -> Any | None:
    """The configuration object of a vendor's own profiler plug-in, which writes its files below ``folder``.

    ``neuron``: torch_neuronx.profiling.NeuronConfig; ``tpu``: torch.tpu.profiler.TpuProfilerConfig. None for every
    other device, and where the vendor's package is not there or takes no folder.
    """
    if device == "neuron":
        profiling = sys.modules.get("torch_neuronx.profiling") or _import("torch_neuronx.profiling")
        return _configured(getattr(profiling, "NeuronConfig", None), profile_output_dir=str(folder / "neuron"))
    if device == "tpu":
        profiler = _import("torch.tpu.profiler") or _import("torch_tpu._internal.profiler")
        return _configured(getattr(profiler, "TpuProfilerConfig", None), run_dir=str(folder / "tpu"))
    return None


def _import(name: str) -> Any | None:
    from importlib import import_module

    try:
        return import_module(name)
    except Exception:  # noqa: BLE001 - a vendor's module may fail in any way where its driver is missing
        return None


def _configured(make: Any, **named: str) -> Any | None:
    if make is None:
        return None
    accepted = inspect.signature(make).parameters
    if not set(named) <= set(accepted) and not any(p.kind is p.VAR_KEYWORD for p in accepted.values()):
        return None
    with warnings.catch_warnings():  # that its interface may change is not the program's concern
        warnings.simplefilter("ignore")
        return make(**named)


def profiler_arguments(detail: str, device: str | None, config: Any | None, *, stacks: bool) -> dict[str, Any]:
    """Arguments of ``torch.autograd.profiler.profile``; without ``stacks`` those of the detail are left out."""
    named: dict[str, Any] = {"use_kineto": True, **OPTIONS[detail]}
    if not stacks:
        named.pop("with_stack", None)
    if device is not None:
        named["use_device"] = device
    if config is not None:
        named["experimental_config"] = config
    return named
