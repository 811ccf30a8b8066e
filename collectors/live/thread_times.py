"""How long threads ran and how long they waited for a core, from /proc/self/task/ID/schedstat."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ThreadTimes:
    """Totals of one thread since it began.

    Attributes:
        running_ns: On a core.
        run_delay_ns: Ready to run, waiting for a core.
    """

    running_ns: int
    run_delay_ns: int


class ScheduleReader:
    """Reads one thread's totals, with the file kept open.

    Args:
        thread_id: The operating system's id of a thread of this process.

    Raises:
        OSError: There is no such file: no Linux, or a kernel without schedstat.
    """

    def __init__(self, thread_id: int) -> None:
        self._file = os.open(f"/proc/self/task/{thread_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def read(self) -> ThreadTimes | None:
        """The totals now; None once the thread is gone."""
        try:
            fields = os.pread(self._file, 128, 0).split()
            return ThreadTimes(int(fields[0]), int(fields[1]))
        except (OSError, ValueError, IndexError):
            return None

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)


def state_between(before: ThreadTimes, after: ThreadTimes, elapsed_ns: int) -> str:
    """What the thread did most between two readings: running, runnable (waited for a core) or sleeping.

    Sleeping is every wait that is not for a core: a lock, the interpreter, a device, a file.
    """
    running = after.running_ns - before.running_ns
    delayed = after.run_delay_ns - before.run_delay_ns
    sleeping = max(0, elapsed_ns - running - delayed)
    return max((running, "running"), (delayed, "runnable"), (sleeping, "sleeping"))[1]
