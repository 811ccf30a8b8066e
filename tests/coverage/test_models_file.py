"""The TOML file of models."""

from __future__ import annotations

from pathlib import Path

import pytest

from stallscope.cli.coverage_models import entries_of_file, entry_of_script, must_name_devices
from stallscope.profiler.recording.errors import FormatError, UsageError
from tests.conftest import REPOSITORY

ONE = '[[model]]\nname = "m"\nfactory = "package.models:make"\n'


def written(folder: Path, text: str) -> Path:
    file = folder / "models.toml"
    file.write_text(text)
    return file


def test_the_command_line_goes_before_the_model_and_that_before_the_file(tmp_path: Path) -> None:
    (tmp_path / "a.py").touch()
    text = """
    device = "file"
    steps = 9
    import = "one:load"
    precision = "float16"
    [[model]]
    name = "a"
    factory = "a.py:make"
    steps = 12
    tokens = 512
    time_limit_s = 2.5
    """
    (entry,) = entries_of_file(written(tmp_path, text), {"device": "given", "steps": None, "imports": ()})
    settings = entry.settings
    assert (settings.device, settings.steps, settings.imports) == ("given", 12, ("one:load",))
    assert (settings.precision, settings.tokens, settings.time_limit_s) == ("float16", 512, 2.5)
    assert (entry.factory, entry.source) == (f"{(tmp_path / 'a.py').resolve()}:make", "a.py:make")


def test_a_module_is_left_as_it_is(tmp_path: Path) -> None:
    (entry,) = entries_of_file(written(tmp_path, ONE), {})
    assert (entry.factory, entry.program) == ("package.models:make", ())


def test_a_script_with_arguments(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    text = '[[model]]\nname = "t"\nscript = "train.py"\narguments = ["--lr", 3]\n'
    (entry,) = entries_of_file(written(tmp_path, text), {})
    assert entry.program == (str((tmp_path / "train.py").resolve()), "--lr", "3")
    assert entry_of_script(("a/b.py", "--x"), {"samples": 4.0}).settings.samples == 4.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("device = ", "cannot be read"),
        ("", "lists no model"),
        ("[[model]]\nfactory = 'a:b'", "model 1: expected a name"),
        ("[[model]]\nname = 'm'", "either a factory or a script"),
        ("[[model]]\nname = 'm'\nfactory = 'a:b'\nscript = 'c.py'", "either a factory or a script"),
        ("[[model]]\nname = 'm'\nfactory = 'a'", "FILE.py:FUNCTION"),
        ("[[model]]\nname = 'm'\nfactory = 'missing.py:make'", "missing.py is not there"),
        (ONE + "stpes = 3", "there is no setting 'stpes'"),
        (ONE + "steps = true", "steps is True, expected a number"),
        (ONE + "steps = -1", "steps is -1"),
        (ONE + "compile = 1", "expected true or false"),
        ("device = 3\n" + ONE, "device is 3, expected a text"),
        (ONE + ONE, "several models have the name 'm'"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        entries_of_file(written(tmp_path, text), {})


def test_a_device_must_be_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no device is named for m"):
        must_name_devices(entries_of_file(written(tmp_path, ONE), {}))


def test_the_sample_models_are_there() -> None:
    entries = entries_of_file(REPOSITORY / "samples" / "model_factories" / "models.toml", {"device": "cpu"})
    assert [entry.name for entry in entries] == ["attention", "convolution", "mixture of experts", "recurrent"]
    assert all(entry.settings.tokens or entry.settings.samples for entry in entries)
