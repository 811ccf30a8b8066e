"""Durations, bytes, shares and counts as a person reads them. Exact figures are for ``--json``."""

from __future__ import annotations

_UNITS_NS = (("us", 1_000), ("ms", 1_000_000))
_BINARY = ("KiB", "MiB", "GiB", "TiB", "PiB")
ABSENT = "-"


def duration(ns: int | None) -> str:
    """A length of time in three significant digits; ``-`` where it is not known.

    >>> [duration(ns) for ns in (0, 853, 1_234, 999_600, 2_000_000_000, 75_000_000_000)]
    ['0 ns', '853 ns', '1.23 us', '1.00 ms', '2.00 s', '1 min 15 s']
    """
    if ns is None:
        return ABSENT
    sign, ns = ("-", -ns) if ns < 0 else ("", int(ns))
    if ns < 1_000:
        return f"{sign}{ns} ns"
    if ns >= 60_000_000_000:
        return sign + _long_duration(ns)
    for unit, unit_ns in _UNITS_NS:
        if ns / unit_ns < 999.5:
            return f"{sign}{_three_digits(ns / unit_ns)} {unit}"
    return f"{sign}{_three_digits(ns / 1_000_000_000)} s"


def _long_duration(ns: int) -> str:
    minutes, seconds = divmod((ns + 500_000_000) // 1_000_000_000, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"


def _three_digits(value: float) -> str:
    """A value below 1000 in three digits, never in exponent form."""
    for digits, limit in ((2, 9.995), (1, 99.95)):
        if value < limit:
            return f"{value:.{digits}f}"
    return f"{value:.0f}"


def size(byte_count: int | None) -> str:
    """An amount of memory in three significant digits and binary units; ``-`` where it is not known.

    >>> [size(n) for n in (0, 1023, 1024, 123 * 1024**2)]
    ['0 B', '1023 B', '1.00 KiB', '123 MiB']
    """
    if byte_count is None:
        return ABSENT
    sign, value = ("-", -byte_count) if byte_count < 0 else ("", int(byte_count))
    if value < 1024:
        return f"{sign}{value} B"
    scaled = value / 1024
    for unit in _BINARY:
        if scaled < 999.5:
            return f"{sign}{_three_digits(scaled)} {unit}"
        scaled /= 1024
    return f"{sign}{scaled:,.0f} EiB"


def share(part: int | float | None, whole: int | float | None) -> str:
    """A part of a whole in percent. 0 % and 100 % are said only where they are exact.

    >>> [share(p, 1000) for p in (0, 0.1, 123, 999.9, 1000)]
    ['0 %', '<0.1 %', '12.3 %', '>99.9 %', '100 %']
    """
    if part is None or not whole:
        return ABSENT
    if part == 0:
        return "0 %"
    if part == whole:
        return "100 %"
    percent = 100 * part / whole
    if 0 < percent < 0.1:
        return "<0.1 %"
    if 99.9 < percent < 100:
        return ">99.9 %"
    return f"{percent:.1f} %" if percent < 100 else f"{percent:.0f} %"


def count(number: int | None) -> str:
    """A count with its thousands apart; ``-`` where it is not known."""
    return ABSENT if number is None else f"{int(number):,}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    """``1 step``, ``2 steps``: the count with its noun."""
    return f"{count(number)} {noun if number == 1 else many or noun + 's'}"
