"""Both readers of stacks see the same frames, and the compiled one harms no thread that it looks at."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stallscope.collectors.live import thread_stacks
from stallscope.collectors.live.thread_stacks import NativeStacks, StackReader, TextStacks, stack_reader

NEEDS_NATIVE = pytest.mark.skipif(thread_stacks._stacks_native is None, reason="the native stacks are not built")


def wait_below(depth: int, reached: threading.Event, leave: threading.Event) -> None:
    if depth:
        wait_below(depth - 1, reached, leave)
    else:
        reached.set()
        leave.wait(30)


@contextmanager
def waiting_thread(depth: int) -> Iterator[int]:
    reached, leave = threading.Event(), threading.Event()
    thread = threading.Thread(target=wait_below, args=(depth, reached, leave))
    thread.start()
    reached.wait(30)
    try:
        yield thread.ident or 0
    finally:
        leave.set()
        thread.join()


def frames_of(reader: StackReader, thread: int) -> list[tuple[str, int, str]]:
    try:
        return reader.frames_in(reader.read()[thread])
    finally:
        reader.close()


@pytest.mark.parametrize("reader", [TextStacks, pytest.param(NativeStacks, marks=NEEDS_NATIVE)])
def test_a_stack_is_told_innermost_first_with_the_lines_that_run(reader: type[StackReader]) -> None:
    first = wait_below.__code__.co_firstlineno
    with waiting_thread(3) as thread:
        frames = frames_of(reader(), thread)
    ours = [(line, function) for file, line, function in frames if file == __file__]
    assert ours == [(first + 5, "wait_below")] + [(first + 2, "wait_below")] * 3


@NEEDS_NATIVE
def test_both_readers_tell_the_same() -> None:
    with waiting_thread(40) as thread:
        assert frames_of(NativeStacks(), thread) == frames_of(TextStacks(), thread)


@NEEDS_NATIVE
def test_equal_bytes_are_equal_stacks() -> None:
    reader = NativeStacks()
    with waiting_thread(2) as one, waiting_thread(2) as other, waiting_thread(3) as deeper:
        stacks = reader.read()
        assert stacks[one] == stacks[other] != stacks[deeper]
        assert reader.read()[one] == stacks[one]


@NEEDS_NATIVE
def test_of_a_deep_stack_the_innermost_frames_are_told() -> None:
    with waiting_thread(400) as thread:
        frames = frames_of(NativeStacks(), thread)
    assert len(frames) == 256
    assert frames[-1] == (__file__, wait_below.__code__.co_firstlineno + 2, "wait_below")


@NEEDS_NATIVE
def test_a_stack_is_readable_after_its_code_has_gone() -> None:
    reader, names = NativeStacks(), {"read": lambda: stacks.append(reader.read()[threading.get_ident()])}
    stacks: list[bytes] = []
    exec(compile("def passing():\n    read()\npassing()\n", "<gone>", "exec"), names)
    names.clear()
    exec(compile("def another():\n    return 1\nanother()\n", "<other>", "exec"), {})
    assert ("<gone>", 2, "passing") in reader.frames_in(stacks[0])


@NEEDS_NATIVE
@pytest.mark.parametrize("stack", [b"x", bytes(16), b"\xff" * 32])
def test_bytes_that_are_no_stack_are_refused(stack: bytes) -> None:
    with pytest.raises(ValueError, match="no stack that was read here"):
        NativeStacks().frames_in(stack)


@NEEDS_NATIVE
def test_threads_run_on_unharmed_while_they_are_read() -> None:
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
        reader = NativeStacks()
        lengths = [len(reader.frames_in(stack)) for _ in range(300) for stack in reader.read().values()]
    finally:
        quit_.set()
        for thread in threads:
            thread.join()
        sys.setswitchinterval(interval)
    assert set(results) == {30}
    assert max(lengths) > 30


def test_without_the_compiled_reader_text_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_stacks, "_stacks_native", None)
    reader = stack_reader()
    try:
        assert isinstance(reader, TextStacks)
    finally:
        reader.close()
