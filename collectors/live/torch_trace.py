"""torch.profiler, run segment after segment: each is exported as torch's own JSON and converted by another process.

Ending and exporting a segment holds the training thread (about 4 us an event), so a segment ends between steps where
there are steps, and the pause is recorded as ``overhead``. Memory is what limits a segment: torch keeps half a kilobyte
an event until then. ``prof.events()`` is never called: it costs ten times as much.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ...profiler.recording.collector import CaptureContext, StepEnd
from ...profiler.recording.ids import SEGMENT_IDS, attempt_base
from ...profiler.recording.segment import BYTES_PER_ID, RAW, Segment
from ...profiler.recording.segments import write_sidecar
from .first_use import FirstUse
from .foreign_profiler import ForeignSessions, session_active, session_on_this_thread
from .program_metadata import describe_program
from .safe_points import SafePoints
from .segment_size import SegmentSize
from .torch_options import OPTIONS, accelerator, profiler_arguments, vendor_config
from .trace_file import count_of, size_of_whole
from .windows import WindowTrigger

QUIET_S = 2.0
"""Without a step for this long, segments end in mid-program."""

LARGE_TRACE_BYTES = 16 << 20
MOSTLY_CALLS = 0.7
"""A large trace of which Python's calls are this share, or more, is not worth its pause."""

ROOM_FOR_TABLES = 32 << 20
"""With less room on the disk than this, a trace that was cut off for want of room is removed."""

FAR_TOO_LARGE = 4.0
"""A segment this many times too large ends wherever no range is open."""

HAND_OVER_S = 5.0
"""How long a thread that starts a profiler of its own waits for ours to end on its thread."""

PATIENCE_S = 10.0
"""How long a segment that is far too large waits for a safe place: training comes to one in every step."""

_WINDOW_DETAIL = "normal"


class TorchCollector:
    """Runs torch's profiler and hands its segments to the converter."""

    name = "torch"
    details = ("always", "low", "normal", "deep")
    needs = ("torch",)

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._profiler: Any = None
        self._warming_up = False
        self._segment: Segment | None = None
        self._segments = 0
        self._next_id = 0
        self._device: str | None = None
        self._thread = 0
        self._rotation_wanted = False
        self._last_step = 0.0
        self._away_since: int | None = None
        self._window: WindowTrigger | None = None
        self._window_left = 0
        self._window_reason: str | None = None
        self._stopped = False
        self._left_open = False
        self._stacks = True
        self._suspended_since: tuple[int, str] | None = None
        self._awaiting: FirstUse | None = None

    def available(self) -> str | None:
        """Kineto, which torch may be built without."""
        import torch.profiler

        return None if torch.profiler.kineto_available() else "this torch is built without Kineto"

    def start(self, context: CaptureContext) -> None:
        """Begins the first segment, unless the schedule or ``always`` says to wait."""
        self._context = context
        self._next_id = attempt_base(context.rank, context.attempt) + SEGMENT_IDS
        self._detail = _WINDOW_DETAIL if context.detail == "always" else context.detail
        self._size = SegmentSize(context.settings, self._detail)
        # Kineto writes two lines to stderr at every start and stop; this level is the only one that silences them.
        os.environ.setdefault("KINETO_LOG_LEVEL", "99")
        (context.folder / RAW).mkdir(exist_ok=True)
        self._last_step = time.monotonic()
        self._foreign = ForeignSessions(context.guarded(self.name, self._make_way))
        self._foreign.install()
        self._safe = SafePoints(context, self.name, self._safe_point)
        self._safe.install()
        if context.detail == "always":
            settings = context.settings
            self._window = WindowTrigger(settings["outlier_factor"], settings["window_every_s"])
            self._window.install_signal()
        elif context.settings["device_when_used"]:
            self._awaiting = FirstUse(context, self.name, self._first_use)
            self._awaiting.install()
        else:
            self._rotate_now()

    def _first_use(self) -> None:
        with self._lock:
            if self._awaiting_no_more():
                self._rotate_now()

    def _awaiting_no_more(self) -> bool:
        awaiting, self._awaiting = self._awaiting, None
        if awaiting is not None:
            awaiting.remove()
        return awaiting is not None

    def stop(self) -> None:
        """Ends the last segment and takes the wrappers off torch."""
        with self._lock:
            self._stopped = True
            try:
                self._end()
                self._tell_absence()
            finally:
                self.abandon()

    def abandon(self) -> None:
        """Takes the wrappers off torch, and stops its profiler without keeping anything if it still runs."""
        with contextlib.ExitStack() as undone:  # each of them, whichever fails
            undone.callback(self._foreign.remove)
            undone.callback(self._safe.remove)
            if self._awaiting is not None:
                undone.callback(self._awaiting.remove)
            if self._window:
                undone.callback(self._window.remove_signal)
            undone.callback(self._stop_unkept)

    # ---- when

    def wants_next_step(self) -> bool:
        """Where a segment or a window is to begin or to end, and while memory settles in the first steps."""
        if self._window is not None:
            return self._window_left > 0 or self._window_reason is not None
        begins = self._profiler is None and self._wanted(self._context.phase)
        return begins or self._rotation_wanted or self._left_open or self._warming_up or self._size.settles()

    def on_step(self, step: StepEnd) -> None:
        """Follows the schedule, and ends a segment that is large enough; at once, or at the next place that is safe."""
        with self._lock:
            self._count([step])
            self._awaiting_no_more()
            if self._window is not None:
                self._follow_window(step)
            else:
                self._rotate_now()

    def on_past_steps(self, steps: list[StepEnd]) -> None:
        """Finds out whether a segment is large enough, or a window due, while nothing has to happen at once."""
        with self._lock:
            self._count(steps)

    def _count(self, steps: list[StepEnd]) -> None:
        self._last_step = time.monotonic()
        for step in steps:
            if self._size.step_ends():
                self._rotation_wanted = True
            if self._window is not None and not self._window_left:
                self._window_reason = self._window_reason or self._window.reason(step.end - step.ts)

    def _safe_point(self) -> None:
        """Does what had to wait for such a place: most optimizers end their step inside a range of their own."""
        quiet = time.monotonic() - self._last_step > QUIET_S
        if self._left_open or (self._rotation_wanted and quiet):
            self._rotate_now()

    def on_tick(self) -> None:
        """Watches memory, and devices that appear, from the session's thread."""
        if self._stopped:
            return
        quiet = time.monotonic() - self._last_step > QUIET_S
        if self._profiler is None:
            if quiet and self._away_since is not None and self._wanted(self._context.phase) and not self._foreign.busy:
                self._context.on_main_thread(self._context.guarded(self.name, self._rotate_now))
            return
        new_device = self._device is None and accelerator(only_if_initialised=True) is not None
        size = self._size.growth(calls=self._traces_calls(), quiet=quiet)
        if new_device or size > 1:
            self._rotation_wanted = True
        if size > FAR_TOO_LARGE and self._size.seconds() > PATIENCE_S:
            self._in_mid_program(self._end_at_once)
        elif new_device or (self._rotation_wanted and quiet):
            self._in_mid_program(self._rotate_now)

    def _traces_calls(self) -> bool:
        return self._stacks and OPTIONS[self._detail].get("with_stack", False)

    def on_suspend(self, reason: str) -> None:
        """Ends the segment where Python's calls are traced: an import alone makes a million of them."""
        if not self._traces_calls():
            return
        with self._lock:
            # An optimizer's first step imports torch._dynamo inside its own range, which must outlive no session.
            if self._safe.here():
                self._suspended_since = (self._context.rows.now(), reason)
                self._end()

    def on_resume(self) -> None:
        """Goes on in a new segment."""
        with self._lock:
            if self._suspended_since is None:
                return
            (since, reason), self._suspended_since = self._suspended_since, None
            self._context.loss(
                self.name, "suspended", "info", ts=since, dur=self._context.rows.now() - since, count=1,
                detail=f"{reason}: Python's calls in it are not recorded",
            )  # fmt: skip
            if not self._awaiting:
                self._rotate_now()

    def on_full(self) -> None:
        """The recording may grow no more: ends the segment at the next step."""
        self._rotation_wanted = True

    def _in_mid_program(self, function: Callable[[], None]) -> None:
        """Calls between two steps of Python, on the thread that began the segment: torch allows no other."""
        if threading.main_thread().ident == self._thread:
            self._context.on_main_thread(self._context.guarded(self.name, function))

    def _rotate_now(self) -> None:
        """Ends the segment if that is wanted, and goes on as the phase says; later, where this is no place for it."""
        with self._lock:
            if self._stopped or self._window is not None:
                return
            wanted, running = self._wanted(self._context.phase), self._profiler is not None
            switches = wanted and (not running or self._rotation_wanted or self._warming_up)
            self._left_open = self._safe.in_backward() or (switches and not self._safe.here())
            if self._left_open:
                return
            if self._rotation_wanted:
                self._end()
            self._follow(self._context.phase)

    def _end_at_once(self) -> None:
        """Ends a segment that no safe place has come for; the next one begins at such a place."""
        with self._lock:
            if not self._safe.in_backward() and not self._safe.open_ranges():
                self._end()
                self._left_open = True

    def _wanted(self, phase: str) -> bool:
        return phase in ("warm_up", "active") and self._window is None

    def _follow(self, phase: str) -> None:
        """Brings the profiler into the state that the phase asks for."""
        if not self._wanted(phase):
            self._end()
            return
        if self._profiler is not None and self._warming_up and phase == "active":
            self._end(keep=False)
        if self._profiler is None:
            self._begin(warming_up=phase == "warm_up")

    def _follow_window(self, step: StepEnd) -> None:
        """Begins or ends a window where that is due; at the next safe place if this is none."""
        assert self._window is not None
        if self._window_left:
            if self._safe.here() or not self._safe.in_backward():
                self._window_left -= 1
                if not self._window_left:
                    self._end()
            return
        if self._window_reason is None or not self._safe.here():
            return
        reason, self._window_reason = self._window_reason, None
        if self._context.phase == "active" and self._begin():
            self._window_left = self._context.settings["window_steps"]
            self._context.loss(
                self.name, "window", "info", segment_id=self._segment.segment_id if self._segment else None,
                ts=step.end, detail=f"a full window was taken: {reason}",
            )  # fmt: skip

    # ---- segments

    def _begin(self, *, warming_up: bool = False) -> bool:
        """Starts torch's profiler on the calling thread; whether it did."""
        if self._stopped or self._profiler is not None or self._suspended_since is not None:
            return False
        if self._foreign.busy or session_active():
            self._away_since = self._away_since or self._context.rows.now()
            return False
        from torch.autograd.profiler import profile

        self._tell_absence()
        began = self._context.rows.now()
        self._device = accelerator(only_if_initialised=bool(self._context.settings.get("device_when_used")))
        config = vendor_config(self._device, self._context.folder / "vendor")
        profiler = profile(**profiler_arguments(self._detail, self._device, config, stacks=self._stacks))
        self._profiler = profiler
        try:
            with self._foreign.own_call():
                profiler.__enter__()  # type: ignore[no-untyped-call]
        except BaseException:
            self._profiler = None
            raise
        self._warming_up = warming_up
        self._context.torch_recording_since = began
        self._safe.session_begins()
        describe_program()
        self._thread = threading.get_ident()
        self._rotation_wanted = False
        self._size.begins()
        if not warming_up:
            self._segment = self._new_segment(began)
        return True

    def _new_segment(self, ts: int) -> Segment:
        context = self._context
        number = self._segments
        self._segments += 1
        base = attempt_base(context.rank, context.attempt)
        return Segment(
            f"segment-{number:05d}", context.rank, context.attempt, base + number, os.getpid(), self._next_id, ts, None
        )

    def _end(self, *, keep: bool = True) -> None:
        """Stops torch's profiler, exports what it saw, and hands that to the converter."""
        if self._profiler is None or (not self._stopped and not session_on_this_thread()):
            # torch keeps the session in the thread's state, which C++ swaps while it runs: ending what is not there
            # would leave the session running for good. The next safe place tries again.
            self._left_open = self._profiler is not None
            return
        profiler, self._profiler = self._profiler, None
        segment, self._segment = self._segment, None
        self._rotation_wanted = False
        ended = self._context.rows.now()
        self._safe.session_ends()
        try:
            self._no_longer_recording(ended)
        finally:
            with self._foreign.own_call():
                profiler.__exit__(None, None, None)
        if segment is not None and keep:
            self._export(profiler, segment, ended)

    def _stop_unkept(self) -> None:
        """Stops torch's profiler if it still runs: it would grow without end."""
        profiler, self._profiler = self._profiler, None
        if profiler is not None:
            with self._foreign.own_call():
                profiler.__exit__(None, None, None)
        self._no_longer_recording(self._context.rows.now())

    def _no_longer_recording(self, ended: int) -> None:
        since = self._context.torch_recording_since
        if since is not None:
            self._context.torch_recorded = (since, ended)
            self._context.torch_recording_since = None

    def _export(self, profiler: Any, segment: Segment, ended: int) -> None:
        folder = self._context.folder
        segment = Segment(segment.name, segment.rank, segment.attempt, segment.segment_id, segment.process_id,
                          segment.first_id, segment.ts, ended - segment.ts)  # fmt: skip
        write_sidecar(folder, segment)
        draft, final = folder / RAW / f"{segment.name}.json.part", folder / RAW / f"{segment.name}.json"
        stopped = self._context.rows.now()
        profiler.kineto_results.save(str(draft))
        try:
            size = size_of_whole(draft)
        except OSError:
            if shutil.disk_usage(folder).free < ROOM_FOR_TABLES:
                for left in folder.glob(f"{RAW}/{draft.name}*"):  # the rows of the other collectors need the room more
                    left.unlink(missing_ok=True)
            raise
        draft.rename(final)
        self._next_id += size // BYTES_PER_ID + 1024
        self._size.was(size)
        if self._traces_calls() and self._detail != "deep" and size >= LARGE_TRACE_BYTES:
            self._leave_stacks_if_costly(final, size)  # while the file is there: the converter may remove it
        done = self._context.rows.now()
        self._context.rows.append(
            "segments", segment_id=segment.segment_id, ts=segment.ts, dur=segment.dur, raw_file=final.name,
            state="converted" if self._context.settings["convert"] else "raw",
        )  # fmt: skip
        self._context.pause(
            self.name, "torch.profiler: end and export of a segment", ended, done - ended,
            f"{segment.name}: stop {(stopped - ended) / 1e6:.1f} ms, export {(done - stopped) / 1e6:.1f} ms, "
            f"{size} bytes",
        )  # fmt: skip
        self._context.convert(segment)

    def _leave_stacks_if_costly(self, trace: Path, size: int) -> None:
        """Traces Python's calls no more where they are most of the trace: the sampler tells the lines as well."""
        calls = count_of(trace, b'"python_function"')
        share = self._size.share(calls, size)
        if share < MOSTLY_CALLS:
            return
        self._stacks = False
        self._size.forget()
        self._context.loss(
            self.name, "stacks_off", "info", ts=self._context.rows.now(), count=calls,
            detail=f"Python's calls were about {min(share, 1):.0%} of the trace ({self._size.calls_a_step(calls):.0f} "
            "a step) and are traced no more; lines are known from samples. detail=deep traces them all the same",
        )  # fmt: skip

    # ---- other profilers

    def _make_way(self) -> None:
        """Another session is about to begin: ours ends first, since torch does not survive two."""
        with self._lock:
            if self._away_since is None:
                self._away_since = self._context.rows.now()
        if self._profiler is None or threading.get_ident() == self._thread:
            self._end_for_other()
            return
        ended = threading.Event()

        def end() -> None:
            self._end_for_other()
            ended.set()

        if self._context.on_main_thread(end):  # torch lets no other thread end it
            ended.wait(HAND_OVER_S)

    def _end_for_other(self) -> None:
        with self._lock:
            self._end()

    def _tell_absence(self) -> None:
        if self._away_since is None:
            return
        since, self._away_since = self._away_since, None
        self._context.loss(
            self.name, "other_profiler", "data_loss", ts=since, dur=self._context.rows.now() - since, count=1,
            detail="the program ran a torch profiler of its own; torch does not survive two at once, so ours paused",
        )  # fmt: skip
