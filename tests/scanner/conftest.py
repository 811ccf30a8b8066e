"""The two scanners, as a fixture that runs a test with each."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from .scans import SCANNERS, Found, scan_with


@pytest.fixture(params=["python", "native"])
def scan(request: pytest.FixtureRequest) -> Callable[..., Found]:
    """Scans bytes with one of the two scanners."""
    if request.param not in SCANNERS:
        pytest.skip("the native scanner is not built")
    return partial(scan_with, request.param)
