"""pytest: ``with stallscope_gate("name", step_time="+3%"): ...`` holds what runs inside against a kept baseline.

pytest loads this module wherever stallscope is installed, so it imports nothing of ours until a test asks for the
fixture. Baselines are kept like snapshots, beside the test that they belong to, in ``__stallscope__/``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .pytest_gate import GateOfTest


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds ``--stallscope-update``."""
    parser.getgroup("stallscope").addoption(
        "--stallscope-update",
        nargs="?",
        const="replace",
        choices=("replace", "add"),
        metavar="replace|add",
        help="Keep what runs now as the baselines of stallscope_gate; 'add': beside the runs that they have.",
    )


@pytest.fixture
def stallscope_gate(request: pytest.FixtureRequest, tmp_path: Path) -> GateOfTest:
    """Makes gates of blocks of a test.

        with stallscope_gate("name", step_time="+3%") as recording:
            train(after_each_step=recording.step)

    The block is recorded. Without ``recording.step()`` its steps end where optimizers step.
    """
    from .pytest_gate import GateOfTest

    return GateOfTest(request.path, tmp_path, request.config)
