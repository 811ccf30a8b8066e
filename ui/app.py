"""The application: one page with a view for each question, the data of the timeline, and the checks on who may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import dash
import flask
from dash import Input, Output, dcc, html

from ..analysis.mapped_files import let_go
from .addresses import VIEWS, address, parsed
from .data_routes import data_routes
from .open_recordings import OpenRecordings
from .scope import named
from .security import protect
from .served import Served
from .sql_queries import csv_route
from .views import (
    compare,
    dependencies,
    hierarchy,
    kernels,
    memory,
    ops,
    overview,
    run_state,
    selectors,
    source,
    sql,
    stalls,
    timeline,
)
from .views import recordings as recording_list
from .wording import how_many

if TYPE_CHECKING:
    from ..profiler.recording.reader import Recording

ASSETS = Path(__file__).resolve().parent / "assets"

_LAYOUTS: dict[str, Callable[[Served, Mapping[str, str]], Any]] = {
    "overview": overview.layout,
    "timeline": timeline.layout,
    "stalls": stalls.layout,
    "dependencies": dependencies.layout,
    "hierarchy": hierarchy.layout,
    "compare": compare.layout,
    "memory": memory.layout,
    "source": source.layout,
    "kernels": kernels.layout,
    "ops": ops.layout,
    "sql": sql.layout,
}
"""What makes the page of each view in ``VIEWS``."""

_LIST = "recordings"
"""The view of all recordings, which is first where there are several."""


def create_app(
    recordings: Sequence[tuple[Recording, str]],
    *,
    newcomers: Callable[[], Sequence[tuple[Recording, str]]] | None = None,
    host: str = "127.0.0.1",
    port: int = 8050,
    token: str | None = None,
) -> dash.Dash:
    """The application for some recordings.

    Args:
        recordings: The recordings with their labels; the first is shown first.
        newcomers: Gives the recordings that came since it was asked last; None where none can come.
        host: The address that it will be bound to: other names in a Host header are refused.
        port: Its port.
        token: What a client has to know; needed where ``host`` is no loopback address.

    Raises:
        ValueError: There is no recording.
    """
    served = OpenRecordings(recordings, newcomers)
    if not served:
        raise ValueError("there is no recording to show")
    app = dash.Dash(
        __name__,
        assets_folder=str(ASSETS),
        assets_ignore=r".*\.map$",
        title="stallscope",
        update_title="",
        serve_locally=True,
        suppress_callback_exceptions=True,
        add_log_handler=False,
    )
    app.layout = _shell
    _register_pages(app, served)
    selectors.register(app, served)
    run_state.register(app, served)
    recording_list.register(app, served)
    timeline.register(app, served)
    stalls.register(app, served)
    dependencies.register(app)
    hierarchy.register(app, served)
    memory.register(app, served)
    kernels.register(app, served)
    ops.register(app, served)
    sql.register(app, served)
    app.server.register_blueprint(data_routes(served))
    app.server.register_blueprint(csv_route(served))
    protect(app.server, host=host, port=port, script_hashes=app.csp_hashes(), token=token)
    _name_the_state(app.server, served)
    app.server.after_request(_give_back)
    return app


def _shell() -> html.Div:
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            dcc.Store(id="go"),
            dcc.Store(id="gone"),
            html.Header(id="bar", className="bar"),
            run_state.strip(),
            html.Main(id="page"),
        ]
    )


def _give_back(response: flask.Response) -> flask.Response:
    """After an area or a search, which look at whole columns."""
    let_go()
    return response


def _name_the_state(server: flask.Flask, recordings: OpenRecordings) -> None:
    """Sends an address that names no state of a recording that grows to the newest one: a page stays with its state."""

    def newest() -> flask.Response | None:
        asked = flask.request.args.get("recording")
        if flask.request.path != "/" or asked in recordings or (asked is None and len(recordings) > 1):
            return None
        source = recordings.source(asked)
        if not source.grows:
            return None
        query = flask.request.args.to_dict() | {"recording": source.advance().key}
        return flask.make_response("", 302, {"Location": f"/?{urlencode(query)}"})

    server.before_request(newest)


def _register_pages(app: dash.Dash, served: OpenRecordings) -> None:
    in_browser: Any = app.clientside_callback
    in_browser(
        dash.ClientsideFunction("stallscope_page", "go"),
        Output("gone", "data"),
        Input("go", "data"),
        prevent_initial_call=True,
    )

    in_browser(
        dash.ClientsideFunction("stallscope_page", "find_line"),
        Output("gone", "data", allow_duplicate=True),
        Input("page", "children"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("bar", "children"), Output("page", "children"), Output("shown", "data"), Input("url", "search")
    )
    def show(search: str | None) -> tuple[Any, Any, str | None]:
        query = parsed(search)
        served.look()
        chosen = named(served, query)
        view = query.get("view", "overview" if len(served) == 1 or "recording" in query else _LIST)
        if view == _LIST:
            there = served.source(chosen.key).readable
            return _bar(served, chosen, view, query, there=there), recording_list.layout(served, query), None
        if not served.source(chosen.key).readable:
            return _bar(served, chosen, view, query, there=False), run_state.no_longer_there(chosen), chosen.key
        if not chosen.recording.ranks:
            return _bar(served, chosen, view, query, there=False), run_state.nothing_yet(), chosen.key
        view = view if view in _LAYOUTS else "overview"
        return _bar(served, chosen, view, query), _LAYOUTS[view](chosen, query), chosen.key


def _bar(
    served: OpenRecordings, chosen: Served, view: str, query: Mapping[str, str], *, there: bool = True
) -> list[Any]:
    links = [
        dcc.Link(label, href=address(name, query), className="view-link chosen" if name == view else "view-link")
        for name, label in VIEWS.items()
    ]
    statuses = {chosen.status(rank) for rank in chosen.recording.ranks if there}
    told = statuses <= {"completed"} or served.source(chosen.key).grows
    badge = [] if told else [html.Span(", ".join(sorted(statuses)), className="badge")]
    label: list[Any] = [html.Span(chosen.label, className="label", title=chosen.label)]
    if len(served) > 1 or served.may_come:
        others = dcc.Link(how_many(len(served), "recording"), href=address(_LIST, query), className="chip")
        label = [html.Span(className="label"), others] if view == _LIST else [*label, others]
    brand = html.Span("stallscope", className="brand")
    scope = [] if view == _LIST or not there else [*badge, *selectors.selectors(chosen, query)]
    return [brand, html.Nav(links, className="views"), *label, *scope]
