"""One recording while it is being made: its steps, rows and files, and its end, whatever happens.

Threads: the program's threads call ``mark_step`` and the hooks that collectors left; a thread of the session writes
rows and calls ``on_tick``. Nothing that goes wrong after ``start`` reaches the program: it becomes a row in ``losses``
and at most one warning of its kind.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from ..recording.captured_rows import CapturedRows
from ..recording.errors import CaptureError
from ..recording.segment import Segment
from ..recording.writer import RankWriter, RecordingWriter
from .conversion import Conversion
from .environment import Place, identity, place_in_job, source_control
from .guard import Guard, warn_user
from .main_thread import around_calls, run_on_main_thread
from .registry import chosen_names
from .running_collectors import RunningCollectors
from .schedule import parse_schedule
from .secrets import Redactor
from .settings import Settings
from .stepping import Stepping

TICK_S = 0.2

_DRAIN_EVERY = 50
"""Rows become parts at every so-many-th tick: converting a few costs as much as converting many."""

_MOST_PENDING = 20_000
"""Rows that may wait for that; with more they are converted at once."""

_BEAT_EVERY = 25
_OWN = "session"


class Session:
    """A recording in progress; implements ``recording.collector.CaptureContext``.

    Args:
        path: The recording's folder.
        settings: Resolved settings.
        label: What the user calls the run.
        force: Replace another recording that is there.
        arguments: The program's command line; ``sys.argv`` by default.
        device_when_used: Record an accelerator only once the program has initialised it, so that starting early
            changes nothing for it.
        run_id: What ties this recording to earlier attempts of it, where the job has no id of its own.

    Attributes:
        thread: Writes rows and calls ``on_tick``; None before the start.
        is_full: The recording has used up what it may take of the disk.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Settings,
        *,
        label: str | None = None,
        force: bool = False,
        arguments: list[str] | None = None,
        device_when_used: bool = False,
        run_id: str | None = None,
    ) -> None:
        self.path = Path(path)
        self.settings: Mapping[str, Any] = {**settings.values, "device_when_used": device_when_used}
        self._resolved = settings
        self._label, self._force, self._arguments = label, force, arguments
        self.detail: str = settings.values["detail"]
        self.active = False
        self.torch_recording_since: int | None = None
        self.torch_recorded = (0, 0)
        self.training_threads: set[int] = {threading.get_ident()}
        self._run_id = run_id
        self._process_id = os.getpid()
        self._starts_on_main = threading.current_thread() is threading.main_thread()
        self._guard = Guard(self._collector_failed)
        self._collectors = RunningCollectors(self, self._guard)
        self._quit = threading.Event()
        self._ended = False
        self._suspended = 0
        self.paused_ns = 0
        self.is_full = False
        self.thread: threading.Thread | None = None

    # ---- start

    def start(self) -> None:
        """Begins the recording.

        Raises:
            StallscopeError: The folder cannot be used, a setting names no collector, or RANK and the like are wrong.
        """
        place = place_in_job()
        described, secrets = identity(self._arguments)
        self._redact = Redactor(secrets)
        chosen = chosen_names(self.settings["collectors"])
        self._writer = self._open_writer(place, described)
        self.rank, self.local_rank, self.world_size = place.rank, place.local_rank, place.world_size
        self.attempt, self.folder = self._writer.attempt, self._writer.folder
        self.rows = CapturedRows(self.rank, self.attempt, self._process_id)
        schedule = self.settings["schedule"]
        self._steps = Stepping(self, self._collectors, parse_schedule(schedule) if schedule else None)
        self.phase = self._steps.first_phase()
        self._conversion = Conversion(self.folder, enabled=self.settings["convert"], keep_raw=self.settings["keep_raw"])
        self.active = True
        self._guard.account(_OWN).state = "running"
        self._describe_process(described)
        self._collectors.start(chosen)
        self.thread = threading.Thread(target=self._run, name="stallscope-session", daemon=True)
        self.thread.start()
        self._steps.begin()

    def _open_writer(self, place: Place, described: dict[str, Any]) -> RankWriter:
        recording = RecordingWriter.create(
            self.path, label=self._label, world_size=place.world_size, settings=self._resolved.as_json(),
            identity=described, run_id=place.run_id or self._run_id, force=self._force,
        )  # fmt: skip
        writer = recording.rank(place.rank, attempt=place.attempt)
        writer.update(identity=described, settings=self._resolved.as_json(), local_rank=place.local_rank)
        return writer

    def _describe_process(self, described: dict[str, Any]) -> None:
        self.rows.append(
            "processes", process_id=self._process_id, attempt=self.attempt, host=described["host"],
            local_rank=self.local_rank, role="trainer", name=Path((*described["argv"], "python")[0]).name,
        )  # fmt: skip
        self.rows.thread_track()

    # ---- what collectors use

    def guarded(self, collector: str, function: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
        """See ``CaptureContext``."""
        return self._guard.wrap(collector, function, default)

    def loss(self, collector: str, kind: str, severity: str, **fields: Any) -> None:
        """See ``CaptureContext``."""
        if fields.get("detail"):
            fields["detail"] = self.redacted(str(fields["detail"]))
        self.rows.append("losses", collector=collector, kind=kind, severity=severity, **fields)

    def pause(self, collector: str, name: str, ts: int, dur: int, detail: str) -> None:
        """See ``CaptureContext``."""
        self.paused_ns += dur
        self._steps.paused(ts, dur)
        self.rows.slice(name, "overhead", ts, dur)
        self.loss(
            collector, "paused", "info", track_id=self.rows.thread_track(), ts=ts, dur=dur, count=1, detail=detail
        )

    def on_main_thread(self, function: Callable[[], None]) -> bool:
        """See ``CaptureContext``."""
        return self._starts_on_main and run_on_main_thread(function)

    def around_main_thread_calls(self, begins: Callable[[], None], ends: Callable[[], None]) -> None:
        """See ``CaptureContext``."""
        around_calls(begins, ends)

    def suspend_tracing(self, reason: str) -> None:
        """See ``CaptureContext``."""
        self._suspended += 1
        if self._suspended == 1 and self.active:
            self._collectors.tell("on_suspend", reason)

    def resume_tracing(self) -> None:
        """See ``CaptureContext``."""
        self._suspended = max(0, self._suspended - 1)
        if not self._suspended and self.active:
            self._collectors.tell("on_resume")

    def convert(self, segment: Segment) -> None:
        """See ``CaptureContext``."""
        self._collectors.tell("on_segment", segment)
        self._conversion.submit(segment)

    def redacted(self, text: str) -> str:
        """See ``CaptureContext``."""
        return self._redact(text)

    def mark_step(self, source: str) -> None:
        """See ``CaptureContext``."""
        if self.active and not self._ended:
            self._steps.mark(source)

    def begin_annotation(self, name: str) -> Any:
        """Opens a named range, through torch while its profiler runs, else as a row of ours; None where it fails."""
        return self._guard.call(_OWN, self._begin_annotation, name) if self.active else None

    def _begin_annotation(self, name: str) -> Any:
        if self.torch_recording_since is not None:
            record = sys.modules["torch"].autograd.profiler.record_function(name)
            record.__enter__()
            return record
        return self.rows.begin(self.redacted(name), "annotation")

    def end_annotation(self, opened: Any) -> None:
        """Closes what ``begin_annotation`` returned."""
        if hasattr(opened, "__exit__"):
            self._guard.call(_OWN, opened.__exit__, None, None, None)
        elif self.active:
            self._guard.call(_OWN, self.rows.end, opened)

    @property
    def steps_seen(self) -> int:
        """How many steps have ended."""
        return self._steps.count

    # ---- the session's own thread

    def _run(self) -> None:
        described = source_control(Path.cwd())
        if described:
            self._guard.call(_OWN, self._beat, described)
        beats = 0
        while not self._quit.wait(TICK_S):
            sys.setprofile(None)  # torch's profiler traces every thread that is there; this one is not the program's
            beats += 1
            self._collectors.tell("on_tick")
            self._guard.call(_OWN, self._steps.tell_later)
            if beats % _DRAIN_EVERY == 0:
                self._guard.call(_OWN, self._close_parts)
            elif self.rows.pending_rows() > _MOST_PENDING:
                self._guard.call(_OWN, self._drain)
            if beats % _BEAT_EVERY == 0:
                self._guard.call(_OWN, self._beat, {})

    def _drain(self) -> None:
        for table, columns in self.rows.drain():
            self._writer.append(table, columns)

    def _close_parts(self) -> None:
        self._drain()
        self._writer.flush()

    def _beat(self, fields: dict[str, Any]) -> None:
        self._writer.update(collectors=self._accounts(), steps=self._steps.count, **fields)
        limit = self.settings["max_bytes"]
        if limit and not self.is_full and folder_bytes(self.folder) > limit:
            self.is_full = True
            self.loss(
                _OWN, "max_bytes_reached", "data_loss", ts=self.rows.now(), detail=f"max_bytes={limit} is used up"
            )
            self._collectors.tell("on_full")
            self._steps.press()
            self.phase = "done"

    def _accounts(self) -> dict[str, Any]:
        return {name: account.as_json() for name, account in self._guard.accounts.items()}

    def _collector_failed(self, collector: str, function: str, error: Exception) -> None:
        text = self.redacted(f"{function} raised {type(error).__name__}: {error}")
        self.loss(collector, "collector_error", "data_loss", ts=self.rows.now(), count=1, detail=text)
        warn_user(
            f"the collector {collector!r} failed and the recording goes on without what it would have seen: {text}"
        )

    # ---- end

    def stop(self, status: str = "completed", error: BaseException | None = None, **fields: Any) -> None:
        """Ends the recording and finishes its files. Never raises; a second call, or one in a fork, does nothing.

        Args:
            status: completed, failed or killed.
            error: The exception that ended the program's block.
            fields: More for rank.json.
        """
        if self._ended or self._in_child():
            return
        self._ended = True
        self._guard.call(_OWN, self._steps.end)
        self._collectors.stop()
        self.active = False
        self._quit.set()
        if self.thread is not None and self.thread is not threading.current_thread():
            self.thread.join(timeout=10.0)
        self._guard.call(_OWN, self._finish, status, error, fields)

    def _finish(self, status: str, error: BaseException | None, fields: dict[str, Any]) -> None:
        self.rows.close_open_slices()
        if self.rows.stacks_left_out:
            self.loss(_OWN, "stacks_left_out", "data_loss", count=self.rows.stacks_left_out)
        self._drain()
        self._writer.flush()
        wait_s = self.settings["finish_timeout_s"] if status == "completed" else 0.0
        for kind, severity, detail in self._conversion.finish(wait_s):
            self.loss("converter", kind, severity, detail=detail)
        self._drain()
        if error is not None:
            message = self.redacted(str(error))
            fields = {**fields, "exception": {"type": type(error).__name__, "message": message}}
        self._guard.account(_OWN).state = "stopped"
        fields = {**fields, "collectors": self._accounts(), "steps": self._steps.count}
        self._writer.close(status, **fields)

    def forget_in_child(self) -> None:
        """For a forked child: the recording is its parent's, and every hook that was inherited does nothing."""
        self.active = False
        self._ended = True
        self._collectors.forget()

    def _in_child(self) -> bool:
        return os.getpid() != self._process_id

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop("completed" if error is None else "failed", error)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below the folder; files that vanish meanwhile count as nothing."""
    total = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            total += file.stat().st_size if file.is_file() else 0
    return total


def cannot_nest(path: Path) -> CaptureError:
    """The error of a second recording inside a running one."""
    return CaptureError(
        f"this process already records into {path}.", hint="End that recording first, or use prof.annotate(...) in it."
    )
