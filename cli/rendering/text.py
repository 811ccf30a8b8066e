"""Names from traces, made safe to print and short enough to fit.

A name in a trace is whatever somebody wrote into a file: it may hold escape sequences that recolour or retitle the
terminal, line breaks that forge rows, or characters that reverse the text after them.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""The text with every character that is not printable written as an escape.

    >>> printable("a\x1b[31mb\nc")
    'a\\x1b[31mb\\nc'
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def printable_lines(text: str) -> str:
    """As ``printable``, but line breaks stay: for messages that we wrote ourselves around a name."""
    return "\n".join(printable(line) for line in text.split("\n"))


def shortened(text: str, width: int) -> str:
    """The text in at most ``width`` characters, the middle left out: both ends of a kernel's name tell it apart.

    >>> shortened("vectorized_elementwise_kernel", 20)
    'vectorized_...kernel'
    """
    if len(text) <= width:
        return text
    if width <= 3:
        return text[:width]
    kept = width - 3
    tail = kept * 2 // 5
    return f"{text[: kept - tail]}...{text[len(text) - tail :]}"


def name(text: str | None, width: int) -> str:
    """A name from a trace, safe and at most ``width`` characters; ``-`` where there is none."""
    return "-" if text is None or text == "" else shortened(printable(text), width)


def path_end(path: str, width: int) -> str:
    """A path in at most ``width`` characters: what is left out is at the front, where paths agree.

    >>> path_end("/home/ana/project/train/loop.py", 20)
    '.../train/loop.py'
    """
    safe = printable(path)
    if len(safe) <= width:
        return safe
    tail = safe[len(safe) - max(width - 3, 0) :]
    slash = tail.find("/")
    return f"...{tail[slash:] if 0 <= slash < len(tail) // 2 else tail}"


def source_line(file: str | None, line: int | None, width: int) -> str:
    """``file:line`` in at most ``width`` characters, the file's end kept; ``-`` where the file is not known."""
    if not file:
        return "-"
    suffix = f":{line}" if line is not None else ""
    return f"{path_end(file, width - len(suffix))}{suffix}"
