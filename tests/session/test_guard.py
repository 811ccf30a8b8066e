"""The net under collectors."""

from __future__ import annotations

import sys
import threading
import warnings
from pathlib import Path

import pytest

from stallscope.profiler.session.guard import MOST_FAILURES, CollectorWarning, Guard, warn_user
from stallscope.profiler.session.main_thread import run_on_main_thread

from .workloads import run_python


def test_what_a_collector_raises_is_reported_once_and_not_passed_on() -> None:
    reports: list[tuple[str, str, str]] = []
    guard = Guard(lambda collector, function, error: reports.append((collector, function, str(error))))

    def broken() -> None:
        raise ValueError("no")

    guarded = guard.wrap("x", broken, default=5)
    assert [guarded() for _ in range(3)] == [5, 5, 5]
    assert reports == [("x", "broken", "no")]
    assert guard.account("x").failures == {"broken": 3}


def test_a_function_that_keeps_failing_is_called_no_more() -> None:
    calls = []
    guard = Guard(lambda *_: None)

    def broken() -> None:
        calls.append(1)
        raise ValueError

    guarded = guard.wrap("x", broken)
    for _ in range(MOST_FAILURES + 5):
        guarded()
    assert len(calls) == MOST_FAILURES


def test_a_ctrl_c_passes_through() -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Guard(lambda *_: None).call("x", interrupted)


def test_a_failing_report_is_not_passed_on_either() -> None:
    def report(*_: object) -> None:
        raise OSError

    def broken() -> None:
        raise ValueError

    guard = Guard(report)
    guard.call("x", broken)
    assert guard.account("x").failures == {"broken": 1, "report": 1}


def test_a_warning_is_never_an_exception(capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_user("something is missing")
    assert "something is missing" in capsys.readouterr().err
    with pytest.warns(CollectorWarning, match="missing"):
        warn_user("something is missing")


def test_the_cost_of_calls_is_kept() -> None:
    guard = Guard(lambda *_: None)
    guard.call("x", sum, range(100_000))
    account = guard.account("x").as_json()
    assert account["calls"] == 1
    assert account["cost_ns"] > 100_000


def test_a_function_runs_on_the_main_thread_between_two_bytecodes() -> None:
    seen: list[threading.Thread] = []
    asked: list[bool] = []

    def ask() -> None:
        asked.append(run_on_main_thread(lambda: seen.append(threading.current_thread())))

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    for _ in range(100_000):
        if seen:
            break
        sys.getrecursionlimit()
    assert asked == [True]
    assert seen == [threading.main_thread()]


def test_an_exception_on_the_main_thread_is_lost_and_harms_nobody() -> None:
    seen: list[int] = []

    def broken() -> None:
        seen.append(1)
        raise ValueError

    thread = threading.Thread(target=lambda: [run_on_main_thread(broken), run_on_main_thread(lambda: seen.append(2))])
    thread.start()
    thread.join()
    for _ in range(100_000):
        if len(seen) == 2:
            break
        sys.getrecursionlimit()
    assert seen == [1, 2]


ASKED_WHILE_IT_RUNS = """
import sys, threading, time
from stallscope.profiler.session.main_thread import run_on_main_thread
seen = []

def ask(function):
    thread = threading.Thread(target=run_on_main_thread, args=(function,))
    thread.start()
    thread.join()

def first():
    ask(lambda: seen.append("second"))
    sys.setprofile(lambda frame, event, argument: None)
    called()
    sys.setprofile(None)

def called():
    seen.append("first")

ask(first)
while len(seen) < 2:
    time.sleep(0.001)
print(*seen)
"""


def test_what_is_asked_for_while_a_traced_function_runs_waits_for_its_end(tmp_path: Path) -> None:
    ran = run_python("-c", ASKED_WHILE_IT_RUNS, cwd=tmp_path, timeout=60)
    assert ran.stdout.split() == ["first", "second"], ran.stderr
