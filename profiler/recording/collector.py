"""What a live collector is, and what the session gives it: the seam between the two, and all that either needs to know.

A collector watches one source while the user's program runs. Its class is named by an entry point of the group
``stallscope.collectors`` and is made without arguments. The session calls it as ``Collector`` says; every call is
guarded: an exception becomes a row in ``losses`` and one warning, and the user's program goes on.

A function that a collector leaves behind in somebody else's code (a hook, a wrapper) runs outside those calls, so it
must be passed through ``CaptureContext.guarded`` first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .captured_rows import CapturedRows
from .segment import Segment

DETAILS = ("always", "low", "normal", "deep")
"""How much is recorded, from the least. ``always`` is cheap enough to leave on; it takes a full window by itself."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """The end of a step, as collectors are told of it.

    Attributes:
        step: The step's number, from 0.
        ts: When it began [ns].
        end: When it ended [ns]. The next one begins then, or once every collector has been told where that is at once.
        phase: The schedule's phase of this step: wait, warm_up or active.
        next_phase: The schedule's phase of the step that begins now; ``done`` after the last.
    """

    step: int
    ts: int
    end: int
    phase: str
    next_phase: str


class CaptureContext(Protocol):
    """What a collector may use of the session that runs it."""

    rows: CapturedRows
    """Where rows go."""
    rank: int
    local_rank: int
    world_size: int
    attempt: int
    folder: Path
    """The folder of this rank's attempt; a collector keeps files of its own under ``raw/`` in it."""
    detail: str
    settings: Mapping[str, Any]
    """The resolved settings by name."""
    active: bool
    """False once the recording has ended, and in a forked child: hooks left behind must then do nothing."""
    phase: str
    """The schedule's phase of the current step: wait, warm_up, active or done."""
    torch_recording_since: int | None
    """Since when torch's profiler has been running [ns]; None while it is not. Its collector sets it."""
    torch_recorded: tuple[int, int]
    """[begin, end) [ns] of torch's profiler's last session that has ended; set before the line above is cleared."""
    training_threads: set[int]
    """``threading.get_ident()`` of the threads that have been seen to train; the one that started the session first."""

    def guarded(self, collector: str, function: Callable[..., Any], default: Any = None) -> Callable[..., Any]:
        """The same function with a net under it: an exception is reported as a loss, and ``default`` returned."""

    def loss(self, collector: str, kind: str, severity: str, **fields: Any) -> None:
        """Adds a row to ``losses``; fields are its other columns."""

    def pause(self, collector: str, name: str, ts: int, dur: int, detail: str) -> None:
        """Says that the profiler itself held the program: an ``overhead`` slice, and a row in ``losses``."""

    def mark_step(self, source: str) -> None:
        """Ends the step, if ``source`` is the one that decides: explicit calls, then annotations, then optimizers."""

    def on_main_thread(self, function: Callable[[], None]) -> bool:
        """Runs the function between two bytecodes of the main thread, soon; False where that cannot be asked for."""

    def around_main_thread_calls(self, begins: Callable[[], None], ends: Callable[[], None]) -> None:
        """Has them called before ``on_main_thread`` queues a call, and once none is queued or runs any more.

        For a collector that queues calls with Python itself: Python 3.11 cannot take a second one while one runs.
        """

    def suspend_tracing(self, reason: str) -> None:
        """Says that what comes now is not the program's own work (an import, a compilation): its calls are not traced.

        May be nested; collectors that trace calls are told by ``on_suspend(reason)`` and ``on_resume()``.
        """

    def resume_tracing(self) -> None:
        """Ends what ``suspend_tracing`` began."""

    def convert(self, segment: Segment) -> None:
        """Hands a finished segment of ``raw/`` to the converter process, after ``on_segment(segment)`` of every one."""

    def redacted(self, text: str) -> str:
        """The text without the secrets that the session knows of (environment, arguments)."""


class Collector(Protocol):
    """One source. Besides these methods, a collector may have any of some hooks.

    ``on_step(step: StepEnd)`` is called on the training thread at each step's end. Where every collector that has it
    also has ``wants_next_step() -> bool`` and answers no, the thread only notes the time, and the steps are told
    later, in ``on_past_steps(steps: list[StepEnd])``, mostly on a thread of the session. ``on_tick()`` is called on
    that thread, about five times a second; ``on_full()`` when the recording may grow no more; ``on_segment(segment)``
    before a segment of torch's trace is converted; ``on_suspend(reason)`` and ``on_resume()`` around what is not to be
    traced; ``abandon()`` where ``stop`` raised, to take back what must not outlive the recording.

    Attributes:
        name: Its name in settings and in ``losses``.
        details: The levels of detail that it takes part in.
        needs: Modules that must have been imported by the program before it starts; it is started when they are.
    """

    name: str
    details: tuple[str, ...]
    needs: tuple[str, ...]

    def available(self) -> str | None:
        """None if it can run here, else the reason why not, in words for the user."""

    def start(self, context: CaptureContext) -> None:
        """Begins; called on the thread that started the session, or on the one that imported what it needs."""

    def stop(self) -> None:
        """Ends, and undoes what it changed in the program; called once, also after an exception."""
