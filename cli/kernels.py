"""``stallscope kernels``: what ran on the devices, how long, how often, and how late after its launch."""

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
    "kernels",
    short="What ran on the devices, and how late after its launch.",
    examples=(
        ("What the device spends its time on", "stallscope kernels trace.json.gz"),
        ("By grid and block, in step 3", "stallscope kernels trace.json.gz --grids --step 3"),
        ("Full names, for grep", "stallscope kernels trace.json.gz --json"),
    ),
    output_keys={
        "selection": "rank -> which part of the recording the rows are about",
        "kernels": (
            "list of {rank, name, short_name, grid (null unless --grids), category, state, count, total_ns, union_ns, "
            "busy_frac (union_ns of the devices' busy time), mean_ns, p50_ns, p99_ns, min_ns, max_ns, streams, "
            "launch_delay_p50_ns, launch_delay_p99_ns, launch_delay_max_ns, early_count, without_launch_count, op, "
            "op_ns}"
        ),
    },
)
@sources_argument
@click.option("--grids", is_flag=True, help="A row for each grid and block that a kernel was launched with.")
@sort_option
@scope_options
@limit_option(20)
@json_option
def command(
    sources: tuple[Path, ...],
    grids: bool,
    sort: str | None,
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
    limit: int,
    as_json: bool,
) -> None:
    """List kernels, collectives and copies by the time they take on the device.

    Without --step or --window, of the steady steps. delay is from the end of the launching call to the
    start on the device: long where work queues up, short where the device waits for the host, negative
    where the work starts before the call returns.
    """
    from ..analysis.kernels import kernels
    from .opening import opened, scope_of
    from .rendering.page import page

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    by: Literal["name", "name+grid"] = "name+grid" if grids else "name"

    def build(rank: int) -> pd.DataFrame:
        return kernels(recording, rank=rank, step=step, window=scope.window, by=by)

    if as_json:
        print_rank_json("kernels", scope, build, Ordering(sort))
    else:
        empty = "No device did any work in this part; `stallscope ops` lists what ran on the host."
        print_rank_tables(page(), recording, scope, ranks, build, Ordering(sort), _fields, limit, empty)


def _fields(frame: pd.DataFrame) -> list[Field]:
    from .rendering.frames import count_field, duration_field, name_field, share_field

    fields = [
        name_field("short_name", "kernel", weight=5),
        duration_field("total_ns", "time"),
        share_field("busy_frac", "of busy"),
        count_field("count", "calls"),
        duration_field("p50_ns", "p50"),
    ]
    if frame["grid"].notna().any():
        fields.insert(1, name_field("grid", "grid, block"))
    if frame["launch_delay_p50_ns"].notna().any():
        fields.append(duration_field("launch_delay_p50_ns", "delay p50"))
    if frame["op"].notna().any():
        fields.append(name_field("op", "launched by", weight=4))
    return fields
