"""``stallscope collectives``: waiting for the slowest rank apart from the transfer, and whom it was for."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command import described
from .options import json_option, limit_option, ranks_option, sources_argument

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.collective_totals import CollectiveSummary
    from ..profiler.recording.reader import Recording
    from .rendering.frames import Field
    from .rendering.page import Page

GROUPINGS = ("rank", "peer", "kind", "group", "none")


@described(
    "collectives",
    short="Waiting for the slowest rank, apart from the transfer.",
    examples=(
        ("Who waits for whom", "stallscope collectives traces/rank*.json.gz"),
        ("The longest single collectives of rank 5", "stallscope collectives runs/today --rank 5 --by none"),
    ),
    output_keys={
        "summary": (
            "{parts, total_ns, wait_for_peer_ns and transfer_ns (null: withheld), unknown_ns, error_ns, lower_bound, "
            "peer, peer_wait_ns, reason}, over all ranks"
        ),
        "collectives": (
            "by rank, peer, kind or group: list of {that key, parts, total_ns, wait_for_peer_ns, transfer_ns, "
            "unknown_ns, error_ns, wait_frac, lower_bound, in_bytes, out_bytes, reason}; with --by none: list of "
            "{collective, rank, kind, group, sequence_number, ts, dur, on_device, wait_for_peer_ns, transfer_ns, "
            "error_ns, last_rank, lower_bound, withheld, ranks_present, ranks_expected, in_bytes, out_bytes, "
            "algorithm_bytes_per_s, bus_bytes_per_s, slice_id, device_slice_id}"
        ),
        "clocks": (
            "how the ranks' clocks were aligned: list of {rank, reference_rank, form, offset_ns, drift_ppm, error_ns, "
            "error_before_ns, collectives}"
        ),
    },
)
@sources_argument
@click.option(
    "--by", type=click.Choice(GROUPINGS), help="Add up by this; none lists each.  [default: rank and peer, or kind]"
)
@ranks_option
@limit_option(20)
@json_option
def command(
    sources: tuple[Path, ...], by: str | None, ranks: tuple[int, ...] | None, limit: int, as_json: bool
) -> None:
    """Split the time in collectives: waiting until the slowest rank arrives, and the transfer itself.

    Needs the traces of several ranks of one job: with one alone the two cannot be told apart.
    """
    from .opening import opened, scope_of

    recording = opened(sources)
    chosen = scope_of(recording, ranks).ranks
    if as_json:
        _print_json(recording, by or "rank", chosen)
        return
    from .rendering.page import note, page

    out = page()
    found = _print_summary(out, recording)
    if found is None:
        note("No collective is in it.")
        return
    told = found.wait_for_peer_ns is not None
    for grouping in (by,) if by else ("rank", "peer") if told else ("kind",):
        _print_group(out, recording, grouping, chosen, limit)
    _print_clocks(out, recording)


def _frame(recording: Recording, by: str, ranks: tuple[int, ...]) -> pd.DataFrame:
    from ..analysis.collective_totals import collective_totals
    from ..analysis.collectives import collectives

    if by == "none":
        return collectives(recording, ranks=ranks).sort_values("dur", ascending=False, kind="stable")
    frame = collective_totals(recording, by=by)  # type: ignore[arg-type]
    if by == "rank":
        return frame[frame["rank"].isin(ranks)]
    return frame.sort_values("total_ns", ascending=False, kind="stable")


def _print_json(recording: Recording, by: str, ranks: tuple[int, ...]) -> None:
    from dataclasses import asdict

    from ..analysis.collective_totals import clock_errors, collective_summary
    from .rendering.frames import records
    from .rendering.json_output import print_json

    print_json(
        {
            "summary": asdict(collective_summary(recording)),
            "collectives": records(_frame(recording, by, ranks)),
            "clocks": records(clock_errors(recording)),
        }
    )


def _print_summary(out: Page, recording: Recording) -> CollectiveSummary | None:
    """One or two lines over all ranks, from what is returned; None where there is no collective."""
    from ..analysis.collective_totals import collective_summary
    from .rendering.numbers import count, duration, share

    found = collective_summary(recording)
    if not found.parts:
        return None
    if found.wait_for_peer_ns is None or found.transfer_ns is None:
        out.print(f"{duration(found.total_ns)} in {count(found.parts)} collectives.")
    else:
        waited = f"{duration(found.wait_for_peer_ns)} ({share(found.wait_for_peer_ns, found.total_ns)})"
        least = "at least " if found.lower_bound else ""
        out.print(
            f"{duration(found.total_ns)} in {count(found.parts)} parts of collectives: {least}{waited} waiting for the "
            "last rank to arrive,"
        )
        out.print(f"{duration(found.transfer_ns)} transfer, {duration(found.unknown_ns)} that cannot be told apart.")
    if found.peer is not None:
        out.print(f"Longest for rank {found.peer}: {duration(found.peer_wait_ns)}.")
    if found.reason:
        out.print(f"Note: {found.reason}.")
    return found


def _print_group(out: Page, recording: Recording, by: str, ranks: tuple[int, ...], limit: int) -> None:
    from .rendering.frames import print_frame
    from .rendering.text import printable

    titles = {"rank": "Who waits", "peer": "For whom", "kind": "Kinds", "group": "Groups", "none": "Longest"}
    out.heading(titles[by])
    frame = _frame(recording, by, ranks)
    print_frame(out, frame, _single_fields() if by == "none" else _total_fields(frame, by), limit=limit)
    if by != "none" and frame["wait_for_peer_ns"].notna().any():  # else it is said once for all of them
        for reason in frame["reason"].dropna().unique():
            out.print(f"- is not told: {printable(reason)}")


def _total_fields(frame: pd.DataFrame, by: str) -> list[Field]:
    """The columns of which anything is known."""
    from .rendering.frames import count_field, duration_field, name_field, share_field, size_field

    fields = [name_field(by, by), duration_field("total_ns", "time")]
    if frame["wait_for_peer_ns"].notna().any():
        fields += [
            duration_field("wait_for_peer_ns", "waiting"),
            share_field("wait_frac", "share"),
            duration_field("transfer_ns", "transfer"),
            duration_field("unknown_ns", "unknown"),
            duration_field("error_ns", "+/-"),
        ]
    fields.append(count_field("parts", "parts"))
    if frame["in_bytes"].notna().any():
        fields.append(size_field("in_bytes", "bytes in"))
    return fields


def _single_fields() -> list[Field]:
    from .rendering.frames import duration_field, name_field, size_field

    return [
        name_field("rank", "rank"),
        name_field("kind", "kind"),
        name_field("group", "group"),
        duration_field("dur", "time"),
        duration_field("wait_for_peer_ns", "waiting"),
        duration_field("transfer_ns", "transfer"),
        name_field("last_rank", "last rank"),
        size_field("in_bytes", "bytes in"),
        name_field("withheld", "why not told"),
    ]


def _print_clocks(out: Page, recording: Recording) -> None:
    from ..analysis.collective_totals import clock_errors
    from .rendering.numbers import duration

    frame: Any = clock_errors(recording)
    known = frame["error_ns"].dropna()
    if len(frame) > 1 and len(known):
        corrected = int((frame["form"] != "none").sum())
        after = f", after {corrected} were corrected" if corrected else ""
        within = duration(int(known.max()))
        out.print()
        out.print(f"The clocks of {len(frame)} ranks agree within {within} at the ends of their collectives{after}.")
