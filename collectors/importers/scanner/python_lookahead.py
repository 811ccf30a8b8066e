"""Tells whether a quote in a damaged string ends it, by what follows; and what looks like an event or a member.

Each function looks at the bytes of ``data`` from ``at`` to ``end``, a window that is the same wherever the blocks of
the file end. The native scanner does the same in ``lookahead.hpp``; a change here is a change there.
"""

from __future__ import annotations

import re

_S = rb"[ \t\n\r]*"
_TOP_MEMBER = (
    rb'"(?:traceEvents|traceName|schemaVersion|deviceProperties|distributedInfo|displayTimeUnit|baseTimeNanoseconds)"'
    rb"[ \t\n\r]{0,16}:"
)
_EVENT = rb'\{[ \t\n\r]{0,64}"(?:ph|cat|name|ts|pid|tid|dur)"[ \t\n\r]{0,16}:'

EVENT_BEGINS = re.compile(_EVENT)
"""What an event is recognised by after damage."""

RESUME = re.compile(_EVENT + b"|" + _TOP_MEMBER)
"""Where reading may go on after damage: at an event, or at a member of the top level."""

_SPACE = re.compile(_S)
_NEXT_MEMBER = re.compile(_S + rb"," + _S + rb'"[^"\\]*"' + _S + rb":")
_NEXT_ELEMENT = re.compile(_S + rb"," + _S + rb'["\[{0-9+\-.a-zA-Z]')
_TRAILING_COMMA = {b"}": re.compile(_S + rb"," + _S + rb"\}"), b"]": re.compile(_S + rb"," + _S + rb"\]")}
_CLOSING = {b"}": re.compile(_S + rb"\}"), b"]": re.compile(_S + rb"\]")}
_OPENS_MEMBER = re.compile(rb'"(?:ph|cat|name|pid|tid|ts|dur|args|id|s|bp)"' + _S + rb":")
_OPENS_TOP_MEMBER = re.compile(_TOP_MEMBER)
_NESTED_EVENT = re.compile(rb"\{" + _S + rb'"ph"' + _S + rb":")


def next_member(data: bytes, at: int, end: int) -> bool:
    """Whether a comma and a key with its colon come next."""
    return _NEXT_MEMBER.match(data, at, end) is not None


def value_ends(data: bytes, at: int, end: int, closing: bytes, *, last: bool) -> bool:
    """Whether a value may end here, in a container with that closing bracket; ``last``: the file ends at ``end``."""
    following = _NEXT_MEMBER if closing == b"}" else _NEXT_ELEMENT
    if following.match(data, at, end) or _TRAILING_COMMA[closing].match(data, at, end):
        return True
    return closes(data, at, end, closing, last=last)


def closes(data: bytes, at: int, end: int, closing: bytes, *, last: bool) -> bool:
    """Whether a closing bracket comes next, and then a comma, a further bracket, or the end of the file."""
    match = _CLOSING[closing].match(data, at, end)
    if match is None:
        return False
    space = _SPACE.match(data, match.end(), end)
    assert space is not None
    if space.end() == end:
        return last
    return data[space.end()] in b",}]"


def opens_member(data: bytes, at: int, end: int) -> bool:
    """Whether the quote here opens a member that events have."""
    return _OPENS_MEMBER.match(data, at, end) is not None


def opens_top_member(data: bytes, at: int, end: int) -> bool:
    """Whether the quote here opens a member that the top level has."""
    return _OPENS_TOP_MEMBER.match(data, at, end) is not None


def nested_event(data: bytes, at: int, end: int) -> bool:
    """Whether the brace here opens an object whose first member is ``ph``."""
    return _NESTED_EVENT.match(data, at, end) is not None
