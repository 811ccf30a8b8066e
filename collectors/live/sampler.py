"""Where the training threads are, a hundred times a second: the line that runs, not the line of its def.

A thread of this process looks at the others' frames, which costs it some microseconds a look. Run-queue delay comes
with each sample, from the kernel, so a thread that wanted to run and was not let shows.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
import time

from ...profiler.recording.collector import CaptureContext
from .thread_times import ScheduleReader, ThreadTimes, state_between

SCHEDULE_EVERY = 5
"""The scheduler's numbers are read with every so-many-th sample: the kernel itself renews them every few ms."""

COLLECTS_WHILE_ALLOCATING = sys.version_info < (3, 12)
"""Before 3.12 making a frame object could set off a garbage collection, whose callbacks let the watched thread run on:
the frame object then points to a frame that is gone, and the process ends. So collections are off for the few
microseconds of a look."""


SAFE_FROM = (3, 12)
"""Recordings on an accelerator under 3.11 have crashed with collections off as well: no sample is worth a run."""


class SamplerCollector:
    """Writes ``samples`` of each training thread."""

    name = "sampler"
    details = ("always", "low", "normal", "deep")
    needs: tuple[str, ...] = ()

    def __init__(self) -> None:
        self._quit = False
        self._thread: threading.Thread | None = None
        self._watched: dict[int, _Watched] = {}

    def available(self) -> str | None:
        """Where Python shows the frames of other threads, and looking at them is safe."""
        if not hasattr(sys, "_current_frames"):
            return "this Python does not show the frames of other threads"
        if sys.version_info < SAFE_FROM and not os.environ.get("STALLSCOPE_UNSAFE_SAMPLER"):
            return "before Python 3.12 looking at the frames of a running thread can end the process"
        return None

    def start(self, context: CaptureContext) -> None:
        """Starts the sampling thread."""
        self._context = context
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

    def _run(self) -> None:
        period = 1.0 / self._context.settings["sample_hz"]
        due = time.monotonic()
        while not self._quit:
            # A late sample is not made up for: two in a row would count one moment twice.
            due = max(due + period, time.monotonic())
            # Not Event.wait, which takes the interpreter's lock several times: each time a training thread waits.
            time.sleep(max(0.0, due - time.monotonic()))
            sys.setprofile(None)  # torch's profiler traces every thread that is there; this one is not the program's
            if not self._quit:
                self._take()

    def _sample(self) -> None:
        if not self._context.active:
            return
        collects = COLLECTS_WHILE_ALLOCATING and gc.isenabled()
        if collects:
            gc.disable()
        try:
            self._look()
        finally:
            if collects:
                gc.enable()

    def _look(self) -> None:
        rows = self._context.rows
        frames = sys._current_frames()
        now = rows.now()
        for thread in tuple(self._context.training_threads):
            frame = frames.get(thread)
            if frame is None:
                continue
            watched = self._watched.get(thread) or self._watch(thread)
            state, delay = watched.since_last(now)
            rows.append(
                "samples", track_id=rows.thread_track(watched.thread_id), ts=now, stack_id=rows.stack_of(frame),
                state=state, run_delay_ns=delay,
            )  # fmt: skip

    def _watch(self, thread: int) -> _Watched:
        native = next((one.native_id for one in threading.enumerate() if one.ident == thread), None)
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
