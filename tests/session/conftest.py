"""What every test of the session must leave behind: nothing."""

from collections.abc import Iterator

import pytest

from stallscope.collectors.live.foreign_profiler import session_active


@pytest.fixture(autouse=True)
def no_session_of_torch_is_left() -> Iterator[None]:
    """A session of torch's profiler that a recording left running would grow until the program ends."""
    yield
    assert not session_active()
