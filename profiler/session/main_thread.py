"""Running a function on the main thread from another one, between two bytecodes, as Python runs signal handlers.

torch.profiler records the thread that started it, so a segment must be ended and begun on that thread, also in a
program that has no step to do it at.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

_asked: deque[Callable[[], None]] = deque()
_lock = threading.RLock()
_around: tuple[Callable[[], None], Callable[[], None]] | None = None
_outstanding = False
"""Whether Python has a call of ours queued, or runs it.

There is never a second one behind it: while a call runs, Python 3.11 and earlier cannot take another off its queue, and
a function that is entered under a tracer (which torch.profiler is, with stacks) then waits for that without end.
"""


def _run_asked(_unused: Any) -> int:
    """Runs what was asked for; what it raises is lost, but a Ctrl-C that arrives in it is delivered again after it."""
    while (function := _next_asked()) is not None:
        try:
            function()
        except KeyboardInterrupt:
            _thread.interrupt_main()
        except BaseException:  # noqa: BLE001 - there is no caller to give it to; collectors are guarded further in
            continue
    return 0


def _next_asked() -> Callable[[], None] | None:
    with _lock:
        if not _asked:
            _set_outstanding(False)
            return None
        return _asked.popleft()


def _set_outstanding(value: bool) -> None:
    global _outstanding
    _outstanding = value
    if _around:
        _around[0 if value else 1]()


def around_calls(begins: Callable[[], None], ends: Callable[[], None]) -> None:
    """Has functions called before a call is queued, and once none is queued or runs: who else queues calls waits.

    They take the place of those before: there is one recording at a time.
    """
    global _around
    with _lock:
        _around = (begins, ends)
        if _outstanding:
            begins()


# One for the life of the process: a callback that is freed while it runs ends the process.
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_run_asked)


def run_on_main_thread(function: Callable[[], None]) -> bool:
    """Asks for the function to be run soon on the main thread; False where Python's queue of such calls is full."""
    with _lock:
        _asked.append(function)
        if not _outstanding:
            _set_outstanding(True)
            if ctypes.pythonapi.Py_AddPendingCall(_CALLBACK, None) != 0:
                _set_outstanding(False)
                _asked.remove(function)
                return False
    return True
