"""The device gets no special treatment: what explains recordings does not know it by name."""

from __future__ import annotations

import re

from tests.conftest import REPOSITORY

NAMES = re.compile(r"\bsim\b|\bsim[A-Z]\w*|\bSIM\b|simulated_accelerator|simgloo")


def mentions(text: str) -> list[str]:
    return NAMES.findall(text)


def test_nothing_that_records_or_explains_knows_the_device() -> None:
    found = {
        str(path.relative_to(REPOSITORY)): names
        for room in ("facade", "profiler", "collectors", "analysis", "ui")
        for path in (REPOSITORY / room).rglob("*")
        if path.suffix in (".py", ".cpp", ".js", ".ts") and "node_modules" not in path.parts
        if (names := mentions(path.read_text(errors="replace")))
    }
    assert found == {}


def test_the_search_would_find_it() -> None:
    assert mentions('if name == "simLaunchKernel" or device == "sim":') == ["simLaunchKernel", "sim"]
    assert mentions("similar simple simulation") == []
