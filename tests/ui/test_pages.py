"""Every page without a browser: on recordings that lack what it shows, and the list of several recordings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import plotly.io
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.longest_slice import longest_of_kernel, longest_of_op
from stallscope.analysis.memory import memory_timeline
from stallscope.analysis.memory_curve import _extremes, memory_curve, peak_within
from stallscope.analysis.recording_facts import recording_facts
from stallscope.profiler.recording.errors import UsageError
from stallscope.profiler.recording.reader import Recording
from stallscope.ui.app import _LAYOUTS
from stallscope.ui.open_recordings import OpenRecordings
from stallscope.ui.scope import chosen_rank, chosen_ranks, chosen_step, step_window
from stallscope.ui.served import Served
from stallscope.ui.sql_queries import as_csv, run
from stallscope.ui.views import overview, recordings
from stallscope.ui.views import stalls as stalls_page
from stallscope.ui.views.sql import EXAMPLES
from tests.builders import TraceBuilder
from tests.ui.recordings import HOSTILE, MS, START, STEPS, rank_of_training, training

QUERIES: list[dict[str, str]] = [
    {},
    {"rank": "1", "step": "2", "by": "name+grid", "device": "7", "at": "x", "holder": HOSTILE, "limit": "-1"},
    {"step": "1", "by": "op", "cause": "input"},
    {"rank": "9", "step": "99999999999999999999", "by": "line", "sql": "select 1", "at": "5000000"},
]


def shown(layout: Any) -> str:
    """The page as it is sent to the browser."""
    return str(plotly.io.json.to_json_plotly(layout))


@pytest.fixture
def with_memory(tmp_path: Path) -> Recording:
    return training(tmp_path / "with_memory", memory=True)


@pytest.mark.parametrize("view", sorted(_LAYOUTS))
@pytest.mark.parametrize("query", QUERIES, ids=["plain", "chosen", "by op", "wrong"])
def test_every_page_shows_whatever_the_address_says(with_memory: Recording, view: str, query: dict[str, str]) -> None:
    assert json.loads(shown(_LAYOUTS[view](Served(with_memory, "small"), query)))


@pytest.mark.parametrize("view", sorted(_LAYOUTS))
def test_every_page_of_a_recording_with_nothing_in_it(tmp_path: Path, view: str) -> None:
    trace = TraceBuilder()
    trace.thread()
    assert shown(_LAYOUTS[view](Served(trace.write(tmp_path / "empty"), "empty"), {}))
    trace.slice(trace.thread(), "lonely", "op", 0, 1000)
    assert shown(_LAYOUTS[view](Served(trace.write(tmp_path / "lonely"), "lonely"), {"step": "0"}))


def test_scope_is_what_the_recording_has(with_memory: Recording) -> None:
    served = Served(with_memory, "small")
    assert chosen_ranks(served, {}) == (0, 1)
    assert chosen_rank(served, {"rank": "1"}) == 1
    assert [chosen_step(served, {"step": text}) for text in ("2", "-2", "4", "²", "", "1e1")] == [2, *[None] * 5]
    # Rank 0 launches step 2's work 6.3 ms into it; the device's step lasts until step 3's work begins.
    assert step_window(served, {"step": "2"}) == (START + 20 * MS, START + 36 * MS + 300_000)


def test_the_list_says_what_each_recording_is(tmp_path: Path, with_memory: Recording) -> None:
    other = TraceBuilder()
    other.slice(other.thread(), "lonely", "op", 0, 1000)
    served = OpenRecordings([(with_memory, HOSTILE), (other.write(tmp_path / "other"), "other")])
    assert HOSTILE in json.dumps([row["label"] for row in json.loads(shown(recordings.layout(served, {})))["props"][
        "children"][1]["props"]["children"][-1]["props"]["rowData"]]).replace('\\"', '"')  # fmt: skip
    facts = recording_facts(with_memory)
    assert (facts.ranks, facts.steps, facts.step_median_ns) == (2, STEPS, 10 * MS)
    assert facts.statuses == {"completed": 2}
    assert facts.started_ns == START
    nothing = recording_facts(served[list(served)[1]].recording)
    assert (nothing.steps, nothing.step_median_ns, nothing.devices) == (0, None, ())


def test_the_recorders_own_pauses_are_said_and_in_no_bar_or_share(tmp_path: Path) -> None:
    trace = rank_of_training(0)
    main = next(row["track_id"] for row in trace.rows["tracks"] if row["kind"] == "thread")
    for table in ("slices", "steps"):
        for row in trace.rows[table]:
            if row["ts"] >= START + 30 * MS:
                row["ts"] += 500 * MS
    trace.slice(main, "torch.profiler: end and export", "overhead", START + 30 * MS, 500 * MS)
    trace.row(
        "losses", collector="torch", kind="paused", severity="info", ts=START + 30 * MS, dur=500 * MS, count=1,
    )  # fmt: skip
    served = Served(trace.write(tmp_path / "paused"), "paused")
    page = shown(overview.layout(served, {}))
    assert "Left out: step 2, in which the recorder paused" in page
    bars = overview.step_figure(served.breakdown[served.breakdown["step"].notna()])["data"]
    assert "2" in bars[0]["x"]
    assert '"x":["0","1","3"]' in page.replace(" ", "")
    rows = stalls_page._rows(stalls_page._groups(served, "line", (0,), None), None)
    assert rows[-1]["root_cause"] == "overhead"
    assert rows[-1]["stall_frac"] is None
    assert sum(row["stall_frac"] for row in rows if row["state"] == "stall" and row["stall_frac"]) == pytest.approx(1)
    assert "own pauses, 500 ms, are in no share" in page_text(stalls_page.layout(served, {}))


def page_text(layout: Any) -> str:
    return json.loads(json.dumps(shown(layout)))


def test_stalls_without_a_known_line_are_shown_by_op(tmp_path: Path) -> None:
    trace = TraceBuilder()
    main, gpu = trace.thread(), trace.stream(7)
    trace.launched(main, gpu, call=(0, 1), work=(5, 70))
    trace.slice(main, HOSTILE, "op", 200, 100)
    trace.launched(main, gpu, call=(250, 1), work=(255, 70))
    served = Served(trace.write(tmp_path / "no_lines"), "no lines")
    page = shown(stalls_page.layout(served, {}))
    assert "no line is known" in page
    rows = stalls_page._rows(stalls_page._by_work(served, "op", (0,), None), None)
    assert {(row["whole"], row["within"]) for row in rows} == {(HOSTILE, "–")}
    assert sum(row["dur"] for row in rows) == 180
    assert stalls_page._longest(served, {"by": "op"}, rows[0]) == rows[0]["longest"]
    assert "Stalls by op" in shown(_LAYOUTS["source"](served, {}))
    assert "by=step" in shown(stalls_page.layout(served, {"by": "op", "cause": "dispatch"}))


def test_a_chosen_rank_has_its_own_findings_and_names_it(with_memory: Recording) -> None:
    served = Served(with_memory, "small")
    assert all(finding.ranks == (1,) for finding in served.findings_of(1).findings)
    assert "rank 0 only; choose another" in shown(_LAYOUTS["kernels"](served, {}))
    assert "choose another" not in shown(_LAYOUTS["kernels"](served, {"rank": "1"}))


def test_the_curve_holds_the_extremes_of_every_event(with_memory: Recording) -> None:
    every = memory_timeline(with_memory, rank=0)
    curve = memory_curve(with_memory, rank=0, device=0, bins=1_000_000)
    assert curve["ts"].tolist()[1:] == every["ts"].tolist()
    assert curve["allocated_bytes"].tolist()[1:] == every["allocated_bytes"].tolist()
    second = (START + 10 * MS, START + 20 * MS)
    coarse = memory_curve(with_memory, rank=0, device=0, window=second, bins=1)
    assert coarse["allocated_bytes"].tolist()[:1] == [1 << 20]  # what the first step left
    assert int(coarse["allocated_bytes"].max()) == 8 << 20
    assert peak_within(with_memory, rank=0, device=0, window=second) == START + 10 * MS + 6_212_000
    assert peak_within(with_memory, rank=0, device=0, window=(START, START + 1)) == START


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(-9, 9)), min_size=1, max_size=40))
def test_of_each_part_the_first_last_least_and_greatest_stay(rows: list[tuple[int, int]]) -> None:
    rows = sorted(rows, key=lambda row: row[0])
    part, value = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    kept = _extremes(part, value)
    for one in set(part.tolist()):
        inside = np.flatnonzero(part == one)
        mine = [n for n in kept.tolist() if part[n] == one]
        assert {inside[0], inside[-1]} <= set(mine)
        assert len(mine) <= 4
        assert {value[mine].min(), value[mine].max()} == {value[inside].min(), value[inside].max()}


def test_the_longest_slice_of_a_row(with_memory: Recording) -> None:
    rows = with_memory.table("slices", ranks=1, columns=["slice_id", "name", "category", "ts", "dur"])
    copies = rows.filter(pc.equal(rows["category"].cast("string"), "memcpy"))
    third = copies.sort_by("ts")["slice_id"].to_pylist()[2]
    assert longest_of_kernel(with_memory, 1, "Memcpy HtoD", "memcpy", step=2) == third
    assert longest_of_kernel(with_memory, 1, "Memcpy HtoD", "kernel") is None
    assert longest_of_op(with_memory, 1, "no such op") is None
    first = rows.filter(pc.equal(rows["category"].cast("string"), "op")).sort_by("ts")["slice_id"].to_pylist()[0]
    assert longest_of_op(with_memory, 1, f"aten::mm{HOSTILE}", step=0) == first
    with pytest.raises(UsageError, match="no step 9"):
        longest_of_op(with_memory, 1, f"aten::mm{HOSTILE}", step=9)


@pytest.mark.parametrize("title", EXAMPLES)
def test_the_examples_can_be_asked(with_memory: Recording, title: str) -> None:
    result, more = run(with_memory, EXAMPLES[title], 1000)
    assert result.num_rows
    assert not more
    assert as_csv(result).count(b"\n") >= result.num_rows


def test_a_result_is_cut_at_its_limit_and_sent_whole_as_csv(client: Any, served: Served) -> None:
    result, more = run(served.recording, "select range from range(11)", 10)
    assert (result.num_rows, more) == (10, True)
    answer = client.get(f"/data/{served.key}/query.csv", query_string={"sql": "select range, [1] as l from range(11)"})
    assert answer.get_data(as_text=True).splitlines() == ['"range","l"', *(f'{n},"[1]"' for n in range(11))]
    assert answer.headers["Content-Disposition"].startswith("attachment")
    for sql in ("select 1; select 2", "copy slices to '/tmp/x'", "select * from '/etc/passwd'", "", "x" * 2001):
        refused = client.get(f"/data/{served.key}/query.csv", query_string={"sql": sql})
        assert refused.status_code == 400
        assert "root:" not in refused.get_data(as_text=True)
    assert client.get("/data/0/query.csv?sql=select+1").status_code == 404
