"""``stallscope why``: one stall, from the idle device back to the line of source."""

from __future__ import annotations

import textwrap
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from .command import described
from .options import UNITS_NS, Instant, json_option, parse_instant, ranks_option

if TYPE_CHECKING:
    from ..analysis.why import Chain
    from ..profiler.recording.reader import Recording
    from .rendering.page import Page

LARGEST_ID = 1 << 60
"""Bare numbers below this are slice ids, and from here on ns on the recording's clock."""

_ROLES = {"device": "device", "host": "host", "root": "before that", "second": "also"}
_SOURCES = {
    "stack": "from the stack taken there",
    "source": "from the calls in the source text",
    "sample": "from samples",
    "function": "the function's def: the line that ran is not recorded",
}


@described(
    "why",
    short="Why one stall happened, link by link.",
    examples=(
        ("The longest stall", "stallscope why --largest runs/today"),
        ("What the device waited for 12.3 ms into its window", "stallscope why +12.3ms runs/today"),
        ("Why the kernel with this slice id started late", "stallscope why 34359763577 runs/today"),
    ),
    output_keys={
        "rank": "of the device",
        "device_type": "of the device",
        "device_index": "of the device; null: threads in a device's place",
        "step": "the step that the device was in; null outside of all",
        "ts": "when the device had nothing more to do, ns",
        "dur": "until it had, ns",
        "origin_ns": "what offsets count from: the start of the device's window",
        "state": "stall or data_movement",
        "cause": "what the host or the device did in most of that time",
        "root_cause": "why the queue was empty",
        "co_cause": "a second cause without which the stall would also be gone; null for none",
        "links": "list of {role (device, host, root, second), text, slice_id, ts, dur}: the chain",
        "file": "behind the root cause; null where not known",
        "line": "its number",
        "function": "its function",
        "line_source": "stack, source, sample (the line that ran) or function (the line of its def)",
        "evidence": "slice ids",
        "confidence": "low, medium or high",
        "reason": 'why it is not known, or not certain; "" otherwise',
        "same_count": "pieces of this device's stalls with the same root cause and line",
        "same_dur": "how long they last together, ns",
        "kind": "what a finding about it is called; null for none",
        "advice": "one thing to try",
    },
)
@click.argument("target", metavar="[SLICE|+TIME|NS]", required=False)
@click.argument("sources", metavar="RECORDING|TRACE...", nargs=-1, type=click.Path(path_type=Path))
@click.option("--largest", is_flag=True, help="The longest stall, instead of one by its slice or time.")
@ranks_option
@json_option
def command(
    target: str | None, sources: tuple[Path, ...], largest: bool, ranks: tuple[int, ...] | None, as_json: bool
) -> None:
    """Tell one stall from the idle device back to the line of source.

    What the device waited for, what the host did meanwhile, why the queue was empty, on what evidence,
    and one thing to try.

    Which stall: the slice id of the operation that ended it or of the host's slice behind it; a time in
    it, as +12.3ms since the device's first operation or as ns on the recording's clock; or --largest.
    """
    from .opening import opened
    from .rendering.page import page

    if largest and target is not None:
        sources = (Path(target), *sources)
    elif target is None or not sources:
        raise click.UsageError("name a stall by its slice or time and then the recording, or use --largest.")
    recording = opened(sources)
    chain = _chain(recording, None if largest else target, ranks)
    if as_json:
        from .rendering.json_output import print_json

        print_json(asdict(chain))
    else:
        _print(page(), recording, chain)


def _chain(recording: Recording, target: str | None, ranks: tuple[int, ...] | None) -> Chain:
    from ..analysis.device_activity import rank_activity
    from ..analysis.why import why_at, why_largest, why_slice

    for rank in ranks or ():
        recording.attempts(rank)  # says which ranks there are if this is none of them
    if target is None:
        return why_largest(recording, ranks=ranks)
    asked = _target(target)
    if isinstance(asked, int):
        return why_slice(recording, asked)
    if asked.absolute:
        return why_at(recording, asked.ns, ranks=ranks)
    windows = [d.window for rank in ranks or recording.ranks for d in rank_activity(recording, rank).devices]
    return why_at(recording, min((window[0] for window in windows), default=0) + asked.ns, ranks=ranks)


def _target(text: str) -> int | Instant:
    """A slice id, or an instant.

    Raises:
        click.BadParameter: It is neither.
    """
    try:
        instant = parse_instant(text.removeprefix("+"))
    except ValueError:
        instant = None
    if instant is None:
        raise click.BadParameter(
            f"'{text}' is no slice id, no time such as +12.3ms ({', '.join(UNITS_NS)}), and no ns on the clock.",
            param_hint="SLICE|+TIME|NS",
        )
    if text.startswith("+"):
        return Instant(instant.ns, absolute=False)
    return instant.ns if instant.absolute and instant.ns < LARGEST_ID else instant


def _print(out: Page, recording: Recording, chain: Chain) -> None:
    from .rendering.numbers import duration, plural

    who = f"rank {chain.rank}, " if len(recording.ranks) > 1 else ""
    device = chain.device_type + (f" {chain.device_index}" if chain.device_index is not None else "")
    step = f", step {chain.step}" if chain.step is not None else ""
    began = _offset(chain.ts - chain.origin_ns)
    out.print(f"{duration(chain.dur)} from {began} on {who}{device}{step}: {chain.root_cause}")
    out.print()
    on_threads = chain.device_index is None and chain.device_type == "cpu"
    for link in chain.links:
        when = "" if link.ts is None else _offset(link.ts - chain.origin_ns)
        role = "threads" if link.role == "device" and on_threads else _ROLES[link.role]
        _paragraph(out, f"{role:<12}{when:<12}", _sentence(link.text), _slice(link.slice_id))
    _line(out, recording, chain)
    out.print()
    second = f"; second cause {chain.co_cause}" if chain.co_cause else ""
    _paragraph(out, "cause       ", f"{chain.cause}; root cause {chain.root_cause}{second}")
    sure = chain.confidence + (f": {chain.reason}" if chain.reason else "")
    _paragraph(out, "confidence  ", sure)
    _paragraph(out, "evidence    ", "slices " + ", ".join(map(str, chain.evidence)) if chain.evidence else "none")
    same = f"{duration(chain.same_dur)} in {plural(chain.same_count, 'piece')} with this root cause and line"
    _paragraph(out, "in all      ", same)
    if chain.advice:
        _paragraph(out, "try         ", chain.advice)


def _line(out: Page, recording: Recording, chain: Chain) -> None:
    from .rendering.source_text import source_text
    from .rendering.text import name, printable, source_line

    if chain.file is None:
        _paragraph(out, "line        ", "not known: record with the sampler or with stacks")
        return
    said = _SOURCES.get(chain.line_source or "", "")
    function = name(chain.function, 40)
    _paragraph(out, "line        ", f"{source_line(chain.file, chain.line, 60)} in {function} ({said})")
    text = source_text(recording, chain.file, chain.line)
    if text:
        out.print(" " * 16 + printable(text)[: out.width - 17])


def _paragraph(out: Page, label: str, text: str, end: str = "") -> None:
    """A label and a text wrapped beside it."""
    from .rendering.text import printable

    indent = " " * len(label)
    whole = printable(f"{text}{'  ' + end if end else ''}")
    for line in textwrap.wrap(whole, out.width - 1, initial_indent=label, subsequent_indent=indent):
        out.print(line)


def _sentence(text: str) -> str:
    from .rendering.text import shortened

    words = [shortened(word, 60) for word in text.split(" ")]
    return " ".join(words)


def _slice(slice_id: int | None) -> str:
    return f"[{slice_id}]" if slice_id is not None else ""


def _offset(ns: int) -> str:
    return f"{'-' if ns < 0 else '+'}{abs(ns) / 1e6:.3f}ms"
