"""The Python side of the graph of a chain: a Dash component whose script is ui/timeline/src/graph.js."""

from __future__ import annotations

from .own_component import OwnComponent


class StallscopeGraph(OwnComponent):
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
    _properties = ("id", "nodes", "arrows", "picked", "chosen")
