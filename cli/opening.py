"""Opening what the user named: a recording, or traces that are imported into the cache first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ..profiler.recording.errors import UsageError
from .options import Window

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording
    from .rendering.progress import ProgressLine


def opened(sources: Sequence[Path]) -> Recording:
    """The recording at a path, or of the traces at one or more paths; an import shows its progress on stderr.

    Raises:
        UsageError: There is nothing at a path, or several recordings are named.
        FormatError: What is there cannot be read.
    """
    from ..profiler.recording.layout import is_recording
    from ..profiler.recording.reader import open_recording

    recordings = [path for path in sources if path.is_dir() and is_recording(path)]
    if recordings and len(sources) > 1:
        raise UsageError(
            f"{recordings[0]} is a recording: name it alone, or several trace files of one job.",
            hint="`stallscope merge A B -o OUTPUT` joins recordings.",
        )
    with progress_line() as progress:
        return open_recording(sources[0] if len(sources) == 1 else list(sources), progress=progress)


def existing(paths: Sequence[Path]) -> list[Path]:
    """The paths, all of which exist.

    Raises:
        UsageError: One does not.
    """
    for path in paths:
        if not path.exists():
            raise UsageError(f"{path} does not exist.")
    return list(paths)


@contextmanager
def progress_line() -> Iterator[ProgressLine]:
    """A progress line on stderr that is gone afterwards, whatever happens."""
    from .rendering.progress import ProgressLine

    progress = ProgressLine()
    try:
        yield progress
    finally:
        progress.close()


@dataclass(frozen=True, slots=True)
class Scope:
    """Which part of a recording the user asked for: checked, and in ns on its clock.

    Attributes:
        ranks: The ranks, all of them where the user named none.
        step: One step; None for all.
        window: Half-open, in ns; None for everything.
    """

    ranks: tuple[int, ...]
    step: int | None
    window: tuple[int, int] | None

    @property
    def words(self) -> str:
        """What was chosen, for a heading; empty where it is everything."""
        parts = [f"step {self.step}"] if self.step is not None else []
        if self.window is not None:
            from .rendering.numbers import duration

            parts.append(f"a window of {duration(self.window[1] - self.window[0])}")
        return ", ".join(parts)


def scope_of(
    recording: Recording, ranks: tuple[int, ...] | None = None, step: int | None = None, window: Window | None = None
) -> Scope:
    """The scope that the options name.

    Raises:
        UsageError: The recording lacks a rank, holds no slice, or both a step and a window are given.
    """
    if step is not None and window is not None:
        raise UsageError("--step and --window exclude each other: both choose a part of the time.")
    for rank in ranks or ():
        recording.attempts(rank)  # says which ranks there are if this is none of them
    chosen = ranks or recording.ranks
    on_clock = window.on_clock(*extent(recording, chosen)) if window is not None else None
    return Scope(chosen, step, on_clock)


def step_window(recording: Recording, rank: int, step: int) -> tuple[int, int]:
    """From the start of a step on the host or a device, whichever is first, to its last end, ns.

    Raises:
        UsageError: The rank has no such step.
    """
    from ..analysis.steps import steps

    frame = steps(recording, ranks=(rank,))
    rows = frame[frame["step"] == step]
    if not len(rows):
        known = sorted({int(n) for n in frame["step"]})
        has = f"it has steps {known[0]} to {known[-1]}" if known else "the recording marks no steps"
        raise UsageError(f"rank {rank} has no step {step}: {has}.")
    starts = [*rows["ts"], *rows["host_ts"]]
    ends = [*(rows["ts"] + rows["dur"]), *(rows["host_ts"] + rows["host_dur"])]
    return int(min(starts)), int(max(ends))


def time_of_rank(recording: Recording, scope: Scope, rank: int) -> tuple[int, int] | None:
    """The part of a rank's time that a scope chooses, ns; None for all of it."""
    return step_window(recording, rank, scope.step) if scope.step is not None else scope.window


def extent(recording: Recording, ranks: Sequence[int]) -> tuple[int, int]:
    """The first start and the last end of any slice of the ranks, ns: what relative times count from.

    Raises:
        UsageError: There is no slice.
    """
    import pyarrow.compute as pc

    slices = recording.table("slices", ranks=ranks, columns=["ts", "dur"])
    if not slices.num_rows:
        raise UsageError(f"{recording.path} holds no slice, so no time in it can be named.")
    ends = pc.add(slices["ts"], pc.fill_null(slices["dur"], 0))
    return int(pc.min(slices["ts"]).as_py()), int(pc.max(ends).as_py())


def source_name(sources: Sequence[Path]) -> str:
    """What to call the recording: the name that the user gave, the first of several."""
    first = sources[0].name or sources[0].resolve().name
    return first if len(sources) == 1 else f"{first} and {len(sources) - 1} more"
