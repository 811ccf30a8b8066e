"""torch.profiler, run segment after segment: each is exported as torch's own JSON and converted by another process.

Ending and exporting a segment holds the training thread (about 4 us an event), so a segment ends between steps where
there are steps, and the pause is recorded as ``overhead``. Memory is what limits a segment: torch keeps half a kilobyte
an event until then. ``prof.events()`` is never called: it costs ten times as much.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import threading
import time
from pathlib import Path
from typing import Any

from ...profiler.recording.collector import CaptureContext, StepEnd
from ...profiler.recording.ids import SEGMENT_IDS, attempt_base
from ...profiler.recording.segment import BYTES_PER_ID, RAW, Segment
from ...profiler.recording.segments import write_sidecar
from .first_use import FirstUse
from .foreign_profiler import ForeignSessions, session_active
from .safe_points import SafePoints
from .torch_options import OPTIONS, accelerator, profiler_arguments, vendor_config
from .windows import WindowTrigger

BYTES_PER_EVENT = {"always": 330, "low": 270, "normal": 330, "deep": 480}
"""About how long an event is in torch's JSON, by detail: how events of a segment are counted afterwards."""

MEMORY_PER_EVENT = {True: 48, False: 480}
"""About what torch keeps of an event in memory [bytes], with Python stacks (most events are calls) and without.

How events are counted while they are collected; memory that the program itself takes ends a segment early.
"""

QUIET_S = 2.0
"""Without a step for this long, segments end in mid-program."""

ROOM_FOR_TABLES = 32 << 20
"""With less room on the disk than this, a trace that was cut off for want of room is removed."""

HAND_OVER_S = 5.0
"""How long a thread that starts a profiler of its own waits for ours to end on its thread."""

SHORTEST_S = 1.0
"""Memory growth ends no segment that is shorter."""

_WINDOW_DETAIL = "normal"
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


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
        self._memory_at_start = 0
        self._steps = 0
        self._bytes_per_step: float | None = None
        self._rotation_wanted = False
        self._last_step = 0.0
        self._away_since: int | None = None
        self._window: WindowTrigger | None = None
        self._window_left = 0
        self._stopped = False
        self._left_open = False
        self._began = 0.0
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
            self._follow(context.phase)

    def _first_use(self) -> None:
        with self._lock:
            if self._safe.here() and self._awaiting_no_more():
                self._follow(self._context.phase)

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
                self._abandon()
                self._foreign.remove()
                self._safe.remove()
                if self._awaiting is not None:
                    self._awaiting.remove()
                if self._window:
                    self._window.remove_signal()

    # ---- when

    def on_step(self, step: StepEnd) -> None:
        """Follows the schedule, and ends a segment that is large enough."""
        with self._lock:
            self._last_step = time.monotonic()
            self._left_open = False
            self._steps += 1
            self._awaiting_no_more()
            if self._window is not None:
                if self._safe.here():
                    self._follow_window(step)
                return
            if self._is_full():
                self._rotation_wanted = True
            if not self._safe.here():
                self._left_open = True  # an optimizer that steps in hooks: the end of the backward pass will do
                return
            if self._rotation_wanted:
                self._end()
            self._follow(step.next_phase)

    def _safe_point(self) -> None:
        """Does what had to wait for such a place: a start after a compilation, an end of a segment without steps."""
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
        too_large = self._has_grown(quiet)
        if new_device or too_large:
            self._rotation_wanted = True
        if new_device or (self._rotation_wanted and quiet):
            self._rotate_in_mid_program()

    def _has_grown(self, quiet: bool) -> bool:
        """Whether the segment is too large, as far as memory tells; steps whose size is known are counted instead."""
        if time.monotonic() - self._began < SHORTEST_S:
            return False
        settings = self._context.settings
        with_stack = OPTIONS[self._detail].get("with_stack", False)
        counted = settings["segment_events"] * MEMORY_PER_EVENT[with_stack]
        limit = settings["segment_bytes"] if self._bytes_per_step and not quiet else counted
        return bool(_resident_bytes() - self._memory_at_start > min(limit, settings["segment_bytes"]))

    def on_suspend(self, reason: str) -> None:
        """Ends the segment where Python's calls are traced: an import alone makes a million of them."""
        if not OPTIONS[self._detail].get("with_stack"):
            return
        with self._lock:
            if not self._safe.in_backward():
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
            if self._window is None and not self._awaiting:
                self._left_open = True
                if self._safe.here():
                    self._rotate_now()

    def on_full(self) -> None:
        """The recording may grow no more: ends the segment at the next step."""
        self._rotation_wanted = True

    def _rotate_in_mid_program(self) -> None:
        """Ends the segment between two steps of Python, on the thread that began it: torch allows no other."""
        if threading.main_thread().ident == self._thread:
            self._context.on_main_thread(self._context.guarded(self.name, self._rotate_now))

    def _rotate_now(self) -> None:
        """Ends the segment if that is wanted, and goes on as the phase says."""
        with self._lock:
            if self._stopped or self._window is not None or not self._safe.here():
                return
            self._left_open = False
            if self._rotation_wanted:
                self._end()
            self._follow(self._context.phase)

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
        assert self._window is not None
        if self._window_left:
            self._window_left -= 1
            if not self._window_left:
                self._end()
            return
        reason = self._window.reason(step.end - step.ts)
        if reason is not None and self._context.phase == "active" and self._begin():
            self._window_left = self._context.settings["window_steps"]
            self._context.loss(
                self.name, "window", "info", segment_id=self._segment.segment_id if self._segment else None,
                ts=step.end, detail=f"a full window was taken: {reason}",
            )  # fmt: skip

    def _is_full(self) -> bool:
        if self._bytes_per_step is None:
            return False
        events = self._bytes_per_step * self._steps / BYTES_PER_EVENT[self._detail]
        return bool(events >= self._context.settings["segment_events"])

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
        profiler = profile(**profiler_arguments(self._detail, self._device, config))
        self._profiler = profiler
        try:
            with self._foreign.own_call():
                profiler.__enter__()  # type: ignore[no-untyped-call]
        except BaseException:
            self._profiler = None
            raise
        self._warming_up = warming_up
        self._context.torch_recording_since = began
        self._describe_job()
        self._thread = threading.get_ident()
        self._began = time.monotonic()
        self._memory_at_start, self._steps, self._rotation_wanted = _resident_bytes(), 0, False
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

    def _describe_job(self) -> None:
        """What torch.profiler.profile would add to the file, and the importer reads: the rank and its groups."""
        import torch
        import torch.distributed as distributed

        if not distributed.is_available() or not distributed.is_initialized():
            return
        told = {"backend": distributed.get_backend(), "rank": distributed.get_rank()}
        told["world_size"] = distributed.get_world_size()
        with contextlib.suppress(AttributeError, RuntimeError):  # older torch
            told["pg_config"] = distributed.distributed_c10d._get_all_pg_configs()
        torch.autograd._add_metadata_json("distributedInfo", json.dumps(told, default=str))  # type: ignore[attr-defined]

    def _end(self, *, keep: bool = True) -> None:
        """Stops torch's profiler, exports what it saw, and hands that to the converter."""
        profiler, self._profiler = self._profiler, None
        if profiler is None:
            return
        segment, self._segment = self._segment, None
        self._rotation_wanted = False
        self._context.torch_recording_since = None
        ended = self._context.rows.now()
        with self._foreign.own_call():
            profiler.__exit__(None, None, None)
        if segment is not None and keep:
            self._export(profiler, segment, ended)

    def _abandon(self) -> None:
        """Stops torch's profiler without keeping anything, if it still runs: it would grow without end."""
        profiler, self._profiler = self._profiler, None
        self._context.torch_recording_since = None
        if profiler is not None:
            with self._foreign.own_call():
                profiler.__exit__(None, None, None)

    def _export(self, profiler: Any, segment: Segment, ended: int) -> None:
        folder = self._context.folder
        segment = Segment(segment.name, segment.rank, segment.attempt, segment.segment_id, segment.process_id,
                          segment.first_id, segment.ts, ended - segment.ts)  # fmt: skip
        write_sidecar(folder, segment)
        draft, final = folder / RAW / f"{segment.name}.json.part", folder / RAW / f"{segment.name}.json"
        stopped = self._context.rows.now()
        profiler.kineto_results.save(str(draft))
        try:
            size = _size_of_whole_trace(draft)
        except OSError:
            if shutil.disk_usage(folder).free < ROOM_FOR_TABLES:
                for left in folder.glob(f"{RAW}/{draft.name}*"):  # the rows of the other collectors need the room more
                    left.unlink(missing_ok=True)
            raise
        draft.rename(final)
        self._next_id += size // BYTES_PER_ID + 1024
        done = self._context.rows.now()
        self._context.rows.append(
            "segments", segment_id=segment.segment_id, ts=segment.ts, dur=segment.dur, raw_file=final.name,
            state="converted" if self._context.settings["convert"] else "raw",
        )  # fmt: skip
        if self._steps:
            self._bytes_per_step = size / self._steps
        self._context.pause(
            self.name, "torch.profiler: end and export of a segment", ended, done - ended,
            f"{segment.name}: stop {(stopped - ended) / 1e6:.1f} ms, export {(done - stopped) / 1e6:.1f} ms, "
            f"{size} bytes",
        )  # fmt: skip
        self._context.convert(segment)

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

        if not self._context.on_main_thread(end) or not ended.wait(HAND_OVER_S):
            self._end_for_other()  # from the wrong thread, which may go wrong; two sessions certainly do

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


def _resident_bytes() -> int:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def _size_of_whole_trace(path: Path) -> int:
    """The file's size; torch reports a full disk nowhere, so the end of the file is looked at.

    Raises:
        OSError: It is not there, or cut off.
    """
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 16))
            whole = file.read().rstrip().endswith(b"}")
    except FileNotFoundError:
        raise OSError(f"torch did not write {path.name}: is the disk full?") from None
    if not whole:
        raise OSError(f"{path.name} is cut off after {size} bytes: is the disk full?")
    return size
