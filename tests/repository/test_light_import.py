"""``import stallscope`` stays light: it stands in people's training scripts."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = {"pandas", "duckdb", "dash", "plotly", "torch", "pyarrow", "numpy", "rich"}


def loaded_by(statement: str) -> set[str]:
    new = "sorted(set(sys.modules) - before)"
    code = f"import sys, json; before = set(sys.modules); {statement}; print(json.dumps({new}))"
    printed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return {name.split(".")[0] for name in json.loads(printed)}


def test_import_stallscope_loads_nothing_heavy() -> None:
    assert not loaded_by("import stallscope") & HEAVY


def test_the_command_line_help_loads_nothing_heavy() -> None:
    assert not loaded_by("import stallscope.cli.main") & (HEAVY - {"rich"})


def test_the_check_sees_a_heavy_import() -> None:
    assert "numpy" in loaded_by("import numpy")
