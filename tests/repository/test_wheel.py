"""The wheel holds every module, and works outside the checkout and standing in it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

ROOMS = ("profiler", "collectors", "analysis", "ui", "cli", "samples")
IMPORT_ALL = """
import importlib, json, pkgutil, stallscope
names = ["stallscope"]
for module in pkgutil.walk_packages(stallscope.__path__, "stallscope."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        names.append(module.name)
print(json.dumps([stallscope.__file__, names]))
"""


def modules_in_the_checkout() -> set[str]:
    names = {"stallscope"}
    for room in ROOMS:
        for path in (REPOSITORY / room).rglob("*.py"):
            parts = list(path.relative_to(REPOSITORY).with_suffix("").parts)
            if parts[-1] == "__init__":
                parts.pop()
            if all((REPOSITORY.joinpath(*parts[:n]) / "__init__.py").exists() for n in range(1, len(parts))):
                names.add(".".join(["stallscope", *parts]))
    return {name for name in names if not name.endswith("__main__")}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the tracked and new files alone, so that no leftover of a build gets in."""
    source = tmp_path_factory.mktemp("source")
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=REPOSITORY, check=True, capture_output=True, text=True,
    )  # fmt: skip
    for name in listed.stdout.splitlines():
        if (REPOSITORY / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(REPOSITORY / name, source / name)
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(source)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh environment with the wheel; its dependencies are borrowed from the one that runs the tests."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    # A path in a .pth file is not searched for .pth files itself, so the editable install stays out.
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(packages)
    return home / "bin" / "python"


@pytest.mark.slow
@pytest.mark.parametrize("place", ["outside", "inside"])
def test_every_module_imports_from_the_wheel(installed: Path, tmp_path: Path, place: str) -> None:
    import json

    folder = tmp_path if place == "outside" else REPOSITORY
    done = subprocess.run([str(installed), "-c", IMPORT_ALL], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    origin, names = json.loads(done.stdout)
    assert Path(origin).is_relative_to(installed.parent.parent), "the checkout was imported, not the wheel"
    assert {name for name in names if not name.endswith("_native")} == modules_in_the_checkout()


@pytest.mark.slow
def test_the_wheel_installs_nothing_beside_the_package(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        roots = {name.split("/")[0] for name in archive.namelist()}
        names = set(archive.namelist())
    assert {root for root in roots if not root.endswith(".dist-info")} == {"stallscope"}
    assert "stallscope/py.typed" in names
