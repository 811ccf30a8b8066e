"""The stacks of all threads at one moment, without a thread running on in the middle.

The compiled part reads the frames between two bytecodes and takes a few microseconds (see ``stacks.cpp``). Where it was
not built, ``faulthandler`` prints stacks with the interpreter's lock held from the first line to the last, which takes
ten times as long. Walking frames in Python (``sys._current_frames``) would let the watched thread run on meanwhile, and
under 3.11 a frame object can then outlive its frame: the process ends.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import re
from contextlib import suppress

_PIPE_BYTES = 1 << 20
_SET_PIPE_SIZE = 1031  # fcntl.F_SETPIPE_SZ, which has a name from 3.10 on where the platform has it

_SECTION = re.compile(rb"^(?:Current thread|Thread) 0x([0-9a-f]+)[^\n]*\(most recent call first\):\n", re.MULTILINE)
_FRAME = re.compile(r'^  File "(.*)", line (\d+) in (.*)$', re.MULTILINE)


class TextStacks:
    """Reads what ``faulthandler`` prints.

    Raises:
        OSError: There are no pipes to be had.
    """

    def __init__(self) -> None:
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with suppress(OSError):  # a smaller pipe cuts off the stacks of the last of many threads
            fcntl.fcntl(self._write, _SET_PIPE_SIZE, _PIPE_BYTES)

    def read(self) -> dict[int, bytes]:
        """The text of each thread's stack by ``threading.get_ident()``, innermost line first."""
        faulthandler.dump_traceback(self._write, all_threads=True)
        text = os.read(self._read, _PIPE_BYTES)
        headers = list(_SECTION.finditer(text))
        ends = [header.start() for header in headers[1:]] + [len(text)]
        return {
            int(header[1], 16): text[header.end() : end] for header, end in zip(headers, ends, strict=True)
        }  # fmt: skip

    def frames_in(self, stack: bytes) -> list[tuple[str, int, str]]:
        """File, line and function of each frame in a stack's text, innermost first."""
        found = _FRAME.findall(stack.decode("utf-8", errors="replace"))
        return [(file, int(line), function) for file, line, function in found]

    def close(self) -> None:
        """Closes the pipe."""
        os.close(self._write)
        os.close(self._read)
