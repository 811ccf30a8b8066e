"""Compare: two recordings side by side, their timelines laid at the same step, and what makes the difference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dash import dcc, html

from ...analysis.aligned_steps import AlignedStep, aligned_steps
from ...analysis.compare import Compared, compare
from ...analysis.compare_work import WorkDifference
from ...analysis.run_measures import RunMeasures, run_measures
from ...analysis.same_steps import SteadySteps, shared_steps, steady_steps
from ...analysis.timeline import memoized
from ...profiler.recording.errors import UsageError
from ...profiler.recording.layout import is_recording
from ..addresses import address
from ..scope import Query, chosen_step
from ..served import Served
from ..timeline_component import StallscopeTimeline
from ..wording import duration, place, with_micro
from .parts import section, swatch, table

MOST_ROWS = 12
"""How many rows a table of differences has, the largest first."""

_AROUND_FRAC = 0.08


def layout(served: Served, query: Query) -> html.Div:
    """The page for an address: ``recording`` is the new side, ``base`` the other; ``rank`` and ``step`` to lay at."""
    base = _base(served, query)
    if base is None:
        words = "This page shows what became slower from one recording to another. Start with two, or a folder of them:"
        shown = section("Only one recording is open", html.P(words), html.Pre("stallscope ui runs/before runs/after"))
        return html.Div([html.Div(html.H1("Compare"), className="verdict"), shown], className="page")
    head = _head(served, base, query)
    try:
        steps = shared_steps([_steady(base), _steady(served)])
        found = compare([_measures(base, steps)], [_measures(served, steps)])
    except UsageError as error:
        return html.Div([head, section("Nothing to compare", html.P(str(error)))], className="page")
    rank, step = served.rank_of(query.get("rank")), chosen_step(served, query)
    with served.lock, base.lock:
        laid = aligned_steps(base.recording, served.recording, rank=rank, step=step)
    return html.Div(
        [
            head,
            html.Div([html.H1(with_micro(found.headline)), html.P(with_micro(found.why))], className="verdict"),
            *([html.P(laid.note, className="note")] if laid.note else []),
            html.Div(
                [*_timelines(base, laid.base, served, laid.new)],
                className="mirrored",
            ),
            *_tables(found, served, query),
        ],
        className="page",
    )


def _base(served: Served, query: Query) -> Served | None:
    """The recording to compare with: the one that the address names, else the one before, else the one after."""
    others = [one for one in served.beside.values() if one is not served]
    named = served.beside.get(query.get("base", ""))
    if named is not None and named is not served and is_recording(named.recording.path):
        return named
    keys = list(served.beside)
    before = keys.index(served.key) - 1 if served.key in keys else 0
    return served.beside[keys[before]] if before >= 0 and others else (others[0] if others else None)


def _steady(served: Served) -> SteadySteps:
    with served.lock:
        return steady_steps(served.recording, served.recording.ranks)


def _measures(served: Served, steps: frozenset[int] | None) -> RunMeasures:
    """The measures over the steady steps that both recordings have."""
    with served.lock:
        return memoized(
            served.recording,
            ("ui_measures", steps),
            lambda: run_measures(served.recording, name=served.label, steps=steps),
        )


def _head(served: Served, base: Served, query: Query) -> html.Div:
    others = [one for one in served.beside.values() if one is not served]
    chips = [
        dcc.Link(
            one.label,
            href=address("compare", query, base=one.key),
            className="chip chosen" if one is base else "chip",
        )
        for one in others
    ]
    swap = dcc.Link("Swap", href=address("compare", query, recording=base.key, base=served.key), className="chip")
    return html.Div(
        [html.Span("from", className="dim"), *chips, html.Span("to", className="dim"), html.B(served.label), swap],
        className="chips",
    )


def _timelines(base: Served, before: AlignedStep, new: Served, after: AlignedStep) -> Sequence[Any]:
    """Two timelines of the same length from the same step on; the base's stands upside down, so that devices meet."""
    starts = [before.start - base.origin, after.start - new.origin]
    longest = max(before.end - before.start, after.end - after.start)
    room = int(longest * _AROUND_FRAC) + 1
    shift = starts[1] - starts[0]
    parts = []
    for number, (served, step) in enumerate(((base, before), (new, after))):
        start = starts[number]
        own, other = ("compare-base", "compare-new") if number == 0 else ("compare-new", "compare-base")
        timeline = StallscopeTimeline(
            own,
            api=f"/data/{served.key}/rank/{step.rank}",
            view=[start - room, start + longest + room],
            mirror=number == 0,
            linked={"id": other, "shift": shift if number == 0 else -shift},
        )
        words = f"{served.label}: {_step_words(step)}, {duration(step.end - step.start)}"
        parts += (
            [html.Div(words, className="side"), timeline]
            if number == 0
            else [timeline, html.Div(words, className="side")]
        )
    return parts


def _step_words(step: AlignedStep) -> str:
    return f"rank {step.rank}, " + ("everything" if step.step is None else f"step {step.step}")


def _tables(found: Compared, served: Served, query: Query) -> list[Any]:
    per = f"in the mean {found.unit}"
    parts = [
        [
            swatch(one.cause or one.state),
            "exposed copy" if one.state == "data_movement" and one.cause else one.state.replace("_", " "),
            *_numbers(one.base_ns, one.new_ns, one.difference_ns),
        ]
        for one in found.parts[:MOST_ROWS]
    ]
    places = [
        [
            swatch(one.cause or one.state),
            _place(one, served, query),
            *_numbers(one.base_ns, one.new_ns, one.difference_ns),
        ]
        for one in found.places[:MOST_ROWS]
    ]
    names = ("from", "to", "difference")
    notes = [html.P(words, className="note") for words in found.notes]
    return [
        html.Div(
            [
                section(
                    f"By state and root cause, {per}",
                    table(["root cause or state", "state", *names], parts, numbers=(2, 3, 4)),
                    *notes,
                ),
                section(f"Stalls by line, {per}", table(["root cause", "line", *names], places, numbers=(2, 3, 4))),
            ],
            className="columns below",
        ),
        html.Div(
            [
                section(f"Kernels, {per}", _work(found.kernels, "kernel", device=True)),
                section(f"Ops by time of the host, {per}", _work(found.ops, "op", device=False)),
            ],
            className="columns",
        ),
    ]


def _place(one: Any, served: Served, query: Query) -> Any:
    words = html.Code(place(one.file, one.line, one.function))
    if one.file is None or one.line is None:
        return words
    return dcc.Link(words, href=address("source", query, file=one.file, line=one.line))


def _work(rows: Sequence[WorkDifference], title: str, *, device: bool) -> html.Table:
    def figures(one: WorkDifference) -> tuple[int, int, int]:
        if device:
            return one.base_device_ns, one.new_device_ns, one.device_difference_ns
        return one.base_host_ns, one.new_host_ns, one.host_difference_ns

    largest = sorted(rows, key=lambda one: -abs(figures(one)[2]))[:MOST_ROWS]
    cells = [
        [html.Span(one.short_name, className="mono", title=one.name), _times(one), *_numbers(*figures(one))]
        for one in largest
    ]
    return table([title, "times a step", "from", "to", "difference"], cells, numbers=(1, 2, 3, 4))


def _times(one: WorkDifference) -> str:
    before, after = f"{one.base_count:,.4g}", f"{one.new_count:,.4g}"
    return before if before == after else f"{before} → {after}"


def _numbers(base: int, new: int, difference: int) -> tuple[Any, Any, Any]:
    sign = "" if difference == 0 else "+" if difference > 0 else "−"
    change = html.Span(
        f"{sign}{duration(abs(difference))}",
        className="slower" if difference > 0 else "faster" if difference < 0 else "",
    )
    return duration(base), duration(new), change
