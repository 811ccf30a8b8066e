"""Who may import whom (ARCHITECTURE.md): read from the source, so that a lazy import counts too."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import REPOSITORY

# A unit is a folder whose imports are held to one rule; each may import itself and what is listed.
MAY_IMPORT: dict[str, set[str]] = {
    "facade": {"profiler.recording", "profiler.session", "cli"},
    "profiler": set(),
    "profiler.recording": set(),
    "profiler.session": {"profiler.recording"},
    "collectors": {"profiler.recording"},
    "analysis": {"profiler.recording"},
    "ui": {"analysis", "profiler.recording"},
    "cli": {"ui", "analysis", "profiler.recording", "profiler.session"},
    "samples": {"facade", "profiler.recording", "cli"},
}
ROOMS = ("profiler", "collectors", "analysis", "ui", "cli", "samples")


def source_files() -> list[Path]:
    return [path for room in ("facade", *ROOMS) for path in sorted((REPOSITORY / room).rglob("*.py"))]


def unit_of(dotted: str) -> str:
    parts = dotted.split(".")
    if parts[0] == "profiler":
        return ".".join(parts[:2]) if len(parts) > 1 else "profiler"
    return parts[0]


def imported(path: Path) -> Iterator[str]:
    """Our own modules that a file imports, as names below the package (``profiler.recording.ids``)."""
    relative = path.relative_to(REPOSITORY).with_suffix("")
    package = list(relative.parts[:-1]) if relative.parts[0] != "facade" else []
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.ImportFrom) and node.level:
            if relative.parts[0] == "facade":
                base = [] if node.level == 1 else ["above the package"]
            else:
                base = package[: len(package) - (node.level - 1)]
            target = [*base, *(node.module or "").split(".")] if node.module else base
            for alias in node.names:
                yield ".".join([*target, alias.name] if not node.module else target)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "stallscope":
            yield (node.module or "").removeprefix("stallscope").removeprefix(".") or "facade"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "stallscope":
                    yield alias.name.removeprefix("stallscope").removeprefix(".") or "facade"


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_each_file_imports_only_what_its_folder_may(path: Path) -> None:
    relative = path.relative_to(REPOSITORY).with_suffix("")
    unit = unit_of(".".join(part for part in relative.parts if part != "__init__"))
    allowed = MAY_IMPORT[unit] | {unit}
    wrong = [name for name in imported(path) if unit_of(name) not in allowed]
    assert not wrong, f"{relative} may import {sorted(allowed)}, and imports {wrong}"


def test_the_rule_sees_a_forbidden_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.repository.test_import_rules.REPOSITORY", tmp_path)
    file = tmp_path / "analysis" / "deep" / "wrong.py"
    file.parent.mkdir(parents=True)
    file.write_text("from ...cli import main\nfrom ..stalls import rows\nimport stallscope.ui.app\n")
    assert [unit_of(name) for name in imported(file)] == ["cli", "analysis", "ui"]


@pytest.mark.parametrize("path", source_files(), ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_imports_inside_the_package_are_relative(path: Path) -> None:
    if path.relative_to(REPOSITORY).parts[0] == "samples":
        return  # samples show what a user would write
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        names = [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        assert not [name for name in names if name.split(".")[0] == "stallscope"], f"{path}: write a relative import"


def test_no_folder_at_the_root_hides_the_package() -> None:
    assert not (REPOSITORY / "stallscope").exists()
    assert not (REPOSITORY / "stallscope.py").exists()
