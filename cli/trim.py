"""``stallscope trim``: a recording of only a part of the time."""

from __future__ import annotations

from pathlib import Path

from ..profiler.recording.errors import UsageError
from .command import described
from .options import Window, output_folder_option, scope_options, sources_argument


@described(
    "trim",
    short="A part of a recording as a recording of its own.",
    examples=(
        ("One step, small enough to mail", "stallscope trim trace.json.gz --step 3 -o step3"),
        ("Two milliseconds of one rank", "stallscope trim runs/today --rank 5 --window 10ms:12ms -o part"),
    ),
)
@sources_argument
@scope_options
@output_folder_option
def command(
    sources: tuple[Path, ...],
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
    output: Path,
    force: bool,
) -> None:
    """Write a recording of a part: some ranks, one step, or a window of time.

    Slices that overlap the part are kept whole, and so is everything they refer to: the launches of
    their kernels, whatever contains them, their stacks, collectives and process groups.
    """
    from .opening import extent, opened, scope_of, time_of_rank
    from .rendering.numbers import count, duration, plural
    from .rendering.page import note
    from .transfer.trimmed import Part, trim_recording

    if ranks is None and step is None and window is None:
        raise UsageError("nothing to trim: give --step, --window or --rank.")
    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    parts = {
        rank: Part(time_of_rank(recording, scope, rank) or extent(recording, (rank,)), step) for rank in scope.ranks
    }
    rows = trim_recording(recording, parts, output, force=force)
    longest = max(part.window[1] - part.window[0] for part in parts.values())
    note(f"{output}: {count(rows['slices'])} slices of {plural(len(parts), 'rank')}, {duration(longest)}.")
