"""What every test of the session must leave behind: nothing."""

import signal
from collections.abc import Iterator

import pytest

from stallscope.collectors.live.foreign_profiler import session_active


@pytest.fixture(autouse=True, scope="session")
def programs_can_be_interrupted() -> None:
    """What a shell starts in the background ignores Ctrl-C, and programs that tests start would inherit that."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def no_session_of_torch_is_left() -> Iterator[None]:
    """A session of torch's profiler that a recording left running would grow until the program ends."""
    yield
    assert not session_active()
