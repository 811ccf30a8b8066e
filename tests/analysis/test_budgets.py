"""Budgets: what a file or an option may say, and the limit that follows from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.analysis.budgets import Budget, parse_budgets, read_budgets
from stallscope.profiler.recording.errors import FormatError, UsageError


def only(name: str, entry: object) -> Budget:
    [budget] = parse_budgets({name: entry}).budgets
    return budget


@pytest.mark.parametrize(
    ("name", "entry", "base", "limit"),
    [
        ("step_time", "+5%", 200, 210),
        ("step_time", "+2 ms", 200, 2_000_200),
        ("step_time", "80ms", 200, 80_000_000),
        ("step_time", "1.5 s", None, 1_500_000_000),
        ("step_time", "baseline", 200, 200),
        ("step_time", {"margin": "5%"}, 200, 210),
        ("step_time", {"value": "80ms", "margin": "10%"}, None, 88_000_000),
        ("communication_waiting", 0, 5, 0),
        ("peak_memory", "2GiB", None, 2 << 30),
        ("peak_memory", "2 GB", None, 2_000_000_000),
        ("peak_memory", "+64MiB", 1 << 20, 65 << 20),
        ("recompiles", 2, None, 2),
        ("recompiles", "+1", 4, 5),
        ("recompiles", {"margin": 3}, 4, 7),
        ("stall_share.input", "5%", None, 0.05),
        ("stall_share.input", "+2%", 0.5, 0.52),
        ("fallbacks", "none", None, 0),
        ("fallbacks", "baseline", 3, 3),
    ],
)
def test_the_limit_of_a_budget(name: str, entry: object, base: float | None, limit: float) -> None:
    assert only(name, entry).limit(base) == pytest.approx(limit, rel=1e-12)


def test_a_budget_over_a_baseline_that_is_not_known_has_no_limit() -> None:
    assert only("step_time", "+5%").limit(None) is None


@pytest.mark.parametrize(
    ("name", "entry", "says"),
    [
        ("step_tine", "+5%", "Did you mean step_time?"),
        ("step_time", "fast", "expected"),
        ("step_time", 80, "cannot be its value"),
        ("step_time", "-5%", "cannot be its value"),
        ("step_time", "5 parsecs", "cannot be its value"),
        ("step_time", True, "cannot be its value"),
        ("step_time.input", "5%", "has no parts"),
        ("step_time", {"limit": "5ms"}, "no key of step_time is called 'limit'"),
        ("step_time", {"value": "5ms", "on_unknown": "ignore"}, "expected"),
        ("recompiles", "1.5", "cannot be its value"),
        ("recompiles", 1.5, "cannot be its value"),
        ("stall_share", "5%", "a table of causes"),
        ("stall_share.inputt", "5%", "Did you mean input?"),
        ("stall_share.input", 5, "not a share"),
        ("fallbacks", "some", "expected"),
        ("fallbacks", [{"op": "aten::x"}], "reason"),
        ("fallbacks", ["aten::x"], "reason"),
    ],
)
def test_what_cannot_be_is_said(name: str, entry: object, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_budgets({name: entry})
    assert says in str(caught.value)


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "stallscope.toml"
    file.write_text(
        """
        [gate]
        on_unknown = "warn"
        run_sd = "2%"
        [budgets]
        step_time = { margin = "3%", on_unknown = "fail" }
        fallbacks = [{ op = "aten::nan_to_num", reason = "no kernel yet" }]
        [budgets.stall_share]
        input = "5%"
        gc = "+1%"
        """
    )
    found = read_budgets(file)
    assert found.run_sd_frac == 0.02
    assert [(budget.key, budget.on_unknown) for budget in found.budgets] == [
        ("step_time", "fail"),
        ("fallbacks", "warn"),
        ("stall_share.input", "warn"),
        ("stall_share.gc", "warn"),
    ]
    assert found.budgets[1].allowed[0].reason == "no kernel yet"


def test_options_stand_in_the_place_of_the_file() -> None:
    file = parse_budgets({"step_time": "+5%", "recompiles": 0}, run_sd_frac=0.01)
    merged = file.with_others(parse_budgets({"step_time": "80ms", "compiles": "+0"}))
    assert [budget.key for budget in merged.budgets] == ["step_time", "recompiles", "compiles"]
    assert merged.budgets[0].value == 80_000_000
    assert merged.run_sd_frac == 0.01


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[budgets", "cannot be read as TOML"),
        ("budgets = 3", "not a table"),
        ("[budget]", "Did you mean budgets?"),
        ("[gate]\nrunsd = 1", "Did you mean run_sd?"),
        ("[budgets]\nstep_time = 'x'", "stallscope.toml: step_time"),
    ],
)
def test_a_file_that_cannot_be(text: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "stallscope.toml"
    file.write_text(text)
    with pytest.raises((UsageError, FormatError)) as caught:
        read_budgets(file)
    assert says in str(caught.value)
