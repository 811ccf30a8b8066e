"""The pane beneath the timeline, without a browser: what nothing, a collective and a stall say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import plotly.io
import pytest

from stallscope.analysis.slice_search import entry_of_slice
from stallscope.profiler.recording.reader import Recording
from stallscope.ui.picked import picked_slice
from stallscope.ui.served import Served
from stallscope.ui.views.details import details_of, nothing_picked
from tests.builders import TraceBuilder
from tests.ui.recordings import MS, training


def shown(parts: Any) -> str:
    """The pane as it is sent to the browser."""
    return str(plotly.io.json.to_json_plotly(parts))


def rank_of(number: int, begins: int, group: int) -> tuple[TraceBuilder, int]:
    """A rank whose part in an all-reduce begins at a time and ends with everyone's; and that part."""
    trace = TraceBuilder(number)
    main, wire = trace.thread(), trace.stream(9)
    trace.row("processes", attempt=0, process_id=1, host="one", role="trainer")
    if number == 0:
        trace.row("groups", group_id=group, name="0", ranks=[0, 1, 2])
    names = {"name": "nccl_allreduce", "category": "collective"}
    call, work = trace.launched(main, wire, call=(begins - 1000, 100), work=(begins, 20 * MS - begins), **names)
    trace.row("collectives", slice_id=call, device_slice_id=work, kind="all_reduce", group_id=group, sequence_number=0)
    return trace, work


@pytest.fixture
def three_ranks(tmp_path: Path) -> tuple[Recording, list[int]]:
    (first, *others), work = zip(*(rank_of(n, (1 + 5 * n) * MS, 77) for n in range(3)), strict=True)
    return first.write(tmp_path / "ranks", *others), list(work)


def test_a_collective_says_how_long_each_rank_waited(three_ranks: tuple[Recording, list[int]]) -> None:
    recording, parts = three_ranks
    served = Served(recording, "ranks")
    entry = entry_of_slice(served.index, parts[1])
    assert entry is not None
    page = shown(details_of(served, picked_slice(served.tracks, entry), {}))
    said = [
        page.index(words) for words in ("rank 0", "10.0 ms", "rank 1 (this one)", "5.00 ms", "rank 2", "arrived last")
    ]
    assert said == sorted(said)
    assert page.count('"stay":1') == 3


def test_nothing_picked_tells_the_colours_that_are_there(tmp_path: Path) -> None:
    page = shown(nothing_picked(Served(training(tmp_path / "run"), "run")))
    assert all(f'"{words}"' in page for words in ("compute", "data movement", "input"))
    assert '"gc"' not in page
