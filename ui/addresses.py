"""The address of each view: what it shows is in the query, so that pasting it shows the same again."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import parse_qsl, urlencode

VIEWS = {
    "overview": "Overview",
    "timeline": "Timeline",
    "stalls": "Stalls",
    "dependencies": "Dependencies",
    "hierarchy": "Hierarchy",
    "memory": "Memory",
    "source": "Source",
    "kernels": "Kernels",
    "ops": "Ops",
    "compare": "Compare",
    "sql": "SQL",
}
"""The views by the name that addresses use, as the navigation shows them."""

LONGEST = 20_000
"""Of more characters than this an address says nothing."""

_KEPT = ("recording", "rank", "step")
"""What a link keeps of the address it stands on."""


def parsed(search: str | None) -> dict[str, str]:
    """The query of an address as a dictionary; of a repeated key the last counts."""
    return dict(parse_qsl((search or "").removeprefix("?"), max_num_fields=50)) if len(search or "") < LONGEST else {}


def address(view: str, query: Mapping[str, object] | None = None, /, **values: object) -> str:
    """The address of a view of the same recording.

    Args:
        view: A key of ``VIEWS``.
        query: The address's query that the link stands on: the recording, rank and step are kept.
        values: What else it shows; None leaves it out, and also what would be kept.
    """
    kept = {name: query[name] for name in _KEPT if query.get(name)} if query else {}
    given = {name: value for name, value in (kept | values).items() if value is not None}
    return "?" + urlencode({"view": view, **given})
