"""Running a function on the main thread from another one, between two bytecodes, as Python runs signal handlers.

torch.profiler records the thread that started it, so a segment must be ended and begun on that thread, also in a
program that has no step to do it at.
"""

from __future__ import annotations

import _thread
import ctypes
import threading
from collections.abc import Callable
from typing import Any

_CALLBACK = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_waiting: dict[int, Any] = {}


def run_on_main_thread(function: Callable[[], None]) -> bool:
    """Asks for the function to be run soon on the main thread; False where Python's queue of such calls is full.

    What the function raises is lost, except that a Ctrl-C that arrives in it is delivered again after it.
    """

    def run(_unused: Any) -> int:
        _waiting.pop(key, None)
        try:
            function()
        except KeyboardInterrupt:
            _thread.interrupt_main()
        except BaseException:  # noqa: BLE001 - there is no caller to give it to; collectors are guarded further in
            return 0
        return 0

    callback = _CALLBACK(run)
    key = id(callback)
    _waiting[key] = callback
    if ctypes.pythonapi.Py_AddPendingCall(callback, None) != 0:
        _waiting.pop(key, None)
        return False
    return True


def is_main_thread() -> bool:
    """Whether the caller runs on the interpreter's main thread."""
    return threading.current_thread() is threading.main_thread()
