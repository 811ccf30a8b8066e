"""The parts of a marked area beside sums made slice by slice; arrows to other ranks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stallscope.analysis.area_statistics import area_histogram, area_statistics, entries_within
from stallscope.analysis.slice_facts import slice_facts
from stallscope.analysis.tile_index import TileIndex, tile_index
from tests.builders import TraceBuilder


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TileIndex:
    """Lengths around powers of two, some of no length, in two categories."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    at = 0
    for number, length in enumerate([0, 1, 2, 3, 4, 7, 8, 9, 1023, 1024, 1025, 2**40 - 1, 2**40]):
        trace.slice(main if number % 3 else gpu, f"name {number % 4}", "op" if number % 3 else "kernel", at, length)
        at += length + 5
    return tile_index(trace.write(tmp_path / "recording"))


@pytest.mark.parametrize("window", [(0, 2**50), (0, 40), (20, 1200)])
def test_a_histogram_counts_every_slice_once_by_its_whole_length(index: TileIndex, window: tuple[int, int]) -> None:
    entries = entries_within(index, [0, 1], *window)
    lengths = (index.end[entries] - index.start[entries]).tolist()
    frame = area_histogram(index, [0, 1], *window)
    for row in frame.to_dict("records"):
        inside = [length for length in lengths if row["low_ns"] <= length < row["high_ns"]]
        assert (row["count"], row["total_ns"]) == (len(inside), sum(inside))
    assert frame["count"].sum() == len(lengths)
    assert frame["low_ns"].iloc[0] <= min(lengths) < frame["high_ns"].iloc[0]
    assert frame["low_ns"].iloc[-1] <= max(lengths) < frame["high_ns"].iloc[-1]
    assert (frame["low_ns"].to_numpy()[1:] == frame["high_ns"].to_numpy()[:-1]).all()


def test_an_empty_area_has_no_histogram(index: TileIndex) -> None:
    assert len(area_histogram(index, [0, 1], 2**60, 2**61)) == 0


def test_categories_are_the_names_taken_together(index: TileIndex) -> None:
    by_name = area_statistics(index, [0, 1], 0, 2**50)
    by_category = area_statistics(index, [0, 1], 0, 2**50, by="category")
    sums = by_name.groupby("category")[["count", "total_ns", "inside_ns"]].sum()
    for row in by_category.to_dict("records"):
        assert [row[name] for name in sums.columns] == sums.loc[row["category"]].tolist()
        entries = entries_within(index, [0, 1], 0, 2**50)
        longest = max(
            int(index.end[e] - index.start[e]) for e in entries if index.category[e] == index.category[row["longest"]]
        )
        assert longest == row["max_ns"] == int(index.end[row["longest"]] - index.start[row["longest"]])
    assert np.all(np.diff(by_category["inside_ns"]) <= 0)


def test_a_collective_has_arrows_to_its_parts_on_other_ranks() -> None:
    ranks = []
    parts = []
    for rank in range(3):
        trace = TraceBuilder(rank)
        main, gpu = trace.thread(), trace.stream(20)
        for number in range(2):
            call, work = trace.launched(
                main, gpu, call=(100 * number, 10), work=(100 * number + 20, 30), name="nccl", category="collective"
            )
            trace.row(
                "collectives",
                slice_id=call,
                device_slice_id=work,
                group_id=1,
                sequence_number=number,
                kind="all_reduce",
            )
            parts.append((rank, number, call, work))
        trace.row("groups", group_id=1, name="default", ranks=[0, 1, 2])
        ranks.append(trace)
    recording: Any = ranks[0].recording(*ranks[1:])
    picked = next(work for rank, number, _, work in parts if (rank, number) == (1, 1))
    facts = slice_facts(recording, 1, picked, 120)
    assert facts is not None
    found = {(arrow.from_slice_id, arrow.to_slice_id) for arrow in facts.arrows if arrow.kind == "collective"}
    assert found == {(picked, work) for rank, number, _, work in parts if number == 1 and rank != 1}
