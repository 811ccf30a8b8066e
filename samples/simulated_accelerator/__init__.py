"""A simulated accelerator: the PyTorch device ``sim``, for demos, tests and the stall lab.

It is a real device to PyTorch, registered through PrivateUse1 as accelerators outside of PyTorch's tree are: tensors
live on ``sim:0`` and ``sim:1``, ops are queued and run asynchronously on queues of their kind, and streams, events, the
caching allocator, ``torch.accelerator``, ``torch.profiler`` and ``torch.distributed`` work. Results are computed for
real on the host; the *time* each operation takes is simulated, with speeds that can be set, so that a step behaves the
same on a laptop and in CI.

    import stallscope.samples.simulated_accelerator as sim

    sim.load()                      # builds on first use, about a minute
    model.to("sim")
    ...
    log = sim.engine_log()          # what each queue really did, and why it waited

Importing this package needs neither torch nor a compiler; ``load()`` does.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib
import importlib.util
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ...profiler.recording.errors import CaptureError, UsageError
from . import build as _build
from .engine_log import IDLE_REASONS, EngineLog, from_columns
from .settings import Settings

__all__ = [
    "DEVICES",
    "IDLE_REASONS",
    "QUEUES",
    "EngineLog",
    "Settings",
    "clear_error",
    "configure",
    "engine_log",
    "fallback_counts",
    "forget_compiled",
    "is_available",
    "is_loaded",
    "kernel_names",
    "load",
    "reset_engine_log",
    "reset_fallback_counts",
    "restored_settings",
    "set_engine_log_capacity",
    "set_speed",
    "settings",
    "unavailable_reason",
    "without_kernel",
]

DEVICES = 2
"""Number of devices: ``sim:0`` and ``sim:1``."""

QUEUES = ("tensor", "vector", "dma_in", "dma_out", "collective")
"""The queues of a device: matrix products and convolutions, everything else, copies in and out, collectives."""

_native: Any = None
_loading = threading.Lock()


def unavailable_reason() -> str | None:
    """Why ``load()`` would fail here, as a sentence; None where it should work."""
    if _native is not None:
        return None
    return _build.unavailable_reason()


def is_available() -> bool:
    """Whether the device can be loaded here: Linux, torch, and a compiler or a library built before."""
    return unavailable_reason() is None


def is_loaded() -> bool:
    """Whether this process has the device."""
    return _native is not None


def load(progress: Callable[[str], None] | None = None) -> None:
    """Registers the device ``sim`` with PyTorch, building it first where that has not been done; idempotent.

    Args:
        progress: Is told, in a sentence, when there is something to wait for.

    Raises:
        CaptureError: There is no torch or compiler, the build failed, or the process has another PrivateUse1 device.
    """
    global _native
    with _loading:
        if _native is not None:
            return
        path = _build.build(progress)
        import torch

        name = torch._C._get_privateuse1_backend_name()
        if name != "privateuseone":
            raise CaptureError(
                f"PyTorch takes one device of this kind for each process, and this one has {name!r} already.",
                hint="Load the simulated accelerator in a process of its own.",
            )
        spec = importlib.util.spec_from_file_location(_build.MODULE_NAME, path)
        assert spec is not None and spec.loader is not None
        native = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(native)
        _register(native)
        _native = native


def _register(native: Any) -> None:
    from . import device_module, process_group

    # The registration functions of torch carry no types.
    torch: Any = importlib.import_module("torch")
    torch.utils.rename_privateuse1_backend("sim")
    native.register()
    device_module.native = native
    torch._register_device_module("sim", device_module)
    torch.utils.generate_methods_for_privateuse1_backend()
    process_group.register(native)
    native.set_compile_cache(str(_compile_cache()))
    atexit.register(_end, native)


def _end(native: Any) -> None:
    # Threads must be gone before the libraries that they run in are.
    native.shut_down()
    # A thread of autograd drops what it took from Python a moment after backward() has returned. When the interpreter
    # ends in that moment, torch aborts the process (seen in torch 2.13), so let those threads come to rest first.
    for _ in range(100):
        time.sleep(0.005)
        if not _busy_autograd_threads():
            break


def _busy_autograd_threads() -> list[str]:
    busy = []
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # threads come and go
            name, state = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
            if name.startswith("pt_autograd") and state.split()[0] != "S":
                busy.append(name)
    return busy


def _compile_cache() -> Path:
    folder = _build.cache_folder() / "kernels"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _loaded() -> Any:
    if _native is None:
        raise UsageError("The simulated accelerator is not loaded.", hint="Call load() first.")
    return _native


def _devices(device: int | None) -> range | tuple[int]:
    if device is None:
        return range(DEVICES)
    if device not in range(DEVICES):
        raise UsageError(f"There is no device sim:{device}; there are {DEVICES}.")
    return (device,)


def set_speed(
    queue: str, work_per_s: float | None = None, *, overhead_ns: int | None = None, device: int | None = None
) -> None:
    """Sets how fast a queue is; an operation takes ``overhead_ns + work / work_per_s``.

    Args:
        queue: One of ``QUEUES``.
        work_per_s: Floating-point operations on ``tensor``, bytes read and written on the others; None: as it is.
        overhead_ns: The part that every operation takes; None: as it is.
        device: Index; None: both.
    """
    if queue not in QUEUES:
        raise UsageError(f"There is no queue {queue!r}; there are {', '.join(QUEUES)}.")
    if (work_per_s is not None and work_per_s <= 0) or (overhead_ns is not None and overhead_ns < 0):
        raise UsageError("A speed is above zero and an overhead is not below it.")
    for index in _devices(device):
        speed, overhead = _loaded().get_speed(index, queue)
        _loaded().set_speed(
            index,
            queue,
            speed if work_per_s is None else work_per_s,
            overhead if overhead_ns is None else overhead_ns,
        )


def settings(device: int = 0) -> Settings:
    """The settings of a device as they are now."""
    return Settings.read(_loaded(), device)


def configure(*, device: int | None = None, **numbers: int) -> None:
    """Changes settings of one device, or of both: the fields of ``Settings`` that are not about queue speeds.

    ``configure(launch_limit=64, memory_capacity=1 << 30, compile_ns=3_000_000)``
    """
    for name, value in numbers.items():
        if name not in Settings.numbers():
            raise UsageError(f"There is no setting {name!r}; there are {', '.join(Settings.numbers())}.")
        if value < 0:
            raise UsageError(f"The setting {name} cannot be negative; got {value}.")
        for index in _devices(device):
            _loaded().set_number(index, name, value)


@contextlib.contextmanager
def restored_settings() -> Iterator[None]:
    """Puts all settings of both devices back at the end of the block."""
    before = {device: settings(device) for device in range(DEVICES)}
    try:
        yield
    finally:
        for device, state in before.items():
            state.write(_loaded(), device)


@contextlib.contextmanager
def without_kernel(*ops: str) -> Iterator[None]:
    """Within the block these ops have no kernel on the device and fall back to the CPU.

    Args:
        ops: Names without overload, as ``"aten::gelu"``; ``"aten::convolution"`` stands for convolutions.

    Raises:
        RuntimeError: The device has no kernel of that name in the first place.
    """
    disabled: list[str] = []
    try:
        for op in ops:
            _loaded().set_kernel_enabled(op, False)
            disabled.append(op)
        yield
    finally:
        for op in disabled:
            _loaded().set_kernel_enabled(op, True)


def kernel_names() -> list[str]:
    """The ops that have a kernel, with their overloads; the others fall back to the CPU."""
    names: list[str] = sorted(_loaded().kernel_names())
    return names


def fallback_counts() -> dict[str, int]:
    """How often each op ran on the CPU though its tensors were on the device, since the last reset."""
    counts: dict[str, int] = _loaded().fallback_counts()
    return counts


def reset_fallback_counts() -> None:
    """Starts the counts of ``fallback_counts()`` at zero."""
    _loaded().reset_fallback_counts()


def engine_log(*, wait: bool = True) -> EngineLog:
    """What the queues of both devices did, operation by operation, since the last reset.

    Args:
        wait: Let the devices finish first, so that everything that was launched is in it.
    """
    if wait:
        _loaded().synchronize_all()
    return from_columns(_loaded().log_columns(), dropped=_loaded().dropped_log_entries())


def reset_engine_log() -> None:
    """Empties the engine log, after the devices have finished what is queued."""
    _loaded().synchronize_all()
    _loaded().reset_log()


def set_engine_log_capacity(operations: int) -> None:
    """Keeps the newest ``operations`` (500,000 unless set); what is dropped is counted in ``EngineLog.dropped``."""
    if operations < 1:
        raise UsageError(f"The engine log keeps at least one operation; got {operations}.")
    _loaded().set_log_capacity(operations)


def forget_compiled(*, disk: bool = False) -> None:
    """Makes the next launch of every kernel its first one in this process, and with ``disk`` the first one ever."""
    _loaded().forget_compiled()
    if disk:
        for file in _compile_cache().iterdir():
            file.unlink(missing_ok=True)


def clear_error(device: int = 0) -> None:
    """Takes back the error of a failed kernel, which otherwise every synchronization of the device raises."""
    _loaded().clear_error(device)
