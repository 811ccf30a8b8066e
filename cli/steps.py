"""``stallscope steps``: every step with its window on host and device, and what its time is made of."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .command import described
from .options import json_option, limit_option, ranks_option, sources_argument, step_option

if TYPE_CHECKING:
    import pandas as pd

    from ..profiler.recording.reader import Recording
    from .rendering.page import Page

WIDEST_BAR = 24
OTHER_COLUMNS = 66
"""What the columns beside the step's name and its bar take, with a phase."""


@described(
    "steps",
    short="Each step: its length on device and host, and its states.",
    examples=(
        ("Which step is slow, and what fills it", "stallscope steps trace.json.gz"),
        ("Rank 3's steps as JSON, times in ns", "stallscope steps runs/today --rank 3 --json"),
    ),
    output_keys={
        "steps": (
            "list of {rank, device_type, device_index (null: threads in a device's place), step, phase "
            "(preparation, warm_up, execution, paused: the recorder wrote), basis (device: cut where the device began "
            "the step's work; host), reason (why the host's windows are used), ts, "
            "dur, host_ts, host_dur, compute_ns, communication_ns, "
            "data_movement_ns, stall_ns (these four add up to dur), busy_ns, communication_total_ns, "
            "communication_overlapped_ns, data_movement_total_ns, data_movement_overlapped_ns}"
        )
    },
)
@sources_argument
@ranks_option
@step_option
@limit_option(40)
@json_option
def command(
    sources: tuple[Path, ...], ranks: tuple[int, ...] | None, step: int | None, limit: int, as_json: bool
) -> None:
    """List the steps: their windows on the device and on the host, and the states that fill them.

    A device runs behind the host, so its step begins when the first of the step's own work begins.
    """
    from .opening import opened, scope_of
    from .rendering.frames import records

    recording = opened(sources)
    frame = _steps(recording, scope_of(recording, ranks).ranks)
    if step is not None:
        frame = frame[frame["step"] == step]
    if as_json:
        from .rendering.json_output import print_json

        print_json({"steps": records(frame)})
    else:
        from .rendering.page import page

        _print(page(), frame, limit)


def _steps(recording: Recording, ranks: tuple[int, ...]) -> pd.DataFrame:
    """One row per rank, device and step: its windows and its states."""
    from ..analysis.step_breakdown import step_breakdown
    from ..analysis.steps import steps

    states = step_breakdown(recording, ranks=ranks)
    states = states[states["step"].notna()].drop(columns=["ts", "dur", "phase", "basis"]).astype({"step": "int64"})
    key = ["rank", "device_type", "device_index", "step"]
    return steps(recording, ranks=ranks).merge(states, on=key, how="left")


def _print(out: Page, frame: pd.DataFrame, limit: int) -> None:
    from .rendering.bars import FILLS
    from .rendering.frames import duration_field, part_field, print_frame, records, word_field
    from .rendering.page import note
    from .rendering.text import printable

    if not len(frame):
        note("No steps are marked in it: torch.profiler marks them where the script calls prof.step().")
        return
    place = _place_field(frame)
    fields = [place, duration_field("dur", "device"), duration_field("host_dur", "host")]
    if (frame["phase"] != "execution").any():
        fields.append(word_field("phase", "phase"))
    shown = records(frame, limit)
    free = out.width - OTHER_COLUMNS - max(len(str(place.cell(row))) for row in shown)
    fields.append(_bar_field(max(4, min(WIDEST_BAR, free)), unicode=out.unicode))
    fields += [
        part_field(f"{state}_ns", "dur", title)
        for state, title in zip(FILLS, ("compute", "comm", "copy", "stall"), strict=True)
    ]
    print_frame(out, frame, fields, limit=limit)
    out.print()
    out.print("comm, copy: with no compute beside them. The last step on a device ends with its last operation.")
    for reason in sorted(set(frame["reason"]) - {""}):
        for line in textwrap.wrap(f"* {printable(reason)}", out.width, subsequent_indent="  "):
            out.print(line)


def _place_field(frame: pd.DataFrame) -> Any:
    from .rendering.frames import Field
    from .rendering.tables import Column

    several = frame["rank"].nunique() > 1
    devices = frame["device_index"].nunique() > 1

    def cell(row: Any) -> str:
        parts = [f"rank {row['rank']}"] if several else []
        parts += [f"{row['device_type']} {row['device_index']}"] if devices else []
        return " ".join([*parts, f"step {row['step']}"]) + ("*" if row["reason"] else "")

    return Field(Column("step"), cell)


def _bar_field(width: int, *, unicode: bool) -> Any:
    from .rendering.bars import FILLS, state_bar
    from .rendering.frames import Field
    from .rendering.tables import Column

    def cell(row: Any) -> str:
        parts = {state: row[f"{state}_ns"] or 0 for state in FILLS}
        return state_bar(parts, width, unicode=unicode).plain

    return Field(Column("states"), cell)
