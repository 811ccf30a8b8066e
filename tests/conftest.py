"""Fixtures shared by all tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent

# Building the simulated accelerator takes a minute: all tests share what was built, though each has its own cache.
os.environ.setdefault(
    "STALLSCOPE_SIMULATED_ACCELERATOR_CACHE",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "stallscope" / "simulated_accelerator"),
)


@pytest.fixture(scope="session")
def traces() -> Path:
    """The folder of public traces that are not part of the repository; skips where it is absent."""
    folder = Path(os.environ.get("STALLSCOPE_TRACES", REPOSITORY.parent / "shared" / "traces"))
    if not folder.is_dir():
        pytest.skip(f"no folder of real traces at {folder}; set STALLSCOPE_TRACES")
    return folder


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test has a cache of its own, so that none reads what another derived."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder
