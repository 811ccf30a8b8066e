"""HTML whose text is always text: what is not made here is escaped, so no name can become a tag.

Control characters and lone surrogates, which no HTML file may hold, become U+FFFD.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence

Content = object
"""A ``Markup``, a text or number, None (nothing), or a list of these."""

_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")
_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9-]*")
_VOID = frozenset({"meta", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def element(tag: str, *children: Content, **attributes: object) -> Markup:
    """An element with what is in it.

    Args:
        tag: Its name.
        children: What it holds: text is escaped, None left out, lists are laid out one after the other.
        attributes: Its attributes: ``class_`` for class, ``_`` within a name stands for ``-``; None is left out.

    Raises:
        ValueError: The name of the tag or of an attribute is none.
    """
    named = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    if not all(_NAME.fullmatch(name) for name in (tag, *named)):
        raise ValueError(f"{tag!r} with {sorted(named)} is no element")
    listed = "".join(f' {name}="{_escaped(str(value))}"' for name, value in named.items())
    if tag in _VOID:
        return Markup(f"<{tag}{listed}>")
    return Markup(f"<{tag}{listed}>{''.join(_pieces(children))}</{tag}>")


def joined(*children: Content) -> Markup:
    """Several pieces one after the other."""
    return Markup("".join(_pieces(children)))


def table(head: Sequence[Content], rows: Iterable[Sequence[Content]], *, numbers: Sequence[int] = ()) -> Markup:
    """A table; the columns in ``numbers`` are set to the right."""

    def cells(tag: str, row: Sequence[Content]) -> Markup:
        kinds = ("number" if column in numbers else None for column in range(len(row)))
        return element("tr", [element(tag, cell, class_=kind) for cell, kind in zip(row, kinds, strict=True)])

    body = element("tbody", [cells("td", row) for row in rows])
    return element("table", element("thead", cells("th", head)), body)


def section(title: str, *children: Content, note: str = "") -> Markup:
    """A part of the page under a title."""
    return element("section", element("h2", title), element("p", note, class_="note") if note else None, *children)


def _pieces(children: Iterable[Content]) -> Iterable[str]:
    for child in children:
        if child is None:
            continue
        if isinstance(child, Markup):
            yield child
        elif isinstance(child, list | tuple):
            yield from _pieces(child)
        else:
            yield _escaped(str(child))


def _escaped(text: str) -> str:
    return html.escape(_FORBIDDEN.sub("\ufffd", text), quote=True)
