"""Functions that are run on the main thread, and others that ask something of it meanwhile."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from stallscope.collectors.live import looks
from stallscope.profiler.session import main_thread
from stallscope.profiler.session.main_thread import around_calls, run_on_main_thread


@pytest.fixture
def told() -> Iterator[list[str]]:
    events: list[str] = []
    around_calls(lambda: events.append("begins"), lambda: events.append("ends"))
    yield events
    main_thread._around = None


def wait_for(events: list[str], last: str) -> None:
    until = time.monotonic() + 5
    while (not events or events[-1] != last) and time.monotonic() < until:
        time.sleep(0.001)


def test_whoever_asks_as_well_is_told_before_and_after(told: list[str]) -> None:
    assert run_on_main_thread(lambda: told.append("first"))
    wait_for(told, "ends")
    assert told == ["begins", "first", "ends"]


def test_several_functions_are_one_stretch(told: list[str]) -> None:
    def first() -> None:
        told.append("first")
        run_on_main_thread(lambda: told.append("second"))

    run_on_main_thread(first)
    wait_for(told, "ends")
    assert told == ["begins", "first", "second", "ends"]


def test_who_comes_later_is_told_what_is_under_way(told: list[str]) -> None:
    def function() -> None:
        around_calls(lambda: told.append("told"), lambda: told.append("over"))

    run_on_main_thread(function)
    wait_for(told, "over")
    assert told == ["begins", "told", "over"]


TRACED = """
import sys, time
def inner():
    time.sleep(0.0001)  # gives the interpreter away and takes it back
def traced():
    sys.setprofile(lambda *_: None)
    for _ in range(50):
        inner()
    sys.setprofile(None)
    done.append(1)
done = []
"""

HANGS = f"""{TRACED}
import threading
from stallscope.collectors.live.looks import CompiledLooks, Watch
from stallscope.profiler.session.main_thread import around_calls, run_on_main_thread

looks = CompiledLooks()
around_calls(looks.hold, looks.release)
def forever():
    while True:
        looks.take(0.0002, Watch((), (), frozenset()))
threading.Thread(target=forever, daemon=True).start()
for number in range(20):
    run_on_main_thread(traced)
    while len(done) <= number:
        time.sleep(0.0001)
print(len(done))
"""


HANGS_WHILE_RECORDED = f"""{TRACED}
import stallscope
from stallscope.profiler.session import running

with stallscope.profile(sys.argv[1], collectors="sampler", sample_hz=5000):
    for number in range(20):
        running.session().on_main_thread(traced)
        while len(done) <= number:
            time.sleep(0.0001)
print(len(done))
"""


@pytest.mark.skipif(looks._stacks_native is None, reason="the native stacks are not built")
@pytest.mark.parametrize("program", [HANGS, HANGS_WHILE_RECORDED], ids=["looks", "recording"])
def test_a_traced_function_does_not_wait_for_a_look(program: str, tmp_path: Path) -> None:
    """Python 3.11 cannot take a call off its queue while another runs, and a traced function waits for that."""
    command = [sys.executable, "-c", program, str(tmp_path / "run")]
    found = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (found.stdout, found.stderr) == ("20\n", "")
