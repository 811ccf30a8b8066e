"""``stallscope memory``: the most that each device held, who held it, and whether it grows from step to step."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from ..profiler.recording.errors import UsageError
from .command import described
from .options import Window, json_option, limit_option, scope_options, sources_argument

if TYPE_CHECKING:
    from ..analysis.memory import DeviceMemory
    from ..analysis.memory_holders import HolderKind
    from ..profiler.recording.reader import Recording
    from .opening import Scope
    from .rendering.page import Page

GROUPINGS = ("op", "root_op", "module", "line")


@described(
    "memory",
    short="The memory peak, who holds it, and growth over the steps.",
    examples=(
        ("The peak, and which ops hold it", "stallscope memory trace.json.gz"),
        ("The peak of step 3, by source line", "stallscope memory trace.json.gz --step 3 --by line"),
    ),
    output_keys={
        "devices": (
            "list of {rank, device_type, device_index (null: the host), events, basis (allocator: its own totals; "
            "seen: only blocks that the recording saw), peak_allocated_bytes, peak_ts, peak_reserved_bytes, "
            "first_allocated_bytes, last_allocated_bytes, allocated_in_bytes, freed_bytes, matched_by, "
            "never_freed_bytes, never_freed_count, from_before_bytes, from_before_count, freed_unseen_count, "
            "allocated_unseen_count, size_differs_count}"
        ),
        "holders": (
            "of the first device of each rank at ``at_ts``: list of {rank, at_ts, holder, bytes, blocks, share_frac, "
            "oldest_ts}"
        ),
        "steps": (
            "list of {rank, device_type, device_index, step, phase, least_bytes, most_bytes, end_bytes, change_bytes, "
            "basis}"
        ),
        "growth": (
            "list of {rank, device_type, device_index, steps, bytes_per_step, total_bytes, grew, shrank, verdict, note}"
        ),
    },
)
@sources_argument
@click.option("--by", type=click.Choice(GROUPINGS), default="op", show_default=True, help="Who holds it.")
@scope_options
@limit_option(12)
@json_option
def command(
    sources: tuple[Path, ...],
    by: str,
    ranks: tuple[int, ...] | None,
    step: int | None,
    window: Window | None,
    limit: int,
    as_json: bool,
) -> None:
    """Show the memory peak of each device, who holds it at that moment, and growth over the steps.

    Needs a trace with memory events: torch.profiler records them with profile_memory=True. --step and
    --window choose the part whose peak is looked at.
    """
    from .opening import opened, scope_of

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    facts = _facts(recording, scope, cast("HolderKind", by))
    if as_json:
        from .rendering.json_output import print_json

        print_json(facts)
        return
    from .rendering.page import note, page

    if not facts["devices"]:
        note("No allocation is in it: torch.profiler records them with profile_memory=True.")
        return
    _print(page(), facts, by, limit, recording)


def _facts(recording: Recording, scope: Scope, by: HolderKind) -> dict[str, Any]:
    from ..analysis.memory import memory_peaks
    from ..analysis.memory_growth import memory_growth, memory_steps
    from .opening import time_of_rank
    from .rendering.frames import records

    facts: dict[str, Any] = {"devices": [], "holders": [], "steps": [], "growth": []}
    for rank in scope.ranks:
        devices = memory_peaks(recording, rank=rank)
        if not devices:
            continue
        facts["devices"] += [asdict(device) for device in devices]
        at = _instant(recording, devices[0], time_of_rank(recording, scope, rank))
        facts["holders"] += _holders(recording, rank, by, at)
        facts["steps"] += records(memory_steps(recording, rank=rank))
        facts["growth"] += [asdict(one) for one in memory_growth(recording, rank=rank)]
    return facts


def _instant(recording: Recording, device: DeviceMemory, window: tuple[int, int] | None) -> int:
    """When the device held most: in the window if there is one.

    Raises:
        UsageError: Nothing was allocated or freed in the window.
    """
    from ..analysis.memory import memory_timeline

    if window is None:
        return device.peak_ts
    held = memory_timeline(recording, rank=device.rank)
    same = held["device_index"].isna() if device.device_index is None else held["device_index"] == device.device_index
    held = held[(held["device_type"] == device.device_type) & same.fillna(False)]
    held = held[(held["ts"] >= window[0]) & (held["ts"] < window[1])]
    if not len(held):
        raise UsageError("nothing was allocated or freed in this part.")
    return int(held["ts"].to_numpy()[held["allocated_bytes"].to_numpy().argmax()])


def _holders(recording: Recording, rank: int, by: HolderKind, at: int) -> list[dict[str, Any]]:
    from ..analysis.memory_holders import memory_holders
    from .rendering.frames import records

    return [{"rank": rank, "at_ts": at, **row} for row in records(memory_holders(recording, rank=rank, at=at, by=by))]


def _print(out: Page, facts: dict[str, Any], by: str, limit: int, recording: Recording) -> None:
    import pandas as pd

    from .opening import extent
    from .rendering.frames import count_field, name_field, print_frame, share_field, size_field
    from .rendering.numbers import duration

    _print_devices(out, facts["devices"])
    for rank in dict.fromkeys(row["rank"] for row in facts["holders"]):
        rows = [row for row in facts["holders"] if row["rank"] == rank]
        after = duration(rows[0]["at_ts"] - extent(recording, (rank,))[0])
        whose = f" of rank {rank}" if len(recording.ranks) > 1 else ""
        out.heading(f"Held at the peak{whose}, by {by.replace('_', ' ')}", f"{after} after the start")
        fields = [
            size_field("bytes", "bytes"),
            share_field("share_frac", "share"),
            count_field("blocks", "blocks"),
            name_field("holder", by.replace("_", " ")),
        ]
        print_frame(out, pd.DataFrame(rows, dtype=object), fields, limit=limit)
    _print_growth(out, facts["growth"])


def _print_devices(out: Page, devices: list[dict[str, Any]]) -> None:
    from .rendering.numbers import count, size
    from .rendering.tables import name_column, number_column, print_table

    columns = [
        name_column("device"),
        number_column("peak"),
        number_column("reserved"),
        number_column("at start"),
        number_column("at end"),
        number_column("allocated"),
        number_column("events"),
        name_column("totals"),
    ]
    several = len({device["rank"] for device in devices}) > 1
    rows = [
        (
            (f"rank {device['rank']} " if several else "") + _device_words(device),
            size(device["peak_allocated_bytes"]),
            size(device["peak_reserved_bytes"]),
            size(device["first_allocated_bytes"]),
            size(device["last_allocated_bytes"]),
            size(device["allocated_in_bytes"]),
            count(device["events"]),
            "the allocator's" if device["basis"] == "allocator" else "of blocks seen",
        )
        for device in devices
    ]
    print_table(out, columns, rows)


def _device_words(device: dict[str, Any]) -> str:
    from .rendering.text import printable

    index = device["device_index"]
    return "host" if index is None else f"{printable(device['device_type'])} {index}"


def _print_growth(out: Page, growth: list[dict[str, Any]]) -> None:
    if not growth:
        return
    out.heading("From step to step")
    several = len({one["rank"] for one in growth}) > 1
    for one in growth:
        out.print((f"rank {one['rank']} " if several else "") + f"{_device_words(one)}: {_growth_words(one)}")


def _growth_words(one: dict[str, Any]) -> str:
    """How the least that a device held changed over the steady steps."""
    from .rendering.numbers import plural, size
    from .rendering.text import printable

    if one["verdict"] == "cannot tell" or not (one["grew"] or one["shrank"]):
        return printable(one["note"])
    rate = f", typically {size(abs(one['bytes_per_step']))} a step"
    verdict = {"grows": f"it grows{rate}", "shrinks": f"it shrinks{rate}"}.get(one["verdict"], "no trend")
    total = f"{size(abs(one['total_bytes']))} {'less' if one['total_bytes'] < 0 else 'more'}"
    return (
        f"{verdict}; {total} after {plural(one['steps'], 'steady step')}, "
        f"up {plural(one['grew'], 'time')} and down {plural(one['shrank'], 'time')}"
    )
