"""``stallscope source``: what each line of the user's own code costs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .command import described
from .options import Window, json_option, limit_option, scope_options, sources_argument
from .per_rank import Ordering, print_rank_json, print_rank_tables, sort_option

if TYPE_CHECKING:
    import pandas as pd

    from .rendering.frames import Field


@described(
    "source",
    short="What each line of source costs.",
    examples=(
        ("Which lines cost most", "stallscope source trace.json.gz"),
        ("Which lines keep the device waiting", "stallscope source trace.json.gz --sort stall_ns"),
    ),
    output_keys={
        "selection": "rank -> which part of the recording the rows are about",
        "lines": (
            "list of {rank, file, line, function (null: no line is known), origin, host_ns, device_ns, "
            "backward_host_ns, backward_device_ns, stall_ns, exposed_copy_ns, calls, host_total_ns, samples, "
            "line_source (function: the def's line; stack, sample: the line that ran)}"
        ),
    },
)
@sources_argument
@sort_option
@scope_options
@limit_option(20)
@json_option
def command(
    sources: tuple[Path, ...],
    sort: str | None,
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the lines of source with the host, device and stall time that belongs to each.

    Needs stacks: torch.profiler records them with with_stack=True, and names the line of the function's
    def rather than the one that ran. Work of the backward pass belongs to its forward line.
    """
    from ..analysis.source_lines import source_lines
    from ..analysis.stalls import stalls
    from .opening import opened, scope_of
    from .rendering.page import page

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)

    def build(rank: int) -> pd.DataFrame:
        waits = stalls(recording, ranks=(rank,), step=step, window=scope.window)
        return source_lines(recording, rank=rank, step=step, window=scope.window, stalls=waits)

    if as_json:
        print_rank_json("lines", scope, build, Ordering(sort))
    else:
        empty = "No line is known: torch.profiler records stacks with with_stack=True."
        print_rank_tables(page(), recording, scope, ranks, build, Ordering(sort), _fields, limit, empty)


def _fields(frame: pd.DataFrame) -> list[Field]:
    from .rendering.frames import count_field, duration_field, line_field, name_field

    fields = [
        line_field(2, unknown="(no line known)"),
        name_field("function", "function"),
        duration_field("host_ns", "host"),
    ]
    if frame["device_ns"].any():
        fields.append(duration_field("device_ns", "device"))
    if frame["stall_ns"].fillna(0).any():
        fields.append(duration_field("stall_ns", "stalls"))
    if frame["exposed_copy_ns"].fillna(0).any():
        fields.append(duration_field("exposed_copy_ns", "copies"))
    if frame["calls"].notna().any():
        fields += [count_field("calls", "calls"), duration_field("host_total_ns", "host, all")]
    return fields
