"""The group: help, unknown commands, errors as one message, exit codes."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from stallscope.cli.command import CommandWithExamples
from stallscope.cli.main import SECTIONS, main, unknown_word
from stallscope.profiler.recording.errors import FormatError, UsageError
from tests.cli.conftest import Run

COMMANDS = [name for section in SECTIONS.values() for name in section]


def test_help_lists_every_command_in_its_section(run: Run) -> None:
    text = run("--help").output
    for name in COMMANDS:
        assert f"\n  {name} " in text
    assert text.index("Explain:") < text.index("summary") < text.index("Recordings:") < text.index("doctor")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_help_of_every_command_has_examples_that_parse(name: str, run: Run) -> None:
    text = run(name, "--help").output
    assert "Examples:" in text
    assert all(len(line) <= 100 or line.strip().startswith("stallscope") for line in text.splitlines())
    command = main.get_command(click.Context(main), name)
    assert isinstance(command, CommandWithExamples)
    assert command.get_short_help_str()
    for purpose, line in command.examples:
        assert purpose in text
        assert "stallscope " in line


def test_an_unknown_command_is_a_usage_error_with_near_names(run: Run) -> None:
    assert "Did you mean summary?" in run("sumary", "x", exit_code=2).stderr
    assert "There are record, summary, steps" in run("zzz", exit_code=2).stderr


def test_unknown_words_never_echo_control_characters() -> None:
    assert "\\x1b" in unknown_word("command", "\x1b[31m", ["a"])


def test_a_missing_file_is_a_usage_error_without_traceback(run: Run, tmp_path: Path) -> None:
    result = run("info", tmp_path / "none.json", exit_code=2)
    assert "none.json does not exist" in result.stderr
    assert result.stdout == ""


def test_a_file_that_is_no_trace_is_an_error(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("hello")
    assert "neither a recording nor a trace" in run("info", file, exit_code=1).stderr


def test_a_recording_among_several_paths_is_refused(run: Run, two_ranks: Path, tmp_path: Path) -> None:
    assert "merge" in run("info", two_ranks, tmp_path, exit_code=2).stderr


def failing(error: Exception) -> Any:
    @click.command("fail")
    def fail() -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "exit_code", "says"),
    [
        (UsageError("no.", hint="do this"), 2, "stallscope: no.\n  do this\n"),
        (FormatError("bad\x1b[2J"), 1, "stallscope: bad\\x1b[2J\n"),
        (OSError(errno.ENOSPC, "No space left on device", "/x"), 1, "stallscope: /x: No space left on device\n"),
        (KeyError("gone"), 1, "internal error: KeyError: 'gone'"),
        (MemoryError(), 1, "out of memory"),
    ],
)
def test_every_error_is_one_message(
    error: Exception, exit_code: int, says: str, monkeypatch: pytest.MonkeyPatch, run: Run
) -> None:
    monkeypatch.setattr(type(main), "get_command", lambda *_: failing(error))
    assert says in run("info", exit_code=exit_code).stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_debug_shows_the_traceback(place: str, tmp_path: Path) -> None:
    words = ["info", str(tmp_path / "none.json")]
    result = CliRunner().invoke(main, ["--debug", *words] if place == "before" else [*words, "--debug"])
    assert result.exit_code == 2
    assert "Traceback" in result.stderr
    assert "UsageError" in result.stderr


def test_a_reader_that_leaves_ends_the_program_quietly(two_ranks: Path) -> None:
    program = f"{sys.executable} -m stallscope.cli query {two_ranks} 'from slices' --format csv -n 0"
    answer = subprocess.run(
        ["bash", "-c", f"for i in 1 2 3; do {program}; done | head -1"], capture_output=True, text=True, check=False
    )
    assert answer.stdout.startswith('"slice_id"')
    assert "Traceback" not in answer.stderr
    assert "Broken pipe" not in answer.stderr


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    program = (
        "import sys, stallscope.cli.main as m\n"
        "try: m.main(['--help'])\n"
        "except SystemExit: pass\n"
        "heavy = {'pandas', 'duckdb', 'pyarrow', 'numpy', 'rich', 'torch'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    started = time.process_time()
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)
    assert time.process_time() - started < 0.3
