"""Strings, numbers and time stamps of damaged JSON: what each piece of text means.

The native scanner does the same in ``text.hpp``; a change here is a change there.
"""

from __future__ import annotations

import re
from json.encoder import encode_basestring

MAX_TOKEN = 1000
"""The longest number or word that is read."""

INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.|\Z)", re.DOTALL)
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_WINDOWS_PATH = re.compile(r'[A-Za-z]:\\[^\\"]')
_CONTROL = re.compile(rb"[\x00-\x1f]")
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")

_JSON_NUMBER = re.compile(rb"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_INTEGER = re.compile(rb"-?[0-9]{1,20}")
_DECIMAL = re.compile(rb"([+-]?)([0-9]*)(?:\.([0-9]*))?(?:[eE]([+-]?[0-9]+))?")
_NOT_FINITE = re.compile(rb"[+-]?(?:nan|inf|infinity|nan\((?:ind|snan)\)|1\.#(?:inf|qnan|snan|ind))", re.IGNORECASE)
_WORDS = {b"true": "true", b"false": "false", b"null": "null"}
_PYTHON_WORDS = {b"True": "true", b"False": "false", b"None": "null"}


def decode_string(body: bytes, notes: list[str]) -> tuple[str, bool]:
    r"""Returns the text between two quotes, and whether its escapes had to be repaired.

    A string with an escape that JSON does not know, or that begins like a Windows path (``C:\t``), was written by
    someone who does not escape backslashes: every backslash stands for itself, but in ``\"``, ``\\`` and ``\u0041``.
    Bytes that are not UTF-8, and half surrogate pairs, become U+FFFD.

    Args:
        body: The bytes between the quotes.
        notes: Where kinds of damage are added, each at most once.
    """
    repaired = broken = False
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = body.decode(errors="replace")
        broken = True
    if "\\" in text:
        text, repaired, lone = _unescape(text)
        broken = broken or lone
    if _CONTROL.search(body):
        notes.append("control_character")
    if broken:
        notes.append("bad_utf8")
    return text, repaired


def _unescape(text: str) -> tuple[str, bool, bool]:
    """Returns the text with its escapes resolved, whether it was repaired, and whether it had half a surrogate pair."""
    literal = _WINDOWS_PATH.match(text) is not None or any(
        len(escape) != 5 and escape not in _ESCAPED for escape in _ESCAPE.findall(text)
    )
    known = {'"': '"', "\\": "\\"} if literal else _ESCAPED

    def resolve(match: re.Match[str]) -> str:
        escape = match[1]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        return known.get(escape, match[0])

    text = _ESCAPE.sub(resolve, text)
    lone = False
    if _SURROGATE.search(text):
        text = _SURROGATE_PAIR.sub(lambda pair: pair[0].encode("utf-16", "surrogatepass").decode("utf-16"), text)
        text, replaced = _SURROGATE.subn("\ufffd", text)
        lone = replaced > 0
    return text, literal, lone


def json_string(text: str) -> str:
    """Returns a text as a JSON string."""
    return encode_basestring(text)


def word_json(token: bytes, notes: list[str]) -> str:
    """Returns what stands for a number or word in JSON: itself where it is valid, else null or a string."""
    if _JSON_NUMBER.fullmatch(token):
        return token.decode()
    word = _WORDS.get(token)
    if word is not None:
        return word
    if _NOT_FINITE.fullmatch(token):
        notes.append("not_finite")
        return "null"
    notes.append("bad_value")
    return _PYTHON_WORDS.get(token) or json_string(token.decode(errors="replace"))


def integer(token: bytes, column: str) -> int | None:
    """Returns an integer that fits its column, ``address`` as the int64 of the same bits, else None."""
    if not _INTEGER.fullmatch(token):
        return None
    value = int(token)
    if column == "address" and INT64_MAX < value < 1 << 64:
        return value - (1 << 64)
    return value if INT64_MIN <= value <= INT64_MAX else None


def nanoseconds(token: bytes, notes: list[str]) -> int | None:
    """Returns decimal microseconds as integer ns, truncated toward zero, without any float; None if that is no time."""
    match = _DECIMAL.fullmatch(token) if len(token) <= MAX_TOKEN else None
    if match is None or not (match[2] or match[3]):
        if token != b"null":
            notes.append("not_finite" if _NOT_FINITE.fullmatch(token) else "bad_time")
        return None
    fraction = match[3] or b""
    digits = (match[2] + fraction).lstrip(b"0")
    # More than any exponent that could still move a digit of a token into range.
    exponent = max(-4000, min(4000, int(match[4] or b"0")))
    shift = exponent + 3 - len(fraction)
    if len(digits) + shift > 19 and digits:
        notes.append("time_overflow")
        return None
    kept = digits + b"0" * shift if shift >= 0 else digits[:shift]
    value = int(kept or b"0") * (-1 if match[1] == b"-" else 1)
    if not INT64_MIN <= value <= INT64_MAX:
        notes.append("time_overflow")
        return None
    return value
