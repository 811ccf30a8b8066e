"""Maps the root folders into the one import package ``stallscope`` and builds its optional extensions."""

import sys
from pathlib import Path

from setuptools import Extension, find_packages, setup

# Each room is a folder at the root of the repository and a subpackage of stallscope.
ROOMS = ["profiler", "collectors", "analysis", "ui", "cli", "samples"]

WINDOWS = sys.platform == "win32"
COMPILER_ARGUMENTS = ["/O2", "/std:c++17"] if WINDOWS else ["-O3", "-std=c++17", "-fvisibility=hidden"]

# Optional: without a compiler Python does the same work, slower.
SCANNER = Extension(
    "stallscope.collectors.importers.scanner._native",
    sources=["collectors/importers/scanner/native.cpp"],
    depends=[header.as_posix() for header in sorted(Path("collectors/importers/scanner").glob("*.hpp"))],
    extra_compile_args=COMPILER_ARGUMENTS,
    language="c++",
    optional=True,
)
STACKS = Extension(
    "stallscope.collectors.live._stacks_native",
    sources=["collectors/live/stacks.cpp", "collectors/live/looks.cpp"],
    depends=["collectors/live/stacks.hpp"],
    extra_compile_args=COMPILER_ARGUMENTS,
    language="c++",
    optional=True,
)

setup(
    packages=["stallscope"]
    + [
        f"stallscope.{name}" for room in ROOMS for name in [room, *(f"{room}.{inner}" for inner in find_packages(room))]
    ],
    package_dir={"stallscope": "facade"} | {f"stallscope.{room}": room for room in ROOMS},
    ext_modules=[SCANNER, STACKS],
)
