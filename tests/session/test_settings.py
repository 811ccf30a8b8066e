"""Where a setting comes from, and what each accepts."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.profiler.recording.errors import UsageError
from stallscope.profiler.session.schedule import Schedule, parse_schedule
from stallscope.profiler.session.settings import SETTINGS, parse_size, resolve_settings


def test_argument_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.stallscope]\ndetail = "deep"\nsample-hz = 50\nkeep-raw = true\n')
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    environment = {"STALLSCOPE_DETAIL": "low", "STALLSCOPE_SAMPLE_HZ": "20"}
    settings = resolve_settings({"detail": "always", "sample_hz": None}, environment, below)
    assert settings.values["detail"] == "always"
    assert settings.origins["detail"] == "argument"
    assert settings.values["sample_hz"] == 20.0
    assert settings.origins["sample_hz"] == "environment"
    assert settings.values["keep_raw"] is True
    assert settings.origins["keep_raw"] == "pyproject.toml"
    assert settings.values["sources"] is True
    assert settings.origins["sources"] == "default"
    assert settings.as_json()["detail"] == {"value": "always", "origin": "argument"}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("detail", "huge"), ("sample_hz", "0"), ("sample_hz", "nan"), ("segment_events", "12.5"), ("keep_raw", "maybe"),
        ("max_bytes", "-1"), ("max_bytes", "many"), ("schedule", "1,2"), ("window_steps", "0"),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be_used_names_its_place(name: str, value: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=name.upper() if name != "schedule" else "schedule"):
        resolve_settings({}, {f"STALLSCOPE_{name.upper()}": value}, tmp_path)


def test_an_unknown_entry_of_the_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.stallscope]\ndetial = 1\n")
    with pytest.raises(UsageError, match="detial"):
        resolve_settings({}, {}, tmp_path)


def test_an_unknown_argument_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="speed"):
        resolve_settings({"speed": 1}, {}, tmp_path)


def test_a_broken_project_file_of_somebody_else_does_not_stop_the_run(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.other\n")
    assert resolve_settings({}, {}, tmp_path).values["detail"] == "normal"


@pytest.mark.parametrize(
    ("text", "size"), [("500M", 500 << 20), ("2G", 2 << 30), ("1.5k", 1536), ("17", 17), ("3 MiB", 3 << 20), (9, 9)]
)
def test_sizes(text: object, size: int) -> None:
    assert parse_size(text) == size


def test_every_default_is_a_value_that_its_own_parser_accepts() -> None:
    for setting in SETTINGS.values():
        if setting.default is not None:
            assert setting.parse(setting.default) == setting.default


def test_phases_of_a_schedule() -> None:
    cycle = Schedule(wait=2, warm_up=1, active=2, repeat=2)
    told = [cycle.phase(step) for step in range(12)]
    assert told == ["wait", "wait", "warm_up", "active", "active"] * 2 + ["done", "done"]
    assert parse_schedule("2,1,2,2") == cycle
    assert parse_schedule(cycle.text()) == cycle
    assert Schedule(active=1).phase(10**9) == "active"


@pytest.mark.parametrize("wrong", [{"active": 0}, {"wait": -1}, {"warm_up": 1.5}, {"repeat": True}])
def test_schedules_that_cannot_be(wrong: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        Schedule(**wrong)  # type: ignore[arg-type]
