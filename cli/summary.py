"""``stallscope summary``: a recording on one screen, the verdict first."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from .command import described
from .options import json_option, ranks_option, sources_argument

if TYPE_CHECKING:
    from ..analysis.findings import Finding
    from ..analysis.summary import DeviceSummary, States, Summary
    from .rendering.page import Page

BAR_WIDTH = 44
DEVICES_SHOWN = 8
_STATES = "window_ns, busy_ns, idle_ns, compute_ns, communication_ns, data_movement_ns, stall_ns"


@described(
    "summary",
    examples=(
        ("What a trace says, on one screen", "stallscope summary trace.json.gz"),
        ("All ranks of a job: a folder of traces, or several files", "stallscope summary traces/"),
        ("One rank, for a script", "stallscope summary runs/today --rank 0 --json"),
    ),
    output_keys={
        "verdict": "one sentence: what limits the step",
        "findings": "list, the most time first: kind, title, rank, ranks, device_type, device_index, gives_back_ns, "
        "per, share_frac, evidence, slice_ids, file, line, function, line_source, advice, confidence",
        "cold_starts": "list: rank, steps, total_ns, steady_step_ns (null: no steady step)",
        "identity": "what was run, where, with which versions",
        "world_size": "ranks of the job; null where not known",
        "ranks": "list: rank, status, host, slices",
        "devices": f"list: rank, device_type, device_index (null: threads), name, window and steady ({_STATES}; "
        "steady is the sum over the steady steps, null without), steady_steps, step_mean_ns, step_median_ns",
        "overall": f"sum over the devices' windows: {_STATES}",
        "overall_steady": "the same over their steady steps; null without",
        "focus_rank": "the rank that stalls, kernels and ops are about: the one that stalls longest",
        "stalls": "its five largest groups, as in `stalls --by line`, with per_step_ns",
        "kernels": "its five kernels with most time, as in `kernels`",
        "ops": "its five ops with most time, as in `ops`",
        "kernels_of": "what those two are about, in words",
        "memory": "list by rank and device: peaks, as in `memory`",
        "collectives": "over all ranks: parts, total_ns, wait_for_peer_ns, transfer_ns (null: withheld), unknown_ns, "
        "error_ns, lower_bound, peer, peer_wait_ns, reason; null without collectives",
        "losses": "counts by severity: data_loss, warning, info",
        "notes": "what to know to read the rest",
    },
)
@sources_argument
@ranks_option
@json_option
def command(sources: tuple[Path, ...], ranks: tuple[int, ...] | None, as_json: bool) -> None:
    """Say on one screen what a step is made of, why the device waited, and what to do about it.

    Steps that compile or warm up are told apart from the steady ones and are in no average.
    """
    from ..analysis.summary import summary
    from .opening import opened, scope_of, source_name

    recording = opened(sources)
    scope = scope_of(recording, ranks)
    found = summary(recording, ranks=scope.ranks)
    if as_json:
        from dataclasses import asdict

        from .rendering.json_output import print_json

        print_json(asdict(found))
        return
    from .rendering.page import page

    _print(page(), source_name(sources), found)


def _print(out: Page, source: str, found: Summary) -> None:
    _print_identity(out, source, found)
    _print_verdict(out, found.verdict)
    _print_states(out, found)
    _print_stalls(out, found)
    _print_work(out, found)
    _print_footer(out, found)
    _print_findings(out, found.findings)


def _print_identity(out: Page, source: str, found: Summary) -> None:
    from rich.text import Text

    from .rendering.numbers import count, plural
    from .rendering.text import name, printable

    facts = [plural(len(found.ranks), "rank") + (f" of {found.world_size}" if found.world_size else "")]
    models = sorted({device.name for device in found.devices if device.name})
    if models:
        facts.append(name(", ".join(models), 40))
    version = found.identity.get("torch_version") or found.identity.get("torch")
    facts += [f"torch {name(str(version), 20)}"] if version else []
    facts.append(f"{count(sum(rank.slices for rank in found.ranks))} slices")
    statuses = sorted({rank.status for rank in found.ranks})
    style = "green" if statuses == ["completed"] else "yellow"
    out.print(
        Text.assemble((printable(source), "bold"), "  ", (" · ".join(facts), "dim"), "  ", (", ".join(statuses), style))
    )


def _print_verdict(out: Page, verdict: str) -> None:
    from rich.text import Text

    from .rendering.text import printable

    out.print()
    for number, line in enumerate(_wrapped(printable(verdict), out.width - 2)):
        out.print(Text(("> " if number == 0 else "  ") + line, "bold"))


def _wrapped(text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, break_long_words=True) or [""]


def _print_states(out: Page, found: Summary) -> None:
    """One bar per device, of its mean steady step or else of its window; then the legend over all of them."""
    from rich.text import Text

    from .rendering.bars import legend, state_bar
    from .rendering.numbers import duration, plural

    if not found.devices:
        return
    steady = found.overall_steady is not None
    cold = {start.rank: start for start in found.cold_starts}
    steps = max(device.steady_steps for device in found.devices)
    out.heading("The steady step" if steady else "The whole recording", _steps_note(found, steps))
    for device in _longest_stall_first(found.devices)[:DEVICES_SHOWN]:
        part = device.steady if steady and device.steady is not None else device.window
        length = device.step_mean_ns if steady and device.step_mean_ns is not None else part.window_ns
        line = Text(f"  {_device_words(device, found):<18} {duration(length):>8}  ")
        line.append_text(state_bar(_parts(part), BAR_WIDTH, unicode=out.unicode))
        line.append(f"  busy {100 * part.busy_ns / max(part.window_ns, 1):5.1f} %")
        out.print(line)
    if len(found.devices) > DEVICES_SHOWN:
        out.print(f"  ... {plural(len(found.devices) - DEVICES_SHOWN, 'more device')}: `stallscope steps` has all")
    whole = found.overall_steady if steady and found.overall_steady is not None else found.overall
    count = sum(device.steady_steps for device in found.devices) if steady else len(found.devices)
    key = legend(_parts(whole, count), unicode=out.unicode)
    for line in key.wrap(out.console, out.width - 2) if len(key.plain) > out.width - 2 else [key]:
        out.print(Text("  ").append_text(line))
    for start in list(cold.values())[:1]:
        out.print(
            f"  cold start, apart: {plural(start.steps, 'step')} took {duration(start.total_ns)} "
            f"(a steady one takes {duration(start.steady_step_ns)})"
        )


def _steps_note(found: Summary, steps: int) -> str:
    from .rendering.numbers import duration

    if found.overall_steady is None:
        return "first to last operation of each device"
    medians = [device.step_median_ns for device in found.devices if device.step_median_ns is not None]
    each = f"{steps} step{'s' if steps != 1 else ''}"
    return (
        f"mean of {each} as the device ran them, median {duration(max(medians))}"
        if steps > 1
        else f"{each} as the device ran it"
    )


def _parts(states: States, divisor: int = 1) -> dict[str, int]:
    return {
        state: round(getattr(states, f"{state}_ns") / max(divisor, 1))
        for state in ("compute", "communication", "data_movement", "stall")
    }


def _longest_stall_first(devices: tuple[DeviceSummary, ...]) -> list[DeviceSummary]:
    """In the order of ranks where all fit, else those that stall most."""
    if len(devices) <= DEVICES_SHOWN:
        return list(devices)
    return sorted(devices, key=lambda device: -device.window.stall_ns)


def _device_words(device: DeviceSummary, found: Summary) -> str:
    from .rendering.text import name

    own = name(device.device_type, 10) + (f" {device.device_index}" if device.device_index is not None else " threads")
    return f"rank {device.rank} {own}" if len(found.ranks) > 1 or device.rank else own


def _print_stalls(out: Page, found: Summary) -> None:
    from .rendering.frames import count_field, duration_field, line_field, name_field
    from .rendering.numbers import share
    from .rendering.tables import number_column, print_table

    if not found.stalls:
        return
    states = found.overall_steady or found.overall
    where = f"rank {found.focus_rank}, " if len(found.ranks) > 1 else ""
    out.heading(
        "Why the device waited",
        f"{where}by root cause and line; {share(states.stall_ns, states.window_ns)} of the time is stall",
    )
    per_step = found.stalls[0]["per_step_ns"] is not None
    fields = [
        duration_field("per_step_ns" if per_step else "dur", "each step" if per_step else "in all"),
        count_field("count", "times"),
        duration_field("longest_ns", "longest"),
        name_field("root_cause", "root cause"),
        line_field(weight=2),
        name_field("function", "in", weight=1),
    ]
    whole = _focus_time(found, steady=per_step)
    rows = [
        [share(row["dur"], whole), *(field.cell(row) for field in fields)]
        for row in found.stalls
        if row["dur"] * 200 >= whole
    ]
    print_table(out, [number_column("of step" if per_step else "share"), *(field.column for field in fields)], rows, 2)


def _focus_time(found: Summary, *, steady: bool) -> int:
    """The time that the stalls of the focus rank are a part of, ns."""
    mine = [device for device in found.devices if device.rank == found.focus_rank]
    parts = [device.steady if steady and device.steady is not None else device.window for device in mine]
    return sum(part.window_ns for part in parts)


def _print_work(out: Page, found: Summary) -> None:
    from .rendering.frames import count_field, duration_field, name_field, share_field
    from .rendering.tables import print_table

    kernels = [
        duration_field("total_ns", "total"),
        share_field("busy_frac", "of busy"),
        count_field("count", "times"),
        duration_field("mean_ns", "mean"),
        name_field("short_name", "kernel", 3),
    ]
    ops = [
        duration_field("device_self_ns", "on device"),
        duration_field("host_self_ns", "on host"),
        count_field("count", "times"),
        name_field("op", "op", 3),
    ]
    sections = [("Kernels", found.kernels, kernels), ("Ops", found.ops, ops)]
    where = f"rank {found.focus_rank}, " if len(found.ranks) > 1 else ""
    for title, rows, fields in sections:
        if rows:
            out.heading(title, where + found.kernels_of)
            print_table(
                out,
                [field.column for field in fields],
                [[field.cell(row) for field in fields] for row in rows[:4]],
                indent=2,
            )


def _print_footer(out: Page, found: Summary) -> None:
    from .rendering.numbers import count, duration, size
    from .rendering.text import name, printable

    lines = []
    for peak in found.memory[:2]:
        where = peak.device_type + (f" {peak.device_index}" if peak.device_index is not None else "")
        reserved = f", reserved {size(peak.peak_reserved_bytes)}" if peak.peak_reserved_bytes else ""
        basis = "" if peak.basis == "allocator" else " of what was allocated while recording"
        lines.append(f"Memory       {name(where, 16)}: peak {size(peak.peak_allocated_bytes)}{basis}{reserved}")
    waits = found.collectives
    if waits is not None and waits.wait_for_peer_ns is not None and waits.peer is not None:
        lines.append(
            f"Collectives  {duration(waits.total_ns)} over all ranks: {duration(waits.wait_for_peer_ns)} waiting for "
            f"the last rank ({duration(waits.peer_wait_ns)} of it for rank {waits.peer}), "
            f"{duration(waits.transfer_ns)} transfer"
        )
    elif waits is not None:
        lines.append(f"Collectives  {duration(waits.total_ns)}; waiting is not told apart: {printable(waits.reason)}")
    if any(found.losses.values()):
        badge = ", ".join(
            f"{count(number)} {kind.replace('_', ' ')}" for kind, number in found.losses.items() if number
        )
        lines.append(f"Losses       {badge}: `stallscope info` lists them")
    lines += [f"Note         {printable(note)}" for note in found.notes]
    if lines:
        out.print()
    for line in lines:
        for number, part in enumerate(_wrapped(line, out.width - 13)):
            out.print(part if number == 0 else f"             {part}")


def _print_findings(out: Page, findings: tuple[Finding, ...]) -> None:
    from rich.text import Text

    from .rendering.numbers import duration, share
    from .rendering.text import printable, source_line

    if not findings:
        return
    out.heading("What to do", "by the time that it would give back")
    for number, finding in enumerate(findings, start=1):
        gain = (
            f"{duration(finding.gives_back_ns)} of each {finding.per} ({share(finding.share_frac, 1)})"
            if finding.gives_back_ns
            else ""
        )
        out.print(
            Text.assemble(f"  {number}. ", (printable(finding.title), "bold"), ("  " + gain if gain else "", "yellow"))
        )
        place = f"{source_line(finding.file, finding.line, 50)}: " if finding.file else ""
        text = f"{place}{printable(finding.evidence)} Try: {printable(finding.advice)}"
        for line in _wrapped(text, out.width - 5):
            out.print(f"     {line}")
