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

ON_SIM = """
backend = "aot_eager"
compile = false
steps = 3
[[model]]
name = "attention"
factory = "{samples}/attention.py:make"
[[model]]
name = "convolution"
factory = "{samples}/convolution.py:make"
[[model]]
name = "recurrent"
factory = "{samples}/recurrent.py:make"
[[model]]
name = "mixture of experts"
factory = "{samples}/mixture_of_experts.py:make"
compile = true
warm = false
[[model]]
name = "falls back"
factory = "{here}/factories.py:falling_back"
"""
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
def test_a_crash_and_a_hang_are_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    file = tmp_path / "odd.toml"
    file.write_text(ODD.format(here=Path(__file__).parent, samples=SAMPLES))
    monkeypatch.setenv("PLANTED_TOKEN", "planted-0123456789")
    found = coverage(file, "--steps", 3, "--keep", tmp_path / "kept")
    crashes, hangs, attention = (row["eager"] for row in found["rows"])
    assert (crashes["outcome"], crashes["stage"], crashes["reason"]) == ("crashed", "first step", "SIGABRT")
    assert crashes["file"].endswith("factories.py")
    assert crashes["line"] == line_of("os.abort()")
    assert (hangs["outcome"], hangs["reason"]) == ("hung", "no end after 3 s")
    assert hangs["wall_ns"] >= 3e9
    printed = (tmp_path / "kept" / "000" / "eager" / "ending.json").read_text()
    assert "logged in with ***" in printed
    assert "planted-0123456789" not in printed
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
    file = tmp_path / "models.toml"
    file.write_text(ON_SIM.format(here=Path(__file__).parent, samples=SAMPLES))
    found = coverage(file, "--device", "sim", "--import", "stallscope.samples.simulated_accelerator:load")
    *samples, falls_back = found["rows"]
    assert [row["eager"]["outcome"] for row in samples] == ["completed"] * 4
    assert [row["fallback_ops"] for row in samples] == [[]] * 4
    assert all(row["agrees"] and row["eager"]["step_ns"] for row in samples)
    compiled = samples[-1]["compiled"]
    assert compiled["outcome"] == "completed"
    source = (SAMPLES / "mixture_of_experts.py").read_text().splitlines()
    assert "torch.where" in source[compiled["graph_breaks"][0]["line"] - 1]
    assert "expected 24, actual 32" in compiled["recompiles"][0]["reason"]
    assert 0 < compiled["compile_ns"] < compiled["wall_ns"]
    (i0,) = [one for one in falls_back["eager"]["fallbacks"] if one["op"] == "aten::i0"]
    assert (i0["count"], falls_back["eager"]["recorded_steps"]) == (3, 3)
    assert i0["file"].endswith("factories.py")
    assert i0["line"] == line_of("torch.special.i0(x)")
