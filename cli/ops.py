"""``stallscope ops``: what the framework's ops cost on the host, on the device and in stalls."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from .command import described
from .options import Window, json_option, limit_option, scope_options, sources_argument
from .per_rank import Ordering, print_rank_json, print_rank_tables, sort_option

if TYPE_CHECKING:
    import pandas as pd

    from .rendering.frames import Field


@described(
    "ops",
    short="What the framework's ops cost on host and device.",
    examples=(
        ("The ops whose kernels take longest", "stallscope ops trace.json.gz"),
        ("Those that cost the host most, by input shape", "stallscope ops trace.json.gz --shapes --sort host_self_ns"),
    ),
    output_keys={
        "selection": "rank -> which part of the recording the rows are about",
        "ops": (
            "list of {rank, op, shape (null unless --shapes), count, host_total_ns, host_self_ns, host_mean_ns, "
            "host_p50_ns, host_p99_ns, host_max_ns, device_self_ns, device_total_ns, launched_count, stall_ns, "
            "fallback_count, fallback}"
        ),
    },
)
@sources_argument
@click.option("--shapes", is_flag=True, help="A row for each shape of the inputs, where shapes were recorded.")
@sort_option
@scope_options
@limit_option(20)
@json_option
def command(
    sources: tuple[Path, ...],
    shapes: bool,
    sort: str | None,
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
    limit: int,
    as_json: bool,
) -> None:
    """List the framework's ops: device time of their kernels, own time on the host, stalls they caused.

    Without --step or --window, of the steady steps. Work on the device belongs to the op that launched
    it, whenever it ran. "all" counts the ops inside an op, too.
    """
    from ..analysis.ops import ops
    from ..analysis.stalls import stalls
    from .opening import opened, scope_of
    from .rendering.page import page

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    by: Literal["name", "name+shape"] = "name+shape" if shapes else "name"

    def build(rank: int) -> pd.DataFrame:
        waits = stalls(recording, ranks=(rank,), step=step, window=scope.window)
        return ops(recording, rank=rank, step=step, window=scope.window, by=by, stalls=waits)

    if as_json:
        print_rank_json("ops", scope, build, Ordering(sort))
    else:
        empty = "No op ran in this part."
        print_rank_tables(page(), recording, scope, ranks, build, Ordering(sort), _fields, limit, empty)


def _fields(frame: pd.DataFrame) -> list[Field]:
    from .rendering.frames import count_field, duration_field, name_field

    fields = [name_field("op", "op", weight=2)]
    if frame["shape"].notna().any():
        fields.append(name_field("shape", "shapes"))
    if frame["device_total_ns"].any():
        fields += [duration_field("device_self_ns", "device"), duration_field("device_total_ns", "device, all")]
    fields += [
        duration_field("host_self_ns", "host"),
        duration_field("host_total_ns", "host, all"),
        duration_field("host_p99_ns", "p99 call"),
        count_field("count", "calls"),
    ]
    if frame["stall_ns"].fillna(0).any():
        fields.append(duration_field("stall_ns", "stalls"))
    if frame["fallback_count"].any():
        fields.append(count_field("fallback_count", "on CPU"))
    return fields
