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

    @classmethod
    def parsed(cls, text: bytes) -> ThreadTimes | None:
        """From the text of ``schedstat``; None where it is not whole: the thread is gone."""
        try:
            running, run_delay = text.split()[:2]
            return cls(int(running), int(run_delay))
        except ValueError:
            return None


class ScheduleFile:
    """The open file of one thread's totals.

    Args:
        thread_id: The operating system's id of a thread of this process.

    Attributes:
        number: Its descriptor.

    Raises:
        OSError: There is no such file: no Linux, or a kernel without schedstat.
    """

    def __init__(self, thread_id: int) -> None:
        self.number = os.open(f"/proc/self/task/{thread_id}/schedstat", os.O_RDONLY | os.O_CLOEXEC)

    def close(self) -> None:
        """Closes the file."""
        os.close(self.number)


def state_between(before: ThreadTimes, after: ThreadTimes, elapsed_ns: int) -> str:
    """What the thread did most between two readings: running, runnable (waited for a core) or sleeping.

    Sleeping is every wait that is not for a core: a lock, the interpreter, a device, a file.
    """
    running = after.running_ns - before.running_ns
    delayed = after.run_delay_ns - before.run_delay_ns
    sleeping = max(0, elapsed_ns - running - delayed)
    return max((running, "running"), (delayed, "runnable"), (sleeping, "sleeping"))[1]
