"""Where the training threads are, a hundred times a second: the line that runs, not the line of its def.

A thread of this process looks at the others' frames. No other Python runs during a look, and looks are rarer where
they would take more than their share. Run-queue delay comes with each sample, from the kernel, so a thread that wanted
to run and was not let shows. A thread beside the training threads is looked at where it ran since the look before:
while it runs Python, no training thread does.
"""

from __future__ import annotations

import os
import sys
import threading
import time

from ...profiler.recording.collector import CaptureContext
from .thread_stacks import stack_reader
from .thread_times import ScheduleReader, ThreadTimes, state_between

SCHEDULE_EVERY = 5
"""The scheduler's numbers are read with every so-many-th sample: the kernel itself renews them every few ms."""

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


class SamplerCollector:
    """Writes ``samples`` of each training thread."""

    name = "sampler"
    details = ("always", "low", "normal", "deep")
    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._quit = False
        self._thread: threading.Thread | None = None
        self._watched: dict[int, _Watched] = {}
        self._others: dict[int, _Other | None] = {}

    def available(self) -> str | None:
        """On Linux, whose pipes and scheduler's numbers it uses."""
        return None if sys.platform == "linux" else "stacks are sampled on Linux only"

    def start(self, context: CaptureContext) -> None:
        """Starts the sampling thread."""
        self._context = context
        self._stacks = stack_reader()
        self._take = context.guarded(self.name, self._sample)
        self._thread = threading.Thread(
            target=context.guarded(self.name, self._run), name="stallscope-sampler", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Ends it."""
        self._quit = True
        if self._thread is not None:
            self._thread.join(timeout=2.0)
        for watched in self._watched.values():
            watched.close()
        self._stacks.close()

    def _run(self) -> None:
        asked = self._context.settings["sample_hz"]
        shortest = 1.0 / (asked or MOST_HZ)
        share = 1.0 if asked else SHARE.get(self._context.detail, USUAL_SHARE)
        due, cost = time.monotonic(), 0.0
        while not self._quit:
            # A late sample is not made up for: two in a row would count one moment twice.
            due = max(due + max(shortest, cost / share), time.monotonic())
            # Not Event.wait, which takes the interpreter's lock several times: each time a training thread waits.
            time.sleep(max(0.0, due - time.monotonic()))
            sys.setprofile(None)  # torch's profiler traces every thread that is there; this one is not the program's
            if not self._quit:
                began = time.thread_time()
                self._take()
                cost += _SMOOTHING * (time.thread_time() - began - cost)

    _run.is_thread_body = True  # type: ignore[attr-defined]

    def _sample(self) -> None:
        if not self._context.active:
            return
        rows = self._context.rows
        now = rows.now()
        stacks = self._stacks.read()
        for thread in tuple(self._context.training_threads):
            stack = stacks.get(thread)
            if stack is None:
                continue
            watched = self._watched.get(thread) or self._watch(thread)
            state, delay = watched.since_last(now)
            rows.append(
                "samples", track_id=rows.thread_track(watched.thread_id), ts=now,
                stack_id=rows.stack_of_bytes(stack, self._stacks.frames_in), state=state, run_delay_ns=delay,
            )  # fmt: skip
        self._sample_others(now, stacks)

    def _sample_others(self, now: int, stacks: dict[int, bytes]) -> None:
        """A row, with the state running, for each other thread of the program that ran since the look before."""
        rows = self._context.rows
        if stacks.keys() != self._others.keys():
            self._follow(stacks)
        for thread, other in self._others.items():
            if other is not None and thread not in self._context.training_threads and other.ran(now):
                stack_id = rows.stack_of_bytes(stacks[thread], self._stacks.frames_in)
                rows.append(
                    "samples", track_id=rows.thread_track(other.thread_id), ts=now, stack_id=stack_id, state="running",
                    run_delay_ns=None,
                )  # fmt: skip

    def _follow(self, stacks: dict[int, bytes]) -> None:
        """Watches the threads that there are now; not our own."""
        natives = {one.ident: one.native_id for one in threading.enumerate() if not one.name.startswith("stallscope-")}
        for gone in self._others.keys() - stacks.keys():
            del self._others[gone]
        for thread in stacks.keys() - self._others.keys():
            native = natives.get(thread)
            watched = native is not None and sum(map(bool, self._others.values())) < MOST_OTHERS
            self._others[thread] = _Other(native) if watched and native is not None else None

    def _watch(self, thread: int) -> _Watched:
        native = next((one.native_id for one in threading.enumerate() if one.ident == thread), None)
        if thread == threading.main_thread().ident:
            native = os.getpid()  # in a process that was forked, Python still has the parent's id
        self._watched[thread] = _Watched(native if native is not None else thread)
        return self._watched[thread]


class _Watched:
    """One training thread between samples."""

    def __init__(self, thread_id: int) -> None:
        self.thread_id = thread_id
        self._samples = 0
        self._before: tuple[int, ThreadTimes] | None = None
        try:
            self._reader: ScheduleReader | None = ScheduleReader(thread_id)
        except OSError:
            self._reader = None

    def since_last(self, now: int) -> tuple[str | None, int | None]:
        """State and run-queue delay since the reading before; None between readings, and where the kernel is silent."""
        self._samples += 1
        if self._samples % SCHEDULE_EVERY:
            return None, None
        times = self._reader.read() if self._reader else None
        before, self._before = self._before, (now, times) if times else None
        if before is None or times is None:
            return None, None
        delay = times.run_delay_ns - before[1].run_delay_ns
        return state_between(before[1], times, now - before[0]), delay

    def close(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None


class _Other:
    """A thread beside the training threads, between looks.

    Its CPU clock is read, and not schedstat: reading a file gives the interpreter away and waits to get it back. The
    number of a thread's clock is made of the thread's id (see clock_getcpuclockid(3) and the kernel's posix-timers.h).
    """

    def __init__(self, thread_id: int) -> None:
        self.thread_id = thread_id
        self._clock = (~thread_id << 3) | _THREAD_CPU_CLOCK
        self._before: tuple[int, int] | None = None

    def ran(self, now: int) -> bool:
        """Whether it was on a core for a good part of the time since the look before."""
        try:
            running = time.clock_gettime_ns(self._clock)
        except OSError:  # the thread is gone
            return False
        before, self._before = self._before, (now, running)
        return before is not None and running - before[1] > RAN_FRAC * (now - before[0])
