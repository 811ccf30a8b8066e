"""The strip beneath the bar of a recording that is still written: how it is, and a button that shows what is new.

The page itself never changes by itself: it stays with the state that its address names until the button is pressed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import dash
from dash import Input, Output, State, dcc, html

from ...analysis.recording_facts import recording_facts
from ...profiler.recording.errors import StallscopeError
from ..addresses import address, parsed
from ..open_recordings import News, OpenRecordings
from ..served import Served
from .parts import leads, section

POLL_MS = 2_000
"""How often a page asks how a running recording is."""

_TIMES = ("start", "end", "at")
"""What an address says in ns from the start of the recording."""

_GONE = "Gone: its folder was removed, emptied or recorded into anew."

_ENDED = {
    "completed": "Completed",
    "failed": "Failed: the program ended with an error",
    "killed": "Killed: its process is gone",
    "unknown": "No sign of life, and nobody can tell whether it runs",
}


def strip() -> html.Div:
    """The strip, empty and hidden until there is something to say."""
    return html.Div(
        [
            html.Span(id="run-words"),
            html.Button(id="show-newer", className="button", hidden=True),
            dcc.Interval(id="watch", interval=POLL_MS, disabled=True),
            dcc.Store(id="asked-newer"),
            dcc.Store(id="shown"),
        ],
        id="run-state",
        className="run-state",
        hidden=True,
    )


def nothing_yet() -> html.Div:
    """The page of a recording that no rank has written anything to."""
    words = html.P("No rank has written anything yet.", className="note")
    return html.Div(section("Nothing is recorded so far", words), className="page")


def no_longer_there(served: Served) -> html.Div:
    """The page of a recording whose files were removed."""
    words = f"{served.label}: {_GONE.removeprefix('Gone: ')}"
    return html.Div(section("The recording is gone", html.P(words, className="note")), className="page")


def register(app: dash.Dash, recordings: OpenRecordings) -> None:
    """Asks how the recording is, and goes to its newest state when the button is pressed."""

    @app.callback(
        Output("run-state", "hidden"),
        Output("run-words", "children"),
        Output("show-newer", "children"),
        Output("show-newer", "hidden"),
        Output("show-newer", "disabled"),
        Output("watch", "disabled"),
        Input("watch", "n_intervals"),
        Input("shown", "data"),
        State("show-newer", "disabled"),
    )
    def watch(turns: int | None, key: str | None, opening: bool | None) -> Any:
        state = _state(recordings, key)
        # A button that was pressed waits for the page, not for the next look.
        pressed = opening and dash.ctx.triggered_id == "watch"
        button = [dash.no_update] * 3 if pressed else [state.button, not state.button, False]
        return not state.words, state.words, *button, not state.goes_on

    _register_newer(app, recordings)


def _register_newer(app: dash.Dash, recordings: OpenRecordings) -> None:
    in_browser: Any = app.clientside_callback
    in_browser(
        dash.ClientsideFunction("stallscope_page", "ask_newer"),
        Output("asked-newer", "data"),
        Output("show-newer", "children", allow_duplicate=True),
        Output("show-newer", "disabled", allow_duplicate=True),
        Input("show-newer", "n_clicks"),
        prevent_initial_call=True,
    )

    @app.callback(
        leads(),
        Output("show-newer", "disabled", allow_duplicate=True),
        Output("run-words", "children", allow_duplicate=True),
        Input("asked-newer", "data"),
        prevent_initial_call=True,
    )
    def show_newer(asked: dict[str, Any] | None) -> Any:
        query = parsed(asked["search"]) if asked else {}
        before = recordings.shown(query.get("recording"))
        try:
            newer = recordings.source(query.get("recording")).advance()
        except (StallscopeError, OSError) as error:
            return dash.no_update, False, f"It cannot be opened anew: {error}"
        return (
            (dash.no_update, False, dash.no_update)
            if newer is before
            else (address_in(newer, before, query), dash.no_update, dash.no_update)
        )


@dataclass(frozen=True, slots=True)
class StripState:
    """What the strip says: nothing where ``words`` is "", no button where ``button`` is."""

    words: str = ""
    button: str = ""
    goes_on: bool = False


def _state(recordings: OpenRecordings, key: str | None) -> StripState:
    """The strip of the page that shows the state of this key; None for a page about no recording."""
    if key is None:
        return StripState()
    source, served = recordings.source(key), recordings.shown(key)
    older = served is not source.latest or key in source.retired
    if not source.readable:
        return StripState(_GONE)
    news = source.news()
    if news is None:
        return (
            StripState("It has ended since; this is what it was before.", "Show everything") if older else StripState()
        )
    words, button = words_of(news, recording_facts(served.recording).steps, older=older)
    return StripState(words, button, news.running)


def words_of(news: News, steps: int, *, older: bool = False) -> tuple[str, str]:
    """What the strip says, and its button; "" where there is nothing more to show.

    Args:
        news: What became of the recording.
        steps: How many steps the page shows.
        older: Whether a newer state than the page's is open already.
    """
    more = news.facts.steps - steps
    shown = f"{steps:,} of {news.facts.steps:,} steps shown" if more > 0 else f"{steps:,} steps, all shown"
    if not news.there:
        return _GONE, ""
    if not news.statuses:
        return "No rank has written anything yet.", ""
    if not news.running:
        worst = next(status for status in ("killed", "failed", "unknown", "completed") if status in news.statuses)
        every = f" ({statuses_text(news.statuses)})" if len(news.statuses) > 1 else ""
        return f"{_ENDED[worst]}{every} · {shown}", "Show everything"
    words = [statuses_text(news.statuses).capitalize(), f"heartbeat {age_text(news)}", shown]
    if not (news.grew or older):
        return " · ".join(words), ""
    steps_more = f"{more:,} new step{'s' if more > 1 else ''}"
    return " · ".join(words), f"Show {steps_more}" if more > 0 else "Show new data"


def age_text(news: News) -> str:
    """How long ago the running rank that is silent for longest gave a sign, in whole seconds."""
    if news.heartbeat_ns is None:
        return "not known"
    return f"{max(0, time.time_ns() - news.heartbeat_ns) // 1_000_000_000} s ago"


def statuses_text(statuses: Mapping[str, int]) -> str:
    """``running``; with several ranks ``completed (3), running (1)``."""
    several = sum(statuses.values()) > 1
    return ", ".join(f"{status} ({count})" if several else status for status, count in sorted(statuses.items()))


def address_in(newer: Served, before: Served, query: Mapping[str, str]) -> str:
    """The address that shows in a newer state what another address shows in an earlier one.

    Times count from the first event, which a file that comes late may move; a stall that is no longer the same is left
    out, and so are times where the earlier state is no longer open.
    """
    # Counters are numbered anew: more of them may have begun.
    kept = {name: value for name, value in query.items() if name not in ("view", "recording", "counter")}
    known = before.key == query.get("recording", before.key)
    for name in _TIMES:
        if name in kept:
            moved = str(int(kept[name]) + before.origin - newer.origin) if known and kept[name].isdecimal() else ""
            kept = {key: value for key, value in kept.items() if key != name} | ({name: moved} if moved else {})
    if "stall" in kept and not (known and _same_stall(newer, before, kept["stall"])):
        del kept["stall"]
    return address(query.get("view", "overview"), None, recording=newer.key, **kept)


def _same_stall(newer: Served, before: Served, text: str) -> bool:
    places = []
    for served in (before, newer):
        entry = served.bands.entry_of_stall(int(text)) if text.isdecimal() and len(text) < 19 else None
        index = served.bands.index
        places.append(None if entry is None else (int(index.start[entry]), int(index.end[entry])))
    return places[0] is not None and places[0] == places[1]
