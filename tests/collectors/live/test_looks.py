"""The compiled looks at all threads: who takes them, what they see, and that nothing is harmed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from stallscope.collectors.live import looks as looks_module
from stallscope.collectors.live.looks import CompiledLooks, Look, PlainLooks, Watch, looks

pytestmark = pytest.mark.skipif(looks_module._stacks_native is None, reason="the native stacks are not built")
NOTHING = Watch((), (), frozenset())


class Looking:
    """A thread that takes looks until it is left."""

    def __init__(self, period_s: float = 0.005, watch: Watch = NOTHING) -> None:
        self.takes: list[list[Look]] = []
        self.looks, self._period_s, self._watch = CompiledLooks(), period_s, watch
        self._quit = False
        self.thread = threading.Thread(target=self._run, daemon=True)

    @property
    def found(self) -> list[Look]:
        return [look for take in self.takes for look in take]

    def wait_for(self, condition: Callable[[Look], bool]) -> None:
        until = time.monotonic() + 10
        while not (self.found and condition(self.found[-1])):
            assert time.monotonic() < until
            time.sleep(0.001)

    def _run(self) -> None:
        while not self._quit:
            self.takes.append(self.looks.take(self._period_s, self._watch)[0])

    def __enter__(self) -> Looking:
        self.thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._quit = True
        self.looks.cancel()
        self.thread.join(5)
        assert not self.thread.is_alive()


def compute(seconds: float) -> int:
    total, until = 0, time.perf_counter() + seconds
    while time.perf_counter() < until:
        total += 1
    return total


def lines_of(looking: Looking, look: Look, thread: int) -> list[tuple[int, str]]:
    frames = looking.looks.frames_in(look.stacks[thread])
    return [(line, function) for file, line, function in frames if file == __file__]


def test_a_main_thread_outside_of_python_is_looked_at_as_well() -> None:
    with Looking() as looking:
        began = time.time_ns()
        time.sleep(0.3)
        ended = time.time_ns()
    line = test_a_main_thread_outside_of_python_is_looked_at_as_well.__code__.co_firstlineno + 3
    meanwhile = [look for look in looking.found if began <= look.ts < ended]
    assert len(meanwhile) >= 5
    assert {lines_of(looking, look, threading.get_ident())[0][0] for look in meanwhile} <= {line, line + 1}


def test_looks_are_in_order_and_no_closer_than_asked() -> None:
    with Looking(period_s=0.01) as looking:
        compute(0.4)
    stamps = [look.ts for look in looking.found]
    assert stamps == sorted(stamps)
    assert 5 <= len(stamps) <= 44
    assert all(look.ts <= look.read_ts for look in looking.found)


def test_other_threads_end_a_take() -> None:
    quit_ = threading.Event()
    with Looking(period_s=0.002) as looking:
        time.sleep(0.1)
        thread = threading.Thread(target=quit_.wait, args=(10,))
        thread.start()
        looking.wait_for(lambda look: thread.ident in look.stacks)
        quit_.set()
        thread.join()
        looking.wait_for(lambda look: thread.ident not in look.stacks)
    assert all(len({frozenset(look.stacks) for look in take[:-1]}) <= 1 for take in looking.takes)


def test_ignored_threads_have_no_stack() -> None:
    own = threading.get_ident()
    with Looking(watch=Watch((), (), frozenset({own}))) as looking:
        time.sleep(0.1)
    assert looking.found
    assert not [look for look in looking.found if own in look.stacks]


def test_clocks_and_files_are_read_with_the_looks() -> None:
    clock = time.pthread_getcpuclockid(threading.get_ident())
    file = os.open("/proc/self/statm", os.O_RDONLY)
    gone = os.open("/dev/null", os.O_RDONLY)
    try:
        with Looking(watch=Watch([clock, 1 << 20], [file, gone], frozenset())) as looking:
            compute(0.3)
    finally:
        os.close(file)
        os.close(gone)
    running = [look.running_ns[0] for look in looking.found]
    assert running == sorted(running)
    assert running[-1] - running[0] > 50_000_000
    assert {look.running_ns[1] for look in looking.found} == {-1}
    read = [number for number, look in enumerate(looking.found) if look.schedules]
    assert {later - earlier for earlier, later in pairwise(read)} == {5}
    for number in read:
        text, nothing = looking.found[number].schedules
        assert len(text.split()) == 7
        assert nothing == b""


@pytest.mark.parametrize(
    "changed", [{1: 0.0}, {1: float("nan")}, {2: -1.0}, {5: 0}, {3: ["x"]}, {3: 5}, {4: [None]}, {7: set()}, {2: 1e9}]
)
def test_what_makes_no_sense_is_refused(changed: dict[int, Any]) -> None:
    native = looks_module._stacks_native
    arguments: list[Any] = [native.begin(), 0.001, 0.0, (), (), 5, 0, frozenset()]
    for place, value in changed.items():
        arguments[place] = value
    with pytest.raises((ValueError, TypeError)):
        native.looks(*arguments)
    assert native.looks(arguments[0], 0.001, 0.0, (), (), 5, 3, frozenset())[1] == 4


def test_the_looks_that_were_begun_last_are_taken() -> None:
    with Looking() as before, Looking() as after:
        compute(0.1)
        began = time.time_ns()
        compute(0.2)
        assert before.looks.take(0.001, NOTHING)[0] == []
    assert not [look for look in before.found if look.ts >= began]
    assert len([look for look in after.found if look.ts >= began]) >= 2


def test_threads_run_on_unharmed_while_they_are_looked_at() -> None:
    quit_, results = threading.Event(), []

    def down(depth: int) -> int:
        try:
            return depth and 1 + down(depth - 1)
        finally:
            list(range(depth))

    def work() -> None:
        while not quit_.is_set():
            results.append(down(30))

    threads = [threading.Thread(target=work) for _ in range(3)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in threads:
            thread.start()
        with Looking(period_s=0.0005) as looking:
            until = time.monotonic() + 1
            while time.monotonic() < until:
                results.append(down(30))
    finally:
        quit_.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert set(results) == {30}
    assert len(looking.found) > 50
    assert max(len(lines_of(looking, look, threading.get_ident())) for look in looking.found) > 30


WHO = """
import hashlib, sys, threading, time
from collections import Counter
from stallscope.collectors.live.looks import CompiledLooks, Watch

who, looks, data = Counter(), CompiledLooks(), bytes(1 << 16)
def hook(event, arguments):
    if event == "sys._current_frames":
        who[threading.current_thread() is threading.main_thread()] += 1
sys.addaudithook(hook)
quit_ = False
def look():
    while not quit_:
        looks.take(0.002, Watch((), (), frozenset()))
thread = threading.Thread(target=look)
thread.start()
def counted(function):
    who.clear()
    until = time.monotonic() + 0.4
    while time.monotonic() < until:
        function()
    print(who[True], who[False])
counted(lambda: hashlib.sha256(data))  # gives the interpreter away and takes it back, as an op does
looks.hold()
counted(lambda: hashlib.sha256(data))
looks.release()
counted(lambda: time.sleep(0.4))
quit_ = True
looks.cancel()
thread.join()
"""


def test_who_takes_the_looks() -> None:
    found = subprocess.run([sys.executable, "-c", WHO], capture_output=True, text=True, timeout=60, check=True)
    calling, held, waiting = (tuple(map(int, line.split())) for line in found.stdout.splitlines())
    assert calling[0] > max(calling[1], 10)  # by the main thread, by the other
    assert held[0] <= 1  # what was asked before may still come
    assert held[1] >= 3
    assert waiting[1] >= 10
    assert waiting[0] <= 1


FORKS = """
import os, threading, time
from stallscope.collectors.live.looks import CompiledLooks, Watch

def look_for(seconds):
    taken, looks = [], CompiledLooks()
    thread = threading.Thread(target=lambda: taken.extend(looks.take(0.002, Watch((), (), frozenset()))[0]))
    thread.start()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass
    looks.cancel()
    thread.join()
    return len(taken)

looks = CompiledLooks()
def forever():
    while True:
        looks.take(0.0005, Watch((), (), frozenset()))
threading.Thread(target=forever, daemon=True).start()
for _ in range(20):
    child = os.fork()
    if not child:
        os._exit(0 if look_for(0.05) > 0 else 3)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
print("done")
"""

EXITS = """
import threading, time
from stallscope.collectors.live.looks import CompiledLooks, Watch

looks = CompiledLooks()
def forever():
    while True:
        looks.take(0.0005, Watch((), (), frozenset()))
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.2)
print("done")
"""


@pytest.mark.parametrize("program", [FORKS, EXITS], ids=["forks", "exits"])
def test_processes_fork_and_exit_in_the_middle_of_looks(program: str) -> None:
    for _ in range(3):
        found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        assert (found.returncode, found.stdout, found.stderr) == (0, "done\n", "")


def test_without_the_compiled_part_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks_module, "_stacks_native", None)
    plain = looks()
    assert isinstance(plain, PlainLooks)
    try:
        found = [plain.take(0.001, Watch((), (), frozenset({1})))[0] for _ in range(10)]
        assert [len(take) for take in found] == [1] * 10
        frames = plain.frames_in(found[0][0].stacks[threading.get_ident()])
        assert [function for file, _, function in frames if file == __file__] == [
            "<listcomp>" if sys.version_info < (3, 12) else test_without_the_compiled_part_text_is_read.__name__,
            test_without_the_compiled_part_text_is_read.__name__,
        ][: 2 if sys.version_info < (3, 12) else 1]
        plain.cancel()
        assert plain.take(0.001, NOTHING)[0] == []
    finally:
        plain.close()
