"""The marked area of an address."""

from __future__ import annotations

import pytest

from stallscope.ui.marked_area import marked_area


@pytest.mark.parametrize(
    ("area", "tracks", "numbers"),
    [
        ("10-20", "0-3.7", [0, 1, 2, 3, 7]),
        ("10-20", "7.0-2.1", [0, 1, 2, 7]),
        ("10-2000", "8-999999999", [8, 9]),
    ],
)
def test_an_area_and_its_tracks(area: str, tracks: str, numbers: list[int]) -> None:
    end = min(int(area.split("-")[1]), 100)
    assert marked_area({"area": area, "tracks": tracks}, 100, 10) == {"start": 10, "end": end, "tracks": numbers}


@pytest.mark.parametrize(
    ("area", "tracks"),
    [
        ("", "1"), ("10-20", ""), ("20-10", "1"), ("10-10", "1"), ("150-200", "1"), ("-5-20", "1"), ("1e1-20", "1"),
        ("10-20", "10"), ("10-20", "3-1"), ("10-20", "1..2"), ("10-20", "x"), ("10-20", "-1"), ("١-20", "1"),
        ("10-" + "9" * 30, "1"), ("10-20", "1-" + "9" * 30),
    ],
)  # fmt: skip
def test_what_is_written_wrongly_marks_nothing(area: str, tracks: str) -> None:
    assert marked_area({"area": area, "tracks": tracks}, 100, 10) is None
