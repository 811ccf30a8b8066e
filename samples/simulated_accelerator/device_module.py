"""What PyTorch finds as ``torch.sim``: the functions that it expects of the module of a device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

native: Any = None
"""The extension; set once it is loaded."""

_initialized = True
"""Without it, recomputing activations would not put the random numbers back."""

Device = Any  # torch.device, str, int or None; torch is imported with the first call


def _index(device: Device) -> int:
    import torch

    if device is None:
        return current_device()
    if isinstance(device, int):
        return device
    index = torch.device(device).index
    return current_device() if index is None else index


def is_available() -> bool:
    """True: the module exists only when the device does."""
    return True


def is_initialized() -> bool:
    """True: there is nothing to initialize lazily but threads, which start with the first operation."""
    return True


def _lazy_init() -> None:
    """Called by PyTorch before it uses the device."""


def _is_in_bad_fork() -> bool:
    return bool(native.in_bad_fork())


def device_count() -> int:
    """Number of devices."""
    return int(native.DEVICES)


def current_device() -> int:
    """Index of the calling thread's device."""
    return int(native.current_device())


def set_device(device: Device) -> None:
    """Makes ``device`` the calling thread's device."""
    native.set_device(_index(device))


class device:
    """Makes a device the current one for the length of a block."""

    def __init__(self, device: Device) -> None:
        self.index = _index(device)
        self.previous = -1

    def __enter__(self) -> None:
        self.previous = current_device()
        set_device(self.index)

    def __exit__(self, *_: object) -> None:
        set_device(self.previous)


def synchronize(device: Device = None) -> None:
    """Waits for everything that is queued on the device."""
    import torch

    torch.accelerator.synchronize(_index(device))


def current_stream(device: Device = None) -> torch.Stream:
    """The stream that the calling thread launches to."""
    import torch

    return torch.accelerator.current_stream(_index(device))


def manual_seed(seed: int) -> None:
    """Seeds the random numbers of the current device."""
    native.manual_seed(current_device(), seed % 2**64)


def manual_seed_all(seed: int) -> None:
    """Seeds the random numbers of all devices."""
    for device in range(device_count()):
        native.manual_seed(device, seed % 2**64)


def get_rng_state(device: Device = "sim") -> torch.Tensor:
    """The state of the random numbers of a device."""
    return _generator(device).get_state()


def set_rng_state(new_state: torch.Tensor, device: Device = "sim") -> None:
    """Puts the random numbers of a device back to a state."""
    _generator(device).set_state(new_state)


def _generator(device: Device) -> torch.Generator:
    generator: torch.Generator = native.default_generator(_index(device))
    return generator


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast may choose."""
    import torch

    return [torch.bfloat16, torch.float16]


def memory_stats(device: Device = None) -> dict[str, Any]:
    """The caching allocator's statistics, as ``torch.accelerator.memory_stats``."""
    import torch

    return torch.accelerator.memory_stats(_index(device))


def memory_allocated(device: Device = None) -> int:
    """Bytes of living tensors."""
    import torch

    return torch.accelerator.memory_allocated(_index(device))


def empty_cache() -> None:
    """Gives memory that no tensor uses back to the system."""
    import torch

    torch.accelerator.empty_cache()
