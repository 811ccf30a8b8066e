"""Windows and ranks as the user writes them."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.cli.options import Instant, RanksType, Window, WindowType, parse_instant


def window(text: str) -> Window:
    return WindowType().convert(text, None, None)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("0ns", 0), ("1.5us", 1_500), ("0.000000001s", 1), ("12.345678ms", 12_345_678), ("3s", 3_000_000_000)],
)
def test_a_time_with_a_unit_is_relative_and_exact(text: str, ns: int) -> None:
    assert parse_instant(text) == Instant(ns, absolute=False)


def test_a_bare_number_is_on_the_clock() -> None:
    assert parse_instant("1706555555123456789") == Instant(1706555555123456789, absolute=True)


@pytest.mark.parametrize("text", ["x", "-1ms", "1.5", "0.1ns", "1e3s", "1 2ms", "5min"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text.replace(".", r"\.")):
        parse_instant(text)


@given(st.integers(0, 10**18), st.integers(1, 10**12), st.integers(0, 10**12))
def test_a_window_on_the_clock(origin: int, length: int, start: int) -> None:
    parsed = window(f"{start}ns:{start + length}ns")
    assert parsed.on_clock(origin, origin + start + 1) == (origin + start, origin + start + length)


def test_an_open_end_is_the_recordings_own() -> None:
    assert window("10us:").on_clock(1000, 90_000) == (11_000, 90_000)
    assert window(":10us").on_clock(1000, 90_000) == (1000, 11_000)
    assert window(":").on_clock(1000, 90_000) == (1000, 90_000)
    assert window("2000:3000").on_clock(1000, 90_000) == (2000, 3000)


@pytest.mark.parametrize("text", ["2ms:1ms", "1ms:1ms", "200us:300us"])
def test_a_window_that_holds_nothing_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter):
        window(text).on_clock(0, 100_000)


def test_a_window_without_a_colon_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="START:END"):
        window("10ms")


@pytest.mark.parametrize(("text", "ranks"), [("3", (3,)), ("2,0", (0, 2)), ("0,2,5-7,6", (0, 2, 5, 6, 7))])
def test_ranks(text: str, ranks: tuple[int, ...]) -> None:
    assert RanksType().convert(text, None, None) == ranks


@pytest.mark.parametrize("text", ["", "a", "3-1", "-1", "0,,1", "0-99999999999"])
def test_ranks_that_are_none(text: str) -> None:
    with pytest.raises(click.BadParameter):
        RanksType().convert(text, None, None)
