"""The line that ran when a slice was made, under one name for each file."""

from __future__ import annotations

import numpy as np

from stallscope.analysis.slice_lines import _whole_paths
from stallscope.analysis.source_position import SourceLine


def test_a_file_has_one_name_where_the_trace_and_the_sampler_name_it_differently() -> None:
    cut, whole = (SourceLine(file, 46, "forward", "user") for file in ("net.py", "/home/me/net.py"))
    other = SourceLine("train.py", 3, "main", "user")
    lines, line = _whole_paths((cut, other, whole), np.array([0, 2, 1, -1, 0]))
    assert [lines[number] if number >= 0 else None for number in line.tolist()] == [whole, whole, other, None, whole]
    assert line[0] == line[1]


def test_a_file_that_could_be_either_of_two_keeps_its_name() -> None:
    places = tuple(SourceLine(file, 1, "f", "user") for file in ("net.py", "/a/net.py", "/b/net.py"))
    lines, line = _whole_paths(places, np.array([0, 1, 2]))
    assert [lines[number] for number in line.tolist()] == list(places)
