"""``stallscope stalls``: why each device waited, by root cause and line with what to try, added up, or one by one."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .command import described
from .options import Window, json_option, limit_option, scope_options, sources_argument

if TYPE_CHECKING:
    import pandas as pd

    from ..analysis.stall_reasons import Named, StallReason
    from ..profiler.recording.reader import Recording
    from .opening import Scope
    from .rendering.frames import Field
    from .rendering.page import Page

GROUPINGS = ("reason", "line", "root_cause", "cause", "none")
_PLACE_KEYS = "rank, device_type, device_index (null: threads in a device's place)"
_WORTH_FRAC = 0.01
"""Reasons with less than this share of what all reasons would give back, alone or together, are only counted."""

_ALSO_FRAC = 0.25
"""Another sufficient cause of less than this share of a reason's time is not told."""


@described(
    "stalls",
    short="Why each device waited, by cause and line.",
    examples=(
        ("What the device waited for, on which line, and what to try", "stallscope stalls trace.json.gz"),
        ("The longest single stalls of step 3", "stallscope stalls runs/today --step 3 --by none"),
        ("What the host was doing, rather than why the queue was empty", "stallscope stalls runs/today --by cause"),
    ),
    output_keys={
        "stalls": (
            f"by reason a list of {{{_PLACE_KEYS}, kind (the root cause, or launch_bound, held, between_ops, "
            "pageable_copy, device_copy, awaited_copy, memset), file, line, function, line_source, dur (ns that it "
            "would give back), second_ns (of that where another cause is the root), together_ns (what would come back "
            "beyond that only together with another delay), movement_ns, steady_step_ns, count, longest_ns, "
            "window_frac, also, host, ended_by (each null or {name, count, dur}), later_ns, typical_ns, "
            "slice_ids (for `stallscope why`), confidence, "
            f"reason, advice}}; else a list of {{{_PLACE_KEYS}, state, cause or root_cause, with --by line also file, "
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
    default="reason",
    show_default=True,
    help="Explain by reason (root cause and line), add up by one of the others, or list each stall (none).",
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
    from .opening import opened, scope_of

    recording = opened(sources)
    scope = scope_of(recording, ranks, step, window)
    if by == "reason":
        _by_reason(recording, scope, limit, as_json)
    else:
        _by_key(recording, scope, by, limit, as_json)


def _by_reason(recording: Recording, scope: Scope, limit: int, as_json: bool) -> None:
    from ..analysis.causes import CAUSES
    from ..analysis.stall_groups import stall_groups
    from ..analysis.stall_reasons import stall_reasons
    from .rendering.json_output import print_json
    from .rendering.page import note, page

    reasons = stall_reasons(recording, ranks=scope.ranks, step=scope.step, window=scope.window)
    if as_json:
        print_json({"stalls": [asdict(reason) for reason in reasons], "causes": CAUSES})
        return
    if not reasons:
        note(_NONE)
        return
    out = page()
    _headline(out, stall_groups(recording, ranks=scope.ranks, step=scope.step, window=scope.window), scope)
    whole = sum(reason.dur for reason in reasons)
    worth = [reason for reason in reasons if reason.dur + reason.together_ns >= _WORTH_FRAC * whole]
    shown = worth[:limit] if limit else reasons
    several = len({(reason.rank, reason.device_type, reason.device_index) for reason in reasons}) > 1
    for number, reason in enumerate(shown, 1):
        _print_reason(out, recording, number, reason, several)
    if len(shown) < len(reasons):
        from .rendering.numbers import duration

        rest = sum(reason.dur for reason in reasons) - sum(reason.dur for reason in shown)
        out.print()
        out.print(f"... {len(reasons) - len(shown):,} more reasons, {duration(rest)} together: --limit 0 shows all")


def _print_reason(out: Page, recording: Recording, number: int, reason: StallReason, several: bool) -> None:
    from ..analysis.causes import CAUSES
    from ..analysis.stall_claims import MOVEMENTS
    from .rendering.numbers import duration, plural
    from .rendering.source_text import source_text
    from .rendering.text import printable, shortened

    place = _where(reason)
    who = f"rank {reason.rank}, " if len(recording.ranks) > 1 else ""
    device = reason.device_type + (f" {reason.device_index}" if reason.device_index is not None else "")
    out.heading(f"{number}. {reason.kind} {place}", f"{who}{device}" if several else "")
    line = source_text(recording, reason.file, reason.line) if reason.line_source != "function" else ""
    if line:
        out.print(f"   > {shortened(printable(line), out.width - 6)}")
    _paragraph(out, "what", CAUSES.get(reason.kind) or _KINDS[reason.kind])
    _paragraph(out, "gives back", _gives_back(reason))
    waited = f"{plural(reason.count, 'piece')}, the longest {duration(reason.longest_ns)}"
    if reason.ended_by:
        which = "mostly" if reason.kind in MOVEMENTS else "most before"
        waited += f"; {which} {_name(reason.ended_by)} ({reason.ended_by.count:,})"
    if reason.kind in _ALL_OVER and reason.typical_ns is not None:
        waited += f"; half of what it waited for runs for less than {duration(reason.typical_ns)}"
    _paragraph(out, "device" if reason.device_index is not None or reason.device_type != "cpu" else "threads", waited)
    if reason.host:
        _paragraph(out, "host", _host(reason, reason.host))
    if reason.also and reason.also.dur >= _ALSO_FRAC * reason.dur:
        other = "all of the waits before it" if reason.also.name == "several_waits" else reason.also.name
        also = f"{duration(reason.also.dur)} would be gone without {other} as well: either is enough"
        _paragraph(out, "also", also)
    why = f"; see `stallscope why {reason.slice_ids[0]}`" if reason.slice_ids else ""
    _paragraph(out, "confidence", reason.confidence + (f": {reason.reason}" if reason.reason else "") + why)
    if reason.advice:
        _paragraph(out, "try", reason.advice)


def _where(reason: StallReason) -> str:
    """The line, or why there is none."""
    from .rendering.text import name, source_line

    if reason.file is None:
        return "(no single line)" if reason.kind in _ALL_OVER else "(line not known)"
    place = source_line(reason.file, reason.line, 48)
    function = name(reason.function, 30)
    return f"in {function} ({place})" if reason.line_source == "function" else f"at {place} in {function}"


_KINDS = {
    "launch_bound": "the host launches operations more slowly than the device runs them",
    "between_ops": "the framework between two ops",
    "held": "queued already, and not started for long",
    "pageable_copy": "a copy from or to pageable memory, with nothing beside it",
    "awaited_copy": "a copy on a stream of its own, and nothing ran until it was through",
    "device_copy": "a copy within the device, with nothing beside it",
    "memset": "memory filled with a value, with nothing beside it",
}
_ALL_OVER = ("launch_bound", "between_ops", "kernel_gap", "held")


def _gives_back(reason: StallReason) -> str:
    from .rendering.numbers import duration, share

    together = f"{duration(reason.together_ns)} only together with another delay"
    if not reason.dur:
        return f"nothing by itself, {together}"
    per_step = f"{duration(reason.steady_step_ns)} a steady step, " if reason.steady_step_ns is not None else ""
    text = f"{per_step}{duration(reason.dur)} in all, {share(reason.window_frac, 1)} of the time{_of_which(reason)}"
    return f"{text}; {together}" if reason.together_ns else text


def _of_which(reason: StallReason) -> str:
    from ..analysis.stall_claims import MOVEMENTS
    from .rendering.numbers import duration

    parts = []
    if reason.movement_ns and reason.kind not in MOVEMENTS:
        parts.append(f"{duration(reason.movement_ns)} of it copies")
    if reason.second_ns:
        parts.append(f"{duration(reason.second_ns)} of it has another root cause")
    return f" ({', '.join(parts)})" if parts else ""


def _host(reason: StallReason, host: Named) -> str:
    from .rendering.numbers import duration

    text = f"{_name(host)}: {duration(host.dur)} of it in {host.count:,}"
    if reason.later_ns * 2 > reason.dur:
        text += "; it waits at no cost there, and the device starves in the gaps that follow"
    return text


def _name(named: Named) -> str:
    from .rendering.text import name

    return name(named.name, 48)


def _paragraph(out: Page, label: str, text: str) -> None:
    """A label and a text wrapped beside it."""
    from .rendering.text import printable

    for line in textwrap.wrap(
        printable(text), out.width - 1, initial_indent=f"   {label:<12}", subsequent_indent=" " * 15
    ):
        out.print(line)


def _by_key(recording: Recording, scope: Scope, by: str, limit: int, as_json: bool) -> None:
    from ..analysis.causes import CAUSES
    from ..analysis.stall_groups import stall_groups
    from ..analysis.stalls import stalls
    from .rendering.frames import records

    if by == "none":
        frame = stalls(recording, ranks=scope.ranks, step=scope.step, window=scope.window)
    else:
        frame = stall_groups(recording, by=by, ranks=scope.ranks, step=scope.step, window=scope.window)  # type: ignore[arg-type]
    frame = frame.sort_values("dur", ascending=False, kind="stable")
    if as_json:
        from .rendering.json_output import print_json

        print_json({"stalls": records(frame), "causes": CAUSES})
        return
    from .rendering.page import page

    _print(page(), frame, by, limit, scope)


def _print(out: Page, frame: pd.DataFrame, by: str, limit: int, scope: Scope) -> None:
    from ..analysis.causes import CAUSES
    from .rendering.frames import print_frame, records
    from .rendering.page import note

    if not len(frame):
        note(_NONE)
        return
    _headline(out, frame, scope)
    out.print()
    print_frame(out, frame, _fields(frame, by), limit=limit)
    cause = "cause" if by == "cause" else "root_cause"
    shown = dict.fromkeys(row[cause] for row in records(frame, limit))
    out.print()
    for name in shown:
        out.print(f"{name:<16} {CAUSES.get(name, '')}")


def _headline(out: Page, frame: pd.DataFrame, scope: Scope) -> None:
    from .rendering.numbers import duration

    where = f" in {scope.words}" if scope.words else ""
    totals = frame.groupby("state")["dur"].sum()
    words = [f"{duration(int(totals[s]))} {w}" for s, w in _STATES.items() if s in totals.index]
    out.print(f"{' and '.join(words)}{where}")


_NONE = "No stall: what computes was never without work, or nothing ran on it."
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
