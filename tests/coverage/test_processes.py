"""Real processes: the sample models on the simulated accelerator and on the CPU, a crash, a hang, a fallback."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from stallscope.cli.main import main
from stallscope.samples import simulated_accelerator
from tests.conftest import REPOSITORY

SAMPLES = REPOSITORY / "samples" / "model_factories"
ODD = """
device = "cpu"
compile = false
[[model]]
name = "crashes"
factory = "{here}/factories.py:crashing"
[[model]]
name = "hangs"
factory = "{here}/factories.py:hanging"
time_limit_s = 3
[[model]]
name = "attention"
factory = "{samples}/attention.py:make"
"""


def coverage(*arguments: Any) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["coverage", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    document: dict[str, Any] = json.loads(result.stdout)
    return document


@pytest.mark.slow
def test_a_crash_and_a_hang_are_rows(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "odd.toml"
    file.write_text(ODD.format(here=Path(__file__).parent, samples=SAMPLES))
    crashes, hangs, attention = (row["eager"] for row in coverage(file, "--steps", 3)["rows"])
    assert (crashes["outcome"], crashes["stage"], crashes["reason"]) == ("crashed", "first step", "SIGABRT")
    assert crashes["file"].endswith("factories.py")
    assert crashes["line"] == line_of("os.abort()")
    assert (hangs["outcome"], hangs["reason"]) == ("hung", "no end after 3 s")
    assert hangs["wall_ns"] >= 3e9
    assert attention["outcome"] == "completed"
    assert attention["peak_rss_bytes"] > 50 << 20
    assert attention["agreement"]["agrees"] is True


def line_of(text: str) -> int:
    lines = (Path(__file__).parent / "factories.py").read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.mark.slow
def test_the_sample_models_on_the_simulated_accelerator(tmp_path: Path) -> None:
    if reason := simulated_accelerator.unavailable_reason():
        pytest.skip(reason)
    on_sim = ("--device", "sim", "--import", "stallscope.samples.simulated_accelerator:load", "--steps", 3)
    found = coverage(SAMPLES / "models.toml", *on_sim, "--no-compile")
    assert [row["eager"]["outcome"] for row in found["rows"]] == ["completed"] * 4
    assert [row["fallback_ops"] for row in found["rows"]] == [[]] * 4
    assert all(row["agrees"] and row["eager"]["step_ns"] for row in found["rows"])
    file = tmp_path / "compiled.toml"
    file.write_text(
        f'backend = "aot_eager"\n[[model]]\nname = "m"\nfactory = "{SAMPLES}/mixture_of_experts.py:make"\n'
        f'[[model]]\nname = "f"\ncompile = false\nfactory = "{Path(__file__).parent}/factories.py:falling_back"\n'
    )
    mixture, falls_back = coverage(file, *on_sim)["rows"]
    compiled, warm = mixture["compiled"], mixture["warm"]
    assert (compiled["outcome"], warm["outcome"]) == ("completed", "completed")
    source = (SAMPLES / "mixture_of_experts.py").read_text().splitlines()
    assert "torch.where" in source[compiled["graph_breaks"][0]["line"] - 1]
    assert "expected 24, actual 32" in compiled["recompiles"][0]["reason"]
    assert compiled["compile_ns"] > 0 < warm["compile_ns"]
    (i0,) = [one for one in falls_back["eager"]["fallbacks"] if one["op"] == "aten::i0"]
    assert (i0["count"], falls_back["eager"]["recorded_steps"]) == (3, 3)
    assert i0["file"].endswith("factories.py")
    assert i0["line"] == line_of("torch.special.i0(x)")
