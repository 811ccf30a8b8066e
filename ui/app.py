"""The application: one page with a view for each question, the data of the timeline, and the checks on who may ask."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dash
from dash import Input, Output, dcc, html

from .addresses import VIEWS, address, parsed
from .data_routes import data_routes
from .scope import named
from .security import protect
from .served import Served, labelled
from .sql_queries import csv_route
from .timeline_meta import TimelineTracks
from .views import (
    compare,
    dependencies,
    hierarchy,
    kernels,
    memory,
    ops,
    overview,
    selectors,
    source,
    sql,
    stalls,
    timeline,
)
from .views import recordings as recording_list

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
    recordings: Sequence[tuple[Recording, str]], *, host: str = "127.0.0.1", port: int = 8050, token: str | None = None
) -> dash.Dash:
    """The application for some recordings.

    Args:
        recordings: The recordings with their labels; the first is shown first.
        host: The address that it will be bound to: other names in a Host header are refused.
        port: Its port.
        token: What a client has to know; needed where ``host`` is no loopback address.

    Raises:
        ValueError: There is no recording.
    """
    served = {one.key: one for one in labelled(recordings)}
    if not served:
        raise ValueError("there is no recording to show")
    tracks = {key: TimelineTracks(one) for key, one in served.items()}
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
    recording_list.register(app)
    timeline.register(app, tracks)
    stalls.register(app, served)
    dependencies.register(app)
    hierarchy.register(app, served)
    memory.register(app, served)
    kernels.register(app, served)
    ops.register(app, served)
    sql.register(app, served)
    app.server.register_blueprint(data_routes(tracks))
    app.server.register_blueprint(csv_route(served))
    protect(app.server, host=host, port=port, script_hashes=app.csp_hashes(), token=token)
    return app


def _shell() -> html.Div:
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            html.Header(id="bar", className="bar"),
            html.Main(id="page"),
        ]
    )


def _register_pages(app: dash.Dash, served: Mapping[str, Served]) -> None:
    @app.callback(Output("bar", "children"), Output("page", "children"), Input("url", "search"))
    def show(search: str | None) -> tuple[Any, Any]:
        query = parsed(search)
        chosen = named(served, query)
        view = query.get("view", "overview" if len(served) == 1 or "recording" in query else _LIST)
        if view == _LIST:
            return _bar(served, chosen, view, query), recording_list.layout(served, query)
        view = view if view in _LAYOUTS else "overview"
        return _bar(served, chosen, view, query), _LAYOUTS[view](chosen, query)


def _bar(served: Mapping[str, Served], chosen: Served, view: str, query: Mapping[str, str]) -> list[Any]:
    links = [
        dcc.Link(label, href=address(name, query), className="view-link chosen" if name == view else "view-link")
        for name, label in VIEWS.items()
    ]
    statuses = {chosen.status(rank) for rank in chosen.recording.ranks}
    badge = [html.Span(", ".join(sorted(statuses)), className="badge")] if statuses != {"completed"} else []
    label: list[Any] = [html.Span(chosen.label, className="label", title=chosen.label)]
    if len(served) > 1:
        others = dcc.Link(f"{len(served)} recordings", href=address(_LIST, query), className="chip")
        label = [html.Span(className="label"), others] if view == _LIST else [*label, others]
    brand = html.Span("stallscope", className="brand")
    scope = [] if view == _LIST else [*badge, *selectors.selectors(chosen, query)]
    return [brand, html.Nav(links, className="views"), *label, *scope]
