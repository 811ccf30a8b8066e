"""Where the training threads are, up to a hundred times a second: the line that runs, not the line of its def.

A look sees all threads (``looks``), and looks are rarer where they would take more than their share. Run-queue delay
comes with every few of them, from the kernel, so a thread that wanted to run and was not let shows. A thread beside the
training threads has a row where it ran since the look before: while it runs Python, no training thread does.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from ...profiler.recording.collector import CaptureContext
from .looks import Look, Watch, looks
from .thread_times import ScheduleFile, ThreadTimes, state_between

MOST_HZ = 100.0
"""Samples a second, unless a setting says how many."""

SHARE = {"always": 0.001}
USUAL_SHARE = 0.005
"""The share of one core that samples may take, by detail, unless a setting says how many are wanted."""

RAN_FRAC = 0.1
"""Another thread is worth a row where it was on a core for this share of the time since the look before."""

MOST_OTHERS = 16
"""So many other threads are watched."""

_THREAD_CPU_CLOCK = 6  # CPUCLOCK_PERTHREAD_MASK | CPUCLOCK_SCHED

_SMOOTHING = 0.1
_OWN = "stallscope-"


class SamplerCollector:
    """Writes ``samples`` of each training thread."""

    name = "sampler"
    details = ("always", "low", "normal", "deep")
    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._quit = False
        self._thread: threading.Thread | None = None
        self._training: dict[int, _Watched] = {}
        self._others: dict[int, _Other] = {}

    def available(self) -> str | None:
        """On Linux, whose pipes and scheduler's numbers it uses."""
        return None if sys.platform == "linux" else "stacks are sampled on Linux only"

    def start(self, context: CaptureContext) -> None:
        """Starts the sampling thread."""
        self._context = context
        self._looks = looks()
        context.around_main_thread_calls(self._looks.hold, self._looks.release)
        self._write = context.guarded(self.name, self._write_looks)
        run = context.guarded(self.name, self._run)
        self._thread = threading.Thread(target=run, name=f"{_OWN}sampler", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._quit = True
        if self._thread is not None:
            self._looks.cancel()
            self._thread.join(timeout=2.0)
        for watched in self._training.values():
            watched.close()
        self._looks.close()

    def _run(self) -> None:
        asked = self._context.settings["sample_hz"]
        shortest = 1.0 / (asked or MOST_HZ)
        share = 1.0 if asked else SHARE.get(self._context.detail, USUAL_SHARE)
        cost = 0.0
        while not self._quit and self._context.active:
            found, spent = self._looks.take(max(shortest, cost / share), self._watch())
            sys.setprofile(None)  # torch's profiler traces every thread that is there; this one is not the program's
            began = time.thread_time()
            self._write(found)
            if found:
                spent += time.thread_time() - began
                cost += (1.0 - (1.0 - _SMOOTHING) ** len(found)) * (spent / len(found) - cost)

    _run.is_thread_body = True  # type: ignore[attr-defined]

    def _watch(self) -> Watch:
        """What is looked at next: the threads that there are now, but for our own."""
        training = tuple(self._context.training_threads)
        threads = {one.ident: one for one in threading.enumerate() if one.ident is not None}
        for thread in training:
            if thread not in self._training:
                self._training[thread] = _Watched(self._thread_id(threads.get(thread), thread))
        natives = {
            ident: one.native_id for ident, one in threads.items()
            if ident not in training and not one.name.startswith(_OWN) and one.native_id is not None
        }  # fmt: skip
        kept = {ident: one for ident, one in self._others.items() if natives.get(ident) == one.thread_id}
        new = [ident for ident in natives if ident not in kept][: MOST_OTHERS - len(kept)]
        self._others = kept | {ident: _Other(natives[ident]) for ident in new}
        own = frozenset(ident for ident, one in threads.items() if one.name.startswith(_OWN))
        files = [one.file for one in self._training.values() if one.file is not None]
        return Watch([one.clock for one in self._others.values()], files, own)

    def _thread_id(self, thread: threading.Thread | None, ident: int) -> int:
        if ident == threading.main_thread().ident:
            return os.getpid()  # in a process that was forked, Python still has the parent's id
        return thread.native_id if thread is not None and thread.native_id is not None else ident

    def _write_looks(self, found: list[Look]) -> None:
        for look in found:
            if self._context.active:
                self._write_look(look)

    def _write_look(self, look: Look) -> None:
        rows = self._context.rows
        readable = [watched for watched in self._training.values() if watched.file is not None]
        for watched, text in zip(readable, look.schedules, strict=False):
            watched.note(look.read_ts, text)
        for thread, watched in self._training.items():
            stack = look.stacks.get(thread)
            if stack is not None:
                state, delay = watched.since_last() if look.schedules else (None, None)
                rows.append(
                    "samples", track_id=rows.thread_track(watched.thread_id), ts=look.ts,
                    stack_id=rows.stack_of_bytes(stack, self._looks.frames_in), state=state, run_delay_ns=delay,
                )  # fmt: skip
        for (thread, other), running in zip(self._others.items(), look.running_ns, strict=True):
            if other.ran(look.read_ts, running) and thread in look.stacks:
                stack_id = rows.stack_of_bytes(look.stacks[thread], self._looks.frames_in)
                rows.append(
                    "samples", track_id=rows.thread_track(other.thread_id), ts=look.ts, stack_id=stack_id,
                    state="running", run_delay_ns=None,
                )  # fmt: skip


class _Watched:
    """One training thread between looks."""

    def __init__(self, thread_id: int) -> None:
        self.thread_id = thread_id
        self._before: tuple[int, ThreadTimes] | None = None
        self._last: tuple[int, ThreadTimes] | None = None
        try:
            self._file: ScheduleFile | None = ScheduleFile(thread_id)
        except OSError:
            self._file = None

    @property
    def file(self) -> int | None:
        """The file of its times; None where there is none."""
        return self._file.number if self._file else None

    def note(self, ts: int, text: bytes) -> None:
        """What stood in the file."""
        times = ThreadTimes.parsed(text)
        self._before, self._last = self._last, (ts, times) if times else None

    def since_last(self) -> tuple[str | None, int | None]:
        """State and run-queue delay between the last two readings; None where the kernel is silent."""
        if self._before is None or self._last is None:
            return None, None
        (earlier, before), (ts, times) = self._before, self._last
        return state_between(before, times, ts - earlier), times.run_delay_ns - before.run_delay_ns

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None


class _Other:
    """A thread beside the training threads, between looks.

    Its CPU clock is read, and not schedstat: reading a file gives the interpreter away and waits to get it back. The
    number of a thread's clock is made of the thread's id (see clock_getcpuclockid(3) and the kernel's posix-timers.h).
    """

    def __init__(self, thread_id: int) -> None:
        self.thread_id = thread_id
        self.clock = (~thread_id << 3) | _THREAD_CPU_CLOCK
        self._before: tuple[int, int] | None = None

    def ran(self, ts: int, running: int) -> bool:
        """Whether it was on a core for a good part of the time since the look before."""
        before, self._before = self._before, (ts, running)
        if before is None or running < 0 or before[1] < 0:
            return False
        return running - before[1] > RAN_FRAC * (ts - before[0])
