"""``stallscope stalls``: why each device waited, added up by cause and line, or one by one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command import described
from .options import Window, json_option, limit_option, scope_options, sources_argument

if TYPE_CHECKING:
    import pandas as pd

    from .rendering.frames import Field
    from .rendering.page import Page

GROUPINGS = ("line", "root_cause", "cause", "none")
_PLACE_KEYS = "rank, device_type, device_index (null: threads in a device's place)"


@described(
    "stalls",
    short="Why each device waited, by cause and line.",
    examples=(
        ("What the device waited for, and on which line", "stallscope stalls trace.json.gz"),
        ("The longest single stalls of step 3", "stallscope stalls runs/today --step 3 --by none"),
        ("What the host was doing, rather than why the queue was empty", "stallscope stalls runs/today --by cause"),
    ),
    output_keys={
        "stalls": (
            f"list of {{{_PLACE_KEYS}, state (stall, data_movement), cause or root_cause, with --by line also file, "
            "line, function, line_source, then dur (ns), count, longest_ns, stall_frac (of all time of that state)}; "
            "with --by none one entry a stall: stall_id, step, ts, dur, state, cause, root_cause, co_cause, ended_by, "
            "host_slice_id, root_slice_id, stack_id, file, line, function, line_source, evidence (slice ids), "
            "peer_rank, confidence, reason, analysis_version"
        ),
        "causes": "what each cause means",
    },
)
@sources_argument
@click.option(
    "--by",
    type=click.Choice(GROUPINGS),
    default="line",
    show_default=True,
    help="Add up by this; none lists each stall.",
)
@scope_options
@limit_option(20)
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
    """Say why each device waited: every stall and every copy that nothing ran beside.

    cause is what the host did meanwhile; root cause is why the device had nothing queued, which may be
    a wait long before. Lines of a torch.profiler trace are those of the function's def.
    """
    from ..analysis.causes import CAUSES
    from ..analysis.stall_groups import stall_groups
    from ..analysis.stalls import stalls
    from .opening import opened, scope_of
    from .rendering.frames import records

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    if by == "none":
        frame = stalls(recording, ranks=scope.ranks, step=step, window=scope.window)
    else:
        frame = stall_groups(recording, by=by, ranks=scope.ranks, step=step, window=scope.window)  # type: ignore[arg-type]
    frame = frame.sort_values("dur", ascending=False, kind="stable")
    if as_json:
        from .rendering.json_output import print_json

        print_json({"stalls": records(frame), "causes": CAUSES})
        return
    from .rendering.page import page

    _print(page(), frame, by, limit, scope.words)


def _print(out: Page, frame: pd.DataFrame, by: str, limit: int, scope: str) -> None:
    from ..analysis.causes import CAUSES
    from .rendering.frames import print_frame, records
    from .rendering.numbers import duration
    from .rendering.page import note

    if not len(frame):
        note("No stall: the device was never without work, or nothing ran on it.")
        return
    where = f" in {scope}" if scope else ""
    totals = frame.groupby("state")["dur"].sum()
    words = [f"{duration(int(totals[s]))} {w}" for s, w in _STATES.items() if s in totals.index]
    out.print(f"{' and '.join(words)}{where}")
    out.print()
    print_frame(out, frame, _fields(frame, by), limit=limit)
    cause = "cause" if by == "cause" else "root_cause"
    shown = dict.fromkeys(row[cause] for row in records(frame, limit))
    out.print()
    for name in shown:
        out.print(f"{name:<16} {CAUSES.get(name, '')}")


_STATES = {"stall": "without work", "data_movement": "in copies that nothing ran beside"}


def _fields(frame: pd.DataFrame, by: str) -> list[Field]:
    from .rendering.frames import count_field, duration_field, line_field, name_field, share_field, word_field

    fields: list[Any] = [word_field("rank", "rank")] if frame["rank"].nunique() > 1 else []
    if by == "none":
        fields.append(word_field("step", "step"))
    fields.append(duration_field("dur", "time"))
    if by != "none":
        fields += [
            share_field("stall_frac", "of state"),
            count_field("count", "times"),
            duration_field("longest_ns", "longest"),
        ]
    fields.append(word_field("state", "state"))
    fields += [word_field(key, key.replace("_", " ")) for key in ("cause", "root_cause") if key in frame]
    if by == "none":
        fields.append(word_field("confidence", "sure"))
    if "file" in frame and frame["file"].notna().any():
        fields += [line_field(2), name_field("function", "function")]
    return fields
