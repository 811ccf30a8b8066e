"""The screen that ``stallscope summary`` prints, section by section."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from .rendering.bars import FILLS, legend, state_bar
from .rendering.frames import Field, count_field, duration_field, line_field, name_field, share_field, word_field
from .rendering.numbers import count, duration, plural, share, size
from .rendering.tables import Column, number_column, print_table, table_lines
from .rendering.text import name, printable, source_line

if TYPE_CHECKING:
    from ..analysis.findings import Finding
    from ..analysis.summary_parts import DeviceSummary, States, Summary
    from .rendering.page import Page

DEVICES_SHOWN = 8
STALLS_SHOWN = 4
WORK_SHOWN = 4
FINDINGS_IN_FULL = 3
WORTH_SHOWING = 200
"""A stall below one part in this many of the time is not worth a line."""


def print_summary(out: Page, source: str, found: Summary) -> None:
    """Prints the summary in about 40 lines of at most the page's width."""
    _print_identity(out, source, found)
    _print_verdict(out, found)
    _print_states(out, found)
    _print_stalls(out, found)
    _print_work(out, found)
    _print_footer(out, found)
    _print_findings(out, found.findings)


def _print_identity(out: Page, source: str, found: Summary) -> None:
    ranks = plural(len(found.ranks), "rank")
    if found.world_size and found.world_size != len(found.ranks):
        ranks = f"{ranks} of {found.world_size}"
    models = sorted({device.name for device in found.devices if device.name})
    models = models or (["no device"] if _on_threads(found) else [])
    hosts = sorted({rank.host for rank in found.ranks if rank.host})
    facts = [ranks, *models, *hosts[:2], f"{count(sum(rank.slices for rank in found.ranks))} slices", found.part]
    statuses = sorted({rank.status for rank in found.ranks})
    style = "green" if statuses == ["completed"] else "yellow"
    words = printable((", " if not out.unicode else " · ").join(fact for fact in facts if fact))
    title = name(source, out.width)
    status = Text(", ".join(statuses), style)
    if len(title) + len(words) + len(status) + 4 > out.width:
        out.print(Text(title, "bold"))
        title = ""
    out.print(Text.assemble((title, "bold"), "  ", (words, "dim"), "  ", status))


def _print_verdict(out: Page, found: Summary) -> None:
    out.print()
    for number, line in enumerate(_wrapped(printable(found.verdict), out.width - 2)):
        out.print(Text(("> " if number == 0 else "  ") + line, "bold"))


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=True) or [""]


def _on_threads(found: Summary) -> bool:
    """Whether training threads stand in for a device on every rank."""
    return bool(found.devices) and all(d.device_type == "cpu" and d.device_index is None for d in found.devices)


def _print_states(out: Page, found: Summary) -> None:
    """One bar per device, of its mean steady step or else of its window; then the legend over all of them."""
    if not found.devices:
        return
    steady = found.overall_steady is not None
    title = found.part[:1].upper() + found.part[1:] or ("The steady step" if steady else "The whole recording")
    out.heading(title, _states_note(found))
    shown = _shown_devices(found.devices)
    labels = [_device_words(device, found) for device in shown]
    width = max(map(len, labels))
    waits = {rank: f"  waits {duration(ns)}" for rank, ns in found.waits_of_rank.items()} if len(shown) > 1 else {}
    bar_width = out.width - width - 14 - 14 - max(map(len, waits.values()), default=0)
    for label, device in zip(labels, shown, strict=True):
        part = device.steady or device.window
        length = device.step_mean_ns or part.window_ns
        line = Text(f"  {label:<{width}} {duration(length):>8}  ")
        line.append_text(state_bar(_parts(part), bar_width, unicode=out.unicode))
        line.append(f"  busy {share(part.busy_ns, part.window_ns)}{waits.get(device.rank, '')}")
        out.print(line)
    if len(found.devices) > len(shown):
        out.print(f"  ... {plural(len(found.devices) - len(shown), 'more device')}: `stallscope steps` has all")
    whole = found.overall_steady or found.overall
    parts = sum(device.steady_steps for device in found.devices) if steady else len(found.devices)
    for line in legend(_parts(whole, parts), unicode=out.unicode, width=out.width - 2):
        out.print(Text("  ").append_text(line))
    _print_cold_start(out, found)


def _print_cold_start(out: Page, found: Summary) -> None:
    """What the slowest rank's first steps cost, apart from everything above."""
    if not found.cold_starts:
        return
    start = max(found.cold_starts, key=lambda one: one.total_ns)
    whose = f" on rank {start.rank}" if len(found.ranks) > 1 else ""
    steady = f" (a steady one takes {duration(start.steady_step_ns)})" if start.steady_step_ns is not None else ""
    took = f"{plural(start.steps, 'step')} took {duration(start.total_ns)}{steady}"
    out.print(f"  Cold start, not counted above{whose}: {took}.")


def _states_note(found: Summary) -> str:
    whose = "the training threads" if _on_threads(found) else "the device" if len(found.devices) == 1 else "each device"
    if found.part:
        return f"as {whose} ran it"
    if found.overall_steady is None:
        return f"from the first to the last operation of {whose}"
    steps = max(device.steady_steps for device in found.devices)
    if steps == 1:
        return f"the only one, as {whose} ran it"
    medians = [device.step_median_ns for device in found.devices if device.step_median_ns is not None]
    slowest = "median" if len(found.devices) == 1 else "median of the slowest"
    return f"mean of {plural(steps, 'step')} as {whose} ran them; {slowest} {duration(max(medians))}"


def _parts(states: States, divisor: int = 1) -> dict[str, int]:
    return {state: round(getattr(states, f"{state}_ns") / max(divisor, 1)) for state in FILLS}


def _shown_devices(devices: tuple[DeviceSummary, ...]) -> list[DeviceSummary]:
    """All, in the order of ranks, where they fit; else those that stall longest."""
    if len(devices) <= DEVICES_SHOWN:
        return list(devices)
    return sorted(devices, key=lambda device: -device.window.stall_ns)[:DEVICES_SHOWN]


def _device_words(device: DeviceSummary, found: Summary) -> str:
    own = name(device.device_type, 10) + (f" {device.device_index}" if device.device_index is not None else " threads")
    return f"rank {device.rank} {own}" if len(found.ranks) > 1 or device.rank else own


def _print_stalls(out: Page, found: Summary) -> None:
    """The largest stalls of the rank in focus, with their share of its time."""
    per_step = bool(found.stalls) and found.stalls[0]["per_step_ns"] is not None
    whole = _focus_time(found, steady=per_step)
    shown = [row for row in found.stalls if row["dur"] * WORTH_SHOWING >= whole][:STALLS_SHOWN]
    if not shown:
        return
    waited = "the training threads" if _on_threads(found) else "the device"
    where = f"rank {found.focus_rank}, " if len(found.ranks) > 1 else ""
    out.heading(f"Why {waited} waited", f"{where}by root cause and line")
    fields = [
        duration_field("per_step_ns" if per_step else "dur", "each step" if per_step else "in all"),
        count_field("count", "times"),
        duration_field("longest_ns", "longest"),
        word_field("root_cause", "root cause"),
        line_field(2),
        name_field("function", "in"),
    ]
    if not any(row["file"] for row in shown):
        fields = fields[:-2]
    rows = [[share(row["dur"], whole), *(field.cell(row) for field in fields)] for row in shown]
    print_table(out, [number_column("share"), *(field.column for field in fields)], rows, indent=2)


def _focus_time(found: Summary, *, steady: bool) -> int:
    """The time that the stalls of the rank in focus are a part of, ns."""
    mine = [device for device in found.devices if device.rank == found.focus_rank]
    parts = [device.steady if steady and device.steady is not None else device.window for device in mine]
    return max(1, sum(part.window_ns for part in parts))


def _print_work(out: Page, found: Summary) -> None:
    """Kernels at the left and ops at the right; ops alone where no device did any work."""
    kernels = [
        duration_field("total_ns", "time"),
        share_field("busy_frac", "of busy"),
        name_field("short_name", "kernel"),
    ]
    on_device = [duration_field("device_self_ns", "device")] if found.kernels else []
    ops = [*on_device, duration_field("host_self_ns", "host"), name_field("op", "op")]
    if not found.kernels and not found.ops:
        return
    where = f"rank {found.focus_rank}, " if len(found.ranks) > 1 else ""
    title = "Kernels and ops" if found.kernels and found.ops else "Kernels" if found.kernels else "Ops"
    out.heading(title, f"{where}sums over {found.kernels_of}")
    if not (found.kernels and found.ops):
        rows, fields = (found.kernels, kernels) if found.kernels else (found.ops, ops)
        print_table(out, *_cells(rows[:WORK_SHOWN], fields), indent=2)
        return
    half = (out.width - 4) // 2
    left = table_lines(*_cells(found.kernels[:WORK_SHOWN], kernels), half)
    right = table_lines(*_cells(found.ops[:WORK_SHOWN], ops), half)
    for index in range(max(len(left), len(right))):
        line = Text("  ").append_text(left[index] if index < len(left) else Text())
        line.append(" " * (half + 4 - line.cell_len))
        out.print(line.append_text(right[index]) if index < len(right) else line)


def _cells(rows: Sequence[dict[str, Any]], fields: Sequence[Field]) -> tuple[list[Column], list[list[Any]]]:
    return [field.column for field in fields], [[field.cell(row) for field in fields] for row in rows]


def _print_footer(out: Page, found: Summary) -> None:
    lines = [*_memory_lines(found), *_collective_lines(found)]
    if any(found.losses.values()):
        badge = ", ".join(f"{count(n)} {kind.replace('_', ' ')}" for kind, n in found.losses.items() if n)
        lines.append(("Losses", f"{badge}: `stallscope info` lists them"))
    lines += [("Note", printable(note)) for note in found.notes]
    if lines:
        out.print()
    for title, text in lines:
        for number, part in enumerate(_wrapped(text, out.width - 13)):
            out.print(Text.assemble((f"{title if number == 0 else '':<13}", "bold"), part))


def _memory_lines(found: Summary) -> list[tuple[str, str]]:
    """The largest peak of a device, and of the host where there is no other."""
    peaks = [peak for peak in found.memory if peak.device_index is not None] or list(found.memory)
    if not peaks:
        return []
    largest = max(peaks, key=lambda peak: peak.peak_allocated_bytes)
    index = largest.device_index
    where = "the host" if index is None else f"{name(largest.device_type, 16)} {index}"
    text = f"peak {size(largest.peak_allocated_bytes)} on {where}"
    text += f" of rank {largest.rank}" if len(found.ranks) > 1 else ""
    text += f", {size(largest.peak_reserved_bytes)} reserved" if largest.peak_reserved_bytes else ""
    text += "" if largest.basis == "allocator" else ", counting only what was allocated while recording"
    return [("Memory", text)]


def _collective_lines(found: Summary) -> list[tuple[str, str]]:
    """Waiting apart from transfer, and whom it was for."""
    waits = found.collectives
    if waits is None:
        return []
    if waits.wait_for_peer_ns is None or waits.transfer_ns is None or len(found.waits_of_rank) < 2:
        reason = f": {printable(waits.reason)}" if waits.reason else ""
        return [("Collectives", f"{duration(waits.total_ns)} in {plural(waits.parts, 'collective')}{reason}")]
    least = "at least " if waits.lower_bound else ""
    waited = f"{least}{duration(waits.wait_for_peer_ns)} ({share(waits.wait_for_peer_ns, waits.total_ns)})"
    peers = [f"rank {rank} {duration(ns)}" for rank, ns in list(found.waits_for_rank.items())[:3]]
    text = f"{duration(waits.total_ns)} over all ranks, {waited} of it waiting for the last rank to arrive"
    text += f" ({', '.join(peers)}), {duration(waits.transfer_ns)} transfer"
    text += f"; clocks compared within {duration(waits.error_ns // max(waits.parts, 1))}" if waits.error_ns else ""
    return [("Collectives", text)]


def _print_findings(out: Page, findings: tuple[Finding, ...]) -> None:
    if not findings:
        return
    out.heading("What to do", "by the time that it would give back")
    for number, finding in enumerate(findings, start=1):
        gain = _gain(finding)
        title = printable(finding.title)
        fits = 5 + len(title) + 2 + len(gain) <= out.width
        out.print(Text.assemble(f"  {number}. ", (title, "bold"), (f"  {gain}" if fits else "", "yellow")))
        if not fits:
            out.print(Text(f"     {gain}", "yellow"))
        if number > FINDINGS_IN_FULL:
            continue
        place = f"{source_line(finding.file, finding.line, 50)}: " if finding.file else ""
        for line in _wrapped(place + printable(finding.evidence), out.width - 5):
            out.print(f"     {line}")
        for index, line in enumerate(_wrapped(printable(finding.advice), out.width - 8)):
            out.print(f"     {'->' if index == 0 else '  '} {line}")


def _gain(finding: Finding) -> str:
    """How much time it would give back, and which share that is; empty for what costs no time."""
    if not finding.gives_back_ns:
        return ""
    of = "of each step" if finding.per == "step" else "of the time"
    return f"{duration(finding.gives_back_ns)} {of} ({share(finding.share_frac, 1)})"
