"""Settings and where each came from: argument, then environment, then pyproject.toml, then default.

``stallscope.profile(detail="low")`` is the argument ``detail``; ``STALLSCOPE_DETAIL=low`` the environment variable;
``[tool.stallscope] detail = "low"`` in the nearest pyproject.toml above the current folder the file's entry. The
recording keeps every value with its origin.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..recording.collector import DETAILS
from ..recording.errors import UsageError
from .schedule import parse_schedule

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_TRUE, _FALSE = {"1", "true", "yes", "on"}, {"0", "false", "no", "off"}


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting.

    Attributes:
        name: Its name as an argument and in pyproject.toml.
        default: Its value where nobody sets it.
        parse: Turns a text or a value into the value; raises ValueError with what was expected.
        meaning: What it does, for the documentation.
    """

    name: str
    default: Any
    parse: Callable[[Any], Any]
    meaning: str


def parse_size(value: Any) -> int:
    """Bytes from a number or a text such as 500M or 2GiB (a K is 1024).

    Raises:
        ValueError: It is neither.
    """
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return value
    found = _SIZE.fullmatch(str(value).strip())
    if not found or float(found[1]) == 0:
        raise ValueError("a size such as 500M or 2G")
    return int(float(found[1]) * 1024 ** _POWERS[found[2].lower()])


def _flag(value: Any) -> bool:
    text = str(value).strip().lower()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError("true or false")


def _detail(value: Any) -> str:
    if value not in DETAILS:
        raise ValueError(" or ".join(DETAILS))
    return str(value)


def _names(value: Any) -> tuple[str, ...]:
    parts = value.split(",") if isinstance(value, str) else list(value)
    return tuple(str(part).strip() for part in parts if str(part).strip())


def _number(least: float) -> Callable[[Any], float]:
    def parse(value: Any) -> float:
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = least - 1
        if isinstance(value, bool) or not least <= number < float("inf"):
            raise ValueError(f"a number, {least:g} or more")
        return number

    return parse


def _whole(least: int) -> Callable[[Any], int]:
    def parse(value: Any) -> int:
        number = _number(least)(value)
        if number != int(number):
            raise ValueError(f"a whole number, {least} or more")
        return int(number)

    return parse


def _schedule(value: Any) -> str:
    return parse_schedule(value).text()


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting("detail", "normal", _detail, "How much to record: always, low, normal or deep."),
        Setting(
            "collectors",
            (),
            _names,
            "Only these collectors; with a minus in front, all but these. Empty: all there are.",
        ),
        Setting("schedule", None, _schedule, "Which steps to record: wait,warm_up,active[,repeat]. Unset: all."),
        Setting("step_by", None, str, "The name of the record_function range whose end is the end of a step."),
        Setting("max_bytes", None, parse_size, "Stop recording when the rank's folder is this large."),
        Setting("segment_events", 200_000, _whole(1000), "Events after which torch's profiler starts a new segment."),
        Setting("segment_bytes", 256 << 20, parse_size, "Memory growth at which it does so earlier."),
        Setting("convert", True, _flag, "Convert segments while recording; otherwise when the recording is opened."),
        Setting("keep_raw", False, _flag, "Keep torch's own JSON of each segment beside the tables."),
        Setting("finish_timeout_s", 60.0, _number(0), "How long the end of the recording waits for the converter."),
        Setting(
            "sample_hz",
            None,
            _number(0.1),
            "Stack samples per second. Unset: 100, fewer where they would take over 0.5 % of a core (always: 0.1 %).",
        ),
        Setting("sources", True, _flag, "Keep the text of the user's source files that may occur in stacks."),
        Setting("window_steps", 5, _whole(1), "Steps of a full window that detail=always takes by itself."),
        Setting("window_every_s", 600.0, _number(1), "detail=always takes a window this often."),
        Setting("outlier_factor", 2.0, _number(1), "detail=always takes one after a step this many times the median."),
        Setting("children", False, _flag, "Let child processes that use stallscope record too."),
    )
}
"""Every setting by name."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Resolved settings: ``values[name]`` and ``origins[name]``, one of argument, environment, the file, default."""

    values: Mapping[str, Any]
    origins: Mapping[str, str]

    def as_json(self) -> dict[str, dict[str, Any]]:
        """Each setting as ``{"value": ..., "origin": ...}``, for recording.json."""
        return {
            name: {"value": list(value) if isinstance(value, tuple) else value, "origin": self.origins[name]}
            for name, value in self.values.items()
        }


def resolve_settings(
    arguments: Mapping[str, Any], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> Settings:
    """The settings in force.

    Args:
        arguments: What the call gave; None stands for "not given".
        environment: Variables; those of the process by default.
        folder: Where the search for pyproject.toml starts; the current folder by default.

    Raises:
        UsageError: A value cannot be used, or pyproject.toml has an unknown setting.
    """
    variables = os.environ if environment is None else environment
    file, entries = _project_entries(folder or Path.cwd())
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for name, setting in SETTINGS.items():
        variable = f"STALLSCOPE_{name.upper()}"
        values[name], origins[name] = setting.default, "default"
        if name in entries:
            values[name] = _parsed(setting, entries[name], f"{file}, [tool.stallscope] {name}")
            origins[name] = "pyproject.toml"
        if variables.get(variable, "") != "":
            values[name], origins[name] = _parsed(setting, variables[variable], variable), "environment"
        if arguments.get(name) is not None:
            values[name], origins[name] = _parsed(setting, arguments[name], f"argument {name}"), "argument"
    unknown = set(arguments) - set(SETTINGS)
    if unknown:
        raise UsageError(f"there is no setting {sorted(unknown)[0]!r}.", hint=f"There are: {', '.join(SETTINGS)}.")
    return Settings(values, origins)


def _parsed(setting: Setting, value: Any, place: str) -> Any:
    try:
        return setting.parse(value)
    except ValueError as error:
        raise UsageError(f"{place} is {value!r}, expected {error}.") from error


def _project_entries(folder: Path) -> tuple[Path | None, dict[str, Any]]:
    """The entries of ``[tool.stallscope]`` in the nearest pyproject.toml, with underscores in their names."""
    for candidate in _project_files(folder):
        import tomllib

        try:
            content = tomllib.loads(candidate.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None, {}  # somebody else's file to repair; no reason to keep a training run from starting
        section = content.get("tool", {}).get("stallscope", {})
        entries = {str(name).replace("-", "_"): value for name, value in section.items()}
        unknown = sorted(set(entries) - set(SETTINGS))
        if unknown:
            raise UsageError(f"{candidate}, [tool.stallscope]: there is no setting {unknown[0]!r}.")
        return candidate, entries
    return None, {}


def _project_files(folder: Path) -> Iterator[Path]:
    for parent in (folder, *folder.parents):
        candidate = parent / "pyproject.toml"
        if candidate.is_file():
            yield candidate
