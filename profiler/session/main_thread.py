"""Running a function on the main thread from another one, between two bytecodes, as Python runs signal handlers.

torch.profiler records the thread that started it, so a segment must be ended and begun on that thread, also in a
program that has no step to do it at.
"""

from __future__ import annotations

import _thread
import ctypes
from collections import deque
from collections.abc import Callable
from typing import Any

_asked: deque[Callable[[], None]] = deque()


def _run_asked(_unused: Any) -> int:
    """Runs what was asked for; what it raises is lost, but a Ctrl-C that arrives in it is delivered again after it."""
    while _asked:
        function = _asked.popleft()
        try:
            function()
        except KeyboardInterrupt:
            _thread.interrupt_main()
        except BaseException:  # noqa: BLE001 - there is no caller to give it to; collectors are guarded further in
            continue
    return 0


# One for the life of the process: a callback that is freed while it runs ends the process.
_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(_run_asked)


def run_on_main_thread(function: Callable[[], None]) -> bool:
    """Asks for the function to be run soon on the main thread; False where Python's queue of such calls is full."""
    _asked.append(function)
    if ctypes.pythonapi.Py_AddPendingCall(_CALLBACK, None) == 0:
        return True
    try:
        _asked.remove(function)
    except ValueError:
        return True  # an earlier call has run it meanwhile
    return False
