"""The Python side of the timeline: a Dash component whose script is ui/timeline, built into the assets."""

from __future__ import annotations

from .own_component import OwnComponent


class StallscopeTimeline(OwnComponent):
    """The timeline of a recording.

    Args:
        id: The component's id.
        api: The address of the recording's data, without a slash at the end.
        view: ``[start, end]`` in ns from the start of the recording: what is shown; set by the user and by the page.
        picked: The picked slice as the route ``slice`` describes it, or {counter, at}; null for none. Set by the user.
        area: The marked area {start, end, tracks}; null for none. Set by the user.
        theme: ``dark`` or ``light``; the system's where it is not given.
        filter: Only tracks with this text in their label.
        command: What to do once: {pick, band, fit}, {moment, counter}, {area: {start, end, tracks}},
            {view: [start, end]}, {showAll: true} or {step: 1 or -1}.
        mirror: Whether the tracks stand upside down, so that two timelines meet in the middle.
        linked: ``{id, shift}`` of another timeline that moves along, ``shift`` ns later in its own time.
        remember: A name: how the tracks are arranged, and the area, are the same again where one with this name is
            shown next.
        search: The id of the field that the key for a search goes to.
    """

    _children_props: list[str] = []  # noqa: RUF012 - so that Dash declares them
    _base_nodes: list[str] = ["children"]  # noqa: RUF012
    _namespace = "stallscope_timeline"
    _type = "StallscopeTimeline"
    _properties = (
        "id", "api", "view", "picked", "area", "theme", "filter", "command", "search", "mirror", "linked",
        "remember",
    )  # fmt: skip
