"""Numbers for people: three digits, never a unit too large or too small, never 0 % for something."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.cli.rendering.numbers import count, duration, plural, share, size

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (0, "0 ns"),
        (999, "999 ns"),
        (1_000, "1.00 us"),
        (9_994, "9.99 us"),
        (9_996, "10.0 us"),
        (999_499, "999 us"),
        (999_500, "1.00 ms"),
        (12_345_678, "12.3 ms"),
        (999_499_999, "999 ms"),
        (999_500_000, "1.00 s"),
        (59_900_000_000, "59.9 s"),
        (60 * SECOND, "1 min 00 s"),
        (3_725 * SECOND, "1 h 02 min"),
        (-1_500, "-1.50 us"),
    ],
)
def test_durations(ns: int | None, text: str) -> None:
    assert duration(ns) == text


@given(st.integers(min_value=0, max_value=60 * SECOND - 1))
def test_a_duration_says_its_value_within_half_a_percent(ns: int) -> None:
    number, unit = duration(ns).split(" ")
    back = float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}[unit]
    assert abs(back - ns) <= 0.0051 * ns
    assert len(number.replace(".", "")) <= 3


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (None, "-"),
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.00 KiB"),
        (1023 * 1024, "1.00 MiB"),
        (80 * 1024**3, "80.0 GiB"),
        (-5 * 1024**2, "-5.00 MiB"),
    ],
)
def test_sizes(n: int | None, text: str) -> None:
    assert size(n) == text


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (0, 10, "0 %"),
        (10, 10, "100 %"),
        (1, 10_000_000, "<0.1 %"),
        (9_999_999, 10_000_000, ">99.9 %"),
        (1, 3, "33.3 %"),
        (5, 0, "-"),
        (None, 3, "-"),
        (3, 2, "150 %"),
    ],
)
def test_shares(part: int | None, whole: int, text: str) -> None:
    assert share(part, whole) == text


def test_counts() -> None:
    assert count(1234567) == "1,234,567"
    assert count(None) == "-"
    assert plural(1, "step") == "1 step"
    assert plural(2, "loss", "losses") == "2 losses"
