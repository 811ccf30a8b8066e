"""The Python side of a line of text to type into: a Dash component whose script is ui/timeline/src/field.js."""

from __future__ import annotations

from .own_component import OwnComponent


class StallscopeField(OwnComponent):
    """A field that tells the page what was typed when the typing pauses, and never writes while somebody types.

    Args:
        id: The component's id.
        value: The text; set by the user, and by the page when it is another one.
        type: ``text`` or ``search``.
        placeholder: What it is for, shown while it is empty.
        wait: After how many ms without a key ``value`` is told; only at Enter or when it loses the focus by default.
        submits: How often Enter was pressed on a text that was told already. Set by the user.
    """

    _children_props: list[str] = []  # noqa: RUF012 - so that Dash declares them
    _base_nodes: list[str] = ["children"]  # noqa: RUF012
    _namespace = "stallscope_timeline"
    _type = "StallscopeField"
    _properties = ("id", "value", "type", "placeholder", "wait", "submits")
