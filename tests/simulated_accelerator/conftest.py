"""The device ``sim``, loaded once for the process of the tests; skipped where it cannot be built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import stallscope.samples.simulated_accelerator as simulated


@pytest.fixture(scope="session")
def loaded() -> Any:
    if reason := simulated.unavailable_reason():
        pytest.skip(reason)
    simulated.load()
    return simulated


@pytest.fixture
def sim(loaded: Any) -> Iterator[Any]:
    """The loaded device in its initial state; settings, kernels and errors do not leak into the next test."""
    import torch

    with loaded.restored_settings():
        loaded.reset_engine_log()
        loaded.reset_fallback_counts()
        yield loaded
        for device in range(loaded.DEVICES):
            loaded.clear_error(device)
        for device in range(loaded.DEVICES):
            torch.accelerator.synchronize(device)
    torch.accelerator.empty_cache()
