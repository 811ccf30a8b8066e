"""What the tests of the command line share: a runner, and one small recording of two ranks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stallscope.cli.main import main
from tests.cli.recordings import training, written

Run = Callable[..., Result]


@pytest.fixture
def run() -> Run:
    """Runs the command line; checks that no traceback reaches the user and that nothing failed unless expected."""

    def invoke(*arguments: Any, exit_code: int = 0, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(main, [str(argument) for argument in arguments], input=stdin)
        assert result.exit_code == exit_code, result.output
        assert "Traceback" not in result.output
        assert "\x1b" not in result.output
        return result

    return invoke


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two ranks of four steps; rank 1's device runs 0.2 ms later."""
    return written(tmp_path_factory.mktemp("recordings") / "two", training(0), training(1, late_ns=200_000))
