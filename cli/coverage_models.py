"""The models of ``stallscope coverage``: a TOML file of factories and scripts, or one script on the command line."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ..profiler.recording.errors import FormatError, UsageError


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What holds for one model; in the file, a key at the top holds for all, and one in ``[[model]]`` for that one.

    Attributes:
        device: As in ``model.to(device)``.
        imports: ``MODULE`` or ``MODULE:FUNCTION`` to import (and call) first; ``import`` in the file.
        compile: Whether to run it with torch.compile, too.
        warm: Whether to compile again in a new process, with the caches of the first.
        backend: The backend of torch.compile.
        precision: The element type, by its name in torch.
        optimizer: The class in torch.optim.
        steps: Steady steps to time.
        warm_up: Steps before them that are not.
        time_limit_s: Seconds after which a process is ended.
        tolerance: The largest relative error that counts as agreement; None: by the precision.
        samples: Samples a step.
        tokens: Tokens a step.
        cache_variables: Environment variables that name a compiler's cache, besides the known ones.
    """

    device: str = ""
    imports: tuple[str, ...] = ()
    compile: bool = True
    warm: bool = True
    backend: str = "inductor"
    precision: str = "float32"
    optimizer: str = "AdamW"
    steps: int = 15
    warm_up: int = 3
    time_limit_s: float = 300.0
    tolerance: float | None = None
    samples: float | None = None
    tokens: float | None = None
    cache_variables: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelEntry:
    """A model to run.

    Attributes:
        name: Its name in the table.
        factory: ``FILE.py:FUNCTION`` or ``MODULE:FUNCTION``; "" for a script.
        program: The script and its arguments; empty for a factory.
        source: The factory or the script as the user wrote it.
        settings: What holds for it.
    """

    name: str
    factory: str
    program: tuple[str, ...]
    source: str
    settings: ModelSettings


_KINDS: dict[str, tuple[type, ...]] = {
    "device": (str,), "imports": (list, tuple), "compile": (bool,), "warm": (bool,), "backend": (str,),
    "precision": (str,), "optimizer": (str,), "steps": (int,), "warm_up": (int,),
    "time_limit_s": (int, float), "tolerance": (int, float),
    "samples": (int, float), "tokens": (int, float), "cache_variables": (list, tuple),
}  # fmt: skip
_WORDS = {str: "a text", list: "a list of texts", bool: "true or false", int: "a number"}
_OF_A_MODEL = ("name", "factory", "script", "arguments")


def entries_of_file(file: Path, given: Mapping[str, Any]) -> list[ModelEntry]:
    """The models of a TOML file.

    Args:
        file: The file; relative paths in it begin in its folder.
        given: Settings of the command line, which go before those of the file; None: not given.

    Raises:
        FormatError: It cannot be read, or an entry is not what it should be.
    """
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FormatError(f"{file} cannot be read: {error}.") from error
    models = content.pop("model", [])
    if not isinstance(models, list) or not models:
        raise FormatError(
            f"{file} lists no model.", hint='Add a [[model]] with name = "..." and factory = "file.py:f".'
        )
    shared = _settings(content, f"{file}")
    entries = [_entry(model, shared, given, file, number) for number, model in enumerate(models, 1)]
    names = [entry.name for entry in entries]
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise FormatError(f"{file}: several models have the name {doubled[0]!r}.")
    return entries


def entry_of_script(program: tuple[str, ...], given: Mapping[str, Any]) -> ModelEntry:
    """A script and its arguments as a model."""
    return ModelEntry(Path(program[0]).name, "", program, program[0], _merged({}, given))


def _entry(model: Any, shared: dict[str, Any], given: Mapping[str, Any], file: Path, number: int) -> ModelEntry:
    place = f"{file}, model {number}"
    if not isinstance(model, dict) or not isinstance(model.get("name"), str) or not model["name"].strip():
        raise FormatError(f"{place}: expected a name.")
    place = f"{place} ({model['name']})"
    source = model.get("factory"), model.get("script")
    if sum(isinstance(one, str) for one in source) != 1:
        raise FormatError(f"{place}: expected either a factory or a script.")
    own = _settings({key: value for key, value in model.items() if key not in _OF_A_MODEL}, place)
    settings = _merged(shared | own, given)
    if isinstance(model.get("script"), str):
        arguments = model.get("arguments", [])
        if not isinstance(arguments, list):
            raise FormatError(f"{place}: arguments is {arguments!r}, expected a list of texts.")
        program = (str(_beside(file, model["script"])), *(str(argument) for argument in arguments))
        return ModelEntry(model["name"], "", program, model["script"], settings)
    module, colon, function = model["factory"].rpartition(":")
    if not colon or not function:
        raise FormatError(f"{place}: factory is {model['factory']!r}, expected FILE.py:FUNCTION or MODULE:FUNCTION.")
    if module.endswith(".py"):
        module = str(_beside(file, module))
    return ModelEntry(model["name"], f"{module}:{function}", (), model["factory"], settings)


def _beside(file: Path, path: str) -> Path:
    found = (file.resolve().parent / path).resolve()
    if not found.is_file():
        raise FormatError(f"{file}: {path} is not there.", hint="Paths begin in the folder of the TOML file.")
    return found


def _settings(content: Mapping[str, Any], place: str) -> dict[str, Any]:
    """The settings of a part of the file, checked."""
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = "imports" if key == "import" else key
        if name not in _KINDS or key == "imports":
            raise FormatError(f"{place}: there is no setting {key!r}.", hint=f"There are: {', '.join(sorted(_KINDS))}.")
        kinds = _KINDS[name]
        if name == "imports" and isinstance(value, str):
            value = [value]
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if not fits or (int in kinds and value < 0):
            raise FormatError(f"{place}: {key} is {value!r}, expected {_WORDS[kinds[0]]}.")
        found[name] = tuple(str(one) for one in value) if isinstance(value, list) else value
    return found


def _merged(file: Mapping[str, Any], given: Mapping[str, Any]) -> ModelSettings:
    known = {field.name for field in fields(ModelSettings)}
    command_line = {key: value for key, value in given.items() if key in known and value not in (None, ())}
    return ModelSettings(**{**file, **command_line})


def must_name_devices(entries: list[ModelEntry]) -> None:
    """Checks that each factory has a device.

    Raises:
        UsageError: One has none.
    """
    for entry in entries:
        if entry.factory and not entry.settings.device:
            raise UsageError(
                f"no device is named for {entry.name}.", hint="Give --device, or device = ... in the TOML file."
            )
