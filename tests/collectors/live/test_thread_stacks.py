"""Both readers of stacks see the same frames, and the compiled one harms no thread that it looks at."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from stallscope.collectors.live import looks
from stallscope.collectors.live.thread_stacks import TextStacks

native = looks._stacks_native
NEEDS_NATIVE = pytest.mark.skipif(native is None, reason="the native stacks are not built")


class NativeStacks:
    """The compiled part as a reader of one look."""

    def read(self) -> dict[int, bytes]:
        [(_, stacks, *_)], _, _ = native.looks(native.begin(), 1e-6, 0.0, (), (), 1, 0, frozenset())
        return stacks

    def frames_in(self, stack: bytes) -> list[tuple[str, int, str]]:
        return native.frames_in(stack)

    def close(self) -> None:
        pass


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


def frames_of(reader: TextStacks | NativeStacks, thread: int) -> list[tuple[str, int, str]]:
    try:
        return reader.frames_in(reader.read()[thread])
    finally:
        reader.close()


@pytest.mark.parametrize("reader", [TextStacks, pytest.param(NativeStacks, marks=NEEDS_NATIVE)])
def test_a_stack_is_told_innermost_first_with_the_lines_that_run(reader: type[TextStacks | NativeStacks]) -> None:
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
