"""The Python side of the graph of a chain: a Dash component whose script is ui/timeline/src/graph.js."""

from __future__ import annotations

from typing import Any

from dash.development.base_component import Component

_PROPERTIES = ("id", "nodes", "arrows", "picked", "chosen")


class StallscopeGraph(Component):
    """Boxes in columns with arrows between them, walked with the arrow keys.

    Args:
        id: The component's id.
        nodes: Boxes {key, hop, main, title, detail, category}; boxes of one hop are one column.
        arrows: {from, to, label, decided}, by the boxes' keys.
        picked: The key of the box that the graph is about.
        chosen: The key of the box that was clicked, or that Enter was pressed on. Set by the user.
    """

    _children_props: list[str] = []  # noqa: RUF012 - so that Dash declares them
    _base_nodes: list[str] = ["children"]  # noqa: RUF012
    _namespace = "stallscope_timeline"
    _type = "StallscopeGraph"

    def __init__(self, id: str, **properties: Any) -> None:
        self._prop_names = list(_PROPERTIES)
        self._valid_wildcard_attributes: list[str] = []
        self.available_properties = list(_PROPERTIES)
        self.available_wildcard_properties: list[str] = []
        super().__init__(id=id, **properties)  # type: ignore[no-untyped-call]
