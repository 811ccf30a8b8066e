"""Builds the C++ part of the simulated accelerator against the installed torch, and keeps it.

The library lies under a name made of everything that it depends on: the sources, the version of torch, the compiler and
the flags. It is built in a folder of its own and renamed into place while a lock is held, so that two processes that
need it at once build it once and neither sees half of it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ...profiler.recording.errors import CaptureError

SOURCES = Path(__file__).parent / "csrc"
MODULE_NAME = "_simulated_accelerator"
MINIMUM_TORCH = (2, 13)
"""The device API of PyTorch changes between versions; this is the one that the sources are written for."""

CACHE_VARIABLE = "STALLSCOPE_SIMULATED_ACCELERATOR_CACHE"
"""Environment variable that names another folder for the built library."""


def cache_folder() -> Path:
    """The folder that keeps what was built: as the environment variable says, else under the user's cache."""
    if given := os.environ.get(CACHE_VARIABLE):
        return Path(given)
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "stallscope" / "simulated_accelerator"


def compiler() -> str | None:
    """The C++ compiler to use: ``$CXX``, else ``c++`` or ``g++``; None where there is none."""
    for name in (os.environ.get("CXX"), "c++", "g++"):
        if name and (found := shutil.which(name)):
            return found
    return None


def unavailable_reason() -> str | None:
    """Why the device cannot be built here, as a sentence; None where it can."""
    if not sys.platform.startswith("linux"):
        return f"The simulated accelerator needs Linux; this is {sys.platform}."
    try:
        import torch
    except ImportError:
        return "The simulated accelerator needs PyTorch, which is not installed."
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < MINIMUM_TORCH:
        wanted = ".".join(map(str, MINIMUM_TORCH))
        return f"The simulated accelerator needs torch {wanted} or newer; this is {torch.__version__}."
    if not library_path().exists() and compiler() is None:
        return "The simulated accelerator is built on first use and found no C++ compiler ($CXX, c++ or g++)."
    return None


def _flags() -> list[str]:
    import torch
    from torch.utils.cpp_extension import include_paths

    includes = [*include_paths(), str(Path(torch.__file__).parent / "include" / "kineto")]
    includes.append(sysconfig.get_paths()["include"])
    return [
        # -O1 builds in half the time of -O2; the arithmetic is torch's own and long compiled.
        *("-std=c++20", "-O1", "-fPIC", "-fvisibility=hidden", "-Wall", "-Wno-unknown-pragmas"),
        *("-DUSE_KINETO", "-DFMT_HEADER_ONLY", f"-DTORCH_EXTENSION_NAME={MODULE_NAME}"),
        *("-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}",
        *(argument for path in includes for argument in ("-isystem", path)),
    ]


def library_path() -> Path:
    """Where the library for these sources and this torch lies or will lie."""
    import torch

    digest = hashlib.sha256()
    for part in (torch.__version__, torch.__file__, sys.version, *_flags()):
        digest.update(part.encode())
    for source in sorted(SOURCES.iterdir()):
        digest.update(source.name.encode() + source.read_bytes())
    return cache_folder() / digest.hexdigest()[:20] / f"{MODULE_NAME}.so"


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        errors = [line for line in done.stderr.splitlines() if "error" in line.lower()]
        raise CaptureError(
            f"The simulated accelerator could not be built: {command[0]} ended with {done.returncode}: "
            f"{' | '.join(errors[:3]) or done.stderr[-300:]}",
            hint="Use the CPU, or set CXX to a compiler with C++20.",
        )


def build(progress: Callable[[str], None] | None = None) -> Path:
    """Returns the path of the library, building it when it is not there (about a minute).

    Args:
        progress: Is told, in a sentence, when there is something to wait for.

    Raises:
        CaptureError: There is no torch or compiler, or the compiler failed.
    """
    if reason := unavailable_reason():
        raise CaptureError(reason, hint="Use the CPU instead.")
    target = library_path()
    if target.exists():
        return target
    if progress is not None:
        progress("Building the simulated accelerator (once, about a minute) ...")
    with _locked(target.parent):
        if not target.exists():
            _compile_into(target)
    return target


def _compile_into(target: Path) -> None:
    from torch.utils.cpp_extension import library_paths

    cxx = compiler()
    assert cxx is not None
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        jobs = {source: Path(scratch) / f"{source.stem}.o" for source in sorted(SOURCES.glob("*.cpp"))}
        workers = min(len(os.sched_getaffinity(0)), len(jobs))
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(lambda job: _run([cxx, *_flags(), "-c", str(job[0]), "-o", str(job[1])]), jobs.items()))
        built = Path(scratch) / target.name
        libraries = [argument for path in library_paths() for argument in (f"-L{path}", f"-Wl,-rpath,{path}")]
        link = [cxx, "-shared", *map(str, jobs.values()), *libraries]
        _run([*link, "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", "-ldl", "-o", str(built)])
        built.rename(target)
