"""The Python side of the icicle: a Dash component whose script is ui/timeline/src/icicle.js."""

from __future__ import annotations

from .own_component import OwnComponent


class StallscopeIcicle(OwnComponent):
    """A tree of time on a canvas, children beneath their parent.

    Args:
        id: The component's id.
        tree: Columns of equal length, parents first: names, categories, parent (-1 at the top), total and self (ns).
        chosen: The number of the node that was clicked or walked to; -1 for none. Set by the user.
    """

    _children_props: list[str] = []  # noqa: RUF012 - so that Dash declares them
    _base_nodes: list[str] = ["children"]  # noqa: RUF012
    _namespace = "stallscope_timeline"
    _type = "StallscopeIcicle"
    _properties = ("id", "tree", "chosen")
