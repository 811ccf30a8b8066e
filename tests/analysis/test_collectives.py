from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from stallscope.analysis.collective_totals import collective_issues, collective_summary, collective_totals
from stallscope.analysis.collectives import ALONE, ROOTED, UNALIGNED, UNENDED, UNMATCHED, UNNAMED, collectives
from stallscope.profiler.recording.schema import TABLES
from tests.analysis.jobs import Job, job, seen
from tests.builders import MemoryRecording, TraceBuilder

THREE = Job(
    arrivals=np.array([[0, 100, 400], [1_000, 1_700, 1_200], [2_000, 2_000, 2_000]]),
    ends=np.array([[500, 500, 500], [1_800, 1_800, 1_800], [2_100, 2_100, 2_100]]),
)


@pytest.mark.parametrize("numbered", [True, False], ids=["numbered", "by order"])
def test_waiting_ends_when_the_last_rank_arrives_and_the_rest_is_the_transfer(numbered: bool) -> None:
    rows = collectives(seen(THREE, numbered=numbered))
    by_rank = rows.groupby("rank")
    assert by_rank["wait_for_peer_ns"].apply(list).tolist() == [[400, 700, 0], [300, 0, 0], [0, 500, 0]]
    assert by_rank["transfer_ns"].apply(list).tolist() == [[100, 100, 100]] * 3
    assert by_rank["last_rank"].apply(list).tolist() == [[2, 1, 0]] * 3
    assert (rows["error_ns"] == 0).all() and rows["withheld"].isna().all() and not rows["lower_bound"].any()


def test_totals_by_rank_peer_and_kind_add_up() -> None:
    recording = seen(THREE)
    by_rank = collective_totals(recording)
    assert by_rank["wait_for_peer_ns"].tolist() == [1_100, 300, 500]
    by_peer = collective_totals(recording, by="peer")
    assert by_peer["peer"].tolist() == [1, 2, 0] and by_peer["wait_for_peer_ns"].tolist() == [1_200, 700, 0]
    for by in ("all", "rank", "peer", "kind", "group"):
        totals = collective_totals(recording, by=by)
        assert (totals["total_ns"] == totals["wait_for_peer_ns"] + totals["transfer_ns"] + totals["unknown_ns"]).all()
        assert totals["total_ns"].sum() == 2_800 and totals["wait_for_peer_ns"].sum() == 1_900
        assert totals["in_bytes"].sum() == 9_000 and totals["out_bytes"].isna().all()
    assert collective_totals(recording, by="kind")["kind"].tolist() == ["all_reduce"]
    found = collective_summary(recording)
    assert (found.total_ns, found.wait_for_peer_ns, found.transfer_ns, found.unknown_ns) == (2_800, 1_900, 900, 0)
    assert (found.peer, found.peer_wait_ns, found.reason, found.lower_bound) == (1, 1_200, "", False)
    assert len(collective_issues(recording)) == 0


def test_a_rank_alone_cannot_tell_the_wire_from_waiting() -> None:
    recording = seen(THREE, present=(1,))
    rows = collectives(recording)
    assert rows["wait_for_peer_ns"].isna().all() and rows["transfer_ns"].isna().all()
    assert set(rows["withheld"]) == {ALONE}
    found = collective_summary(recording)
    assert (found.total_ns, found.unknown_ns, found.wait_for_peer_ns, found.reason) == (600, 600, None, ALONE)


def test_with_ranks_missing_the_waiting_is_a_lower_bound() -> None:
    recording = seen(THREE, present=(0, 1))
    rows = collectives(recording)
    assert rows["lower_bound"].all() and rows["ranks_present"].eq(2).all() and rows["ranks_expected"].eq(3).all()
    assert rows[rows["rank"] == 0]["wait_for_peer_ns"].tolist() == [100, 700, 0]
    assert collective_summary(recording).lower_bound


def test_host_calls_stand_in_where_no_rank_has_a_device_part() -> None:
    rows = collectives(seen(THREE, device=False))
    assert rows["wait_for_peer_ns"].sum() == 1_900 and not rows["on_device"].any()


def test_a_job_without_collectives() -> None:
    recording = TraceBuilder().recording(TraceBuilder(1))
    assert len(collectives(recording)) == 0 and len(collective_issues(recording)) == 0
    found = collective_summary(recording)
    assert (found.parts, found.total_ns, found.peer, found.reason) == (0, 0, None, "")
    assert [len(collective_totals(recording, by=by)) for by in ("all", "rank", "peer")] == [1, 0, 0]


def one_each(kind: str, parts: list[tuple[int, int, int, int | None]], **columns: Any) -> MemoryRecording:
    """Parts (rank, ts, dur, peer) of one kind; every rank also shares ten all-reduces that align the clocks."""
    traces = {rank: TraceBuilder(rank) for rank in sorted({part[0] for part in parts})}
    for trace in traces.values():
        track = trace.stream(9)
        for number in range(10):
            part = trace.slice(track, "nccl", "collective", number * 100, 10)
            trace.row("collectives", device_slice_id=part, kind="all_reduce")
    for rank, ts, dur, peer in parts:
        part = traces[rank].slice(traces[rank].stream(7), kind, "collective", ts, dur)
        own = kind if kind != "pair" else ("send" if peer is not None and peer > rank else "recv")
        traces[rank].row("collectives", device_slice_id=part, kind=own, peer_rank=peer, **columns)
    first, *others = traces.values()
    return first.recording(*others)


def test_a_send_goes_with_the_receive_that_names_it() -> None:
    rows = collectives(one_each("pair", [(0, 2_000, 60, 1), (1, 2_040, 20, 0), (0, 3_000, 5, 1), (1, 3_100, 9, 0)]))
    pairs = rows[rows["kind"].isin(["send", "recv"])].set_index(["rank", "ts"])
    assert pairs.loc[(0, 2_000), "collective"] == pairs.loc[(1, 2_040), "collective"]
    assert pairs.loc[(0, 2_000), "wait_for_peer_ns"] == 40 and pairs.loc[(1, 2_040), "wait_for_peer_ns"] == 0
    assert pairs.loc[(0, 2_000), "last_rank"] == 1 and pairs["ranks_expected"].eq(2).all()
    # The second send went into a buffer and was over before the receive began.
    assert pairs.loc[(0, 3_000), "wait_for_peer_ns"] == 0 and pairs.loc[(0, 3_000), "transfer_ns"] == 5


def test_a_receive_without_a_named_peer_stays_unmatched_and_says_why() -> None:
    recording = one_each("pair", [(0, 2_000, 60, 1), (1, 2_040, 20, None)])
    issues = collective_issues(recording)
    assert "does not name the other rank" in " ".join(issues["reason"])
    assert issues["parts"].sum() == 2 and issues["total_ns"].sum() == 80


def test_a_broadcast_does_not_hold_every_rank() -> None:
    rows = collectives(one_each("broadcast", [(0, 2_000, 60, None), (1, 2_040, 20, None)]))
    assert set(rows[rows["kind"] == "broadcast"]["withheld"]) == {ROOTED}


def test_clocks_of_ranks_that_share_no_end_cannot_be_compared() -> None:
    traces = [TraceBuilder(rank) for rank in range(2)]
    for trace in traces:
        part = trace.slice(trace.stream(7), "nccl", "collective", 100 + trace.rank, 50)
        kind = "recv" if trace.rank else "send"
        trace.row("collectives", device_slice_id=part, kind=kind, peer_rank=1 - trace.rank)
    assert set(collectives(traces[0].recording(traces[1]))["withheld"]) == {UNALIGNED}


def with_steps(rank: int, calls: list[tuple[int, int]], steps: int = 3) -> TraceBuilder:
    """Calls (ts, dur) on a rank whose steps are 1000 ns long."""
    trace = TraceBuilder(rank)
    main, gpu = trace.thread(), trace.stream(7)
    for number in range(steps):
        trace.step(number, number * 1_000, 1_000)
    for ts, dur in calls:
        call, part = trace.launched(main, gpu, call=(ts - 5, 2), work=(ts, dur), name="nccl", category="collective")
        trace.row("collectives", slice_id=call, device_slice_id=part, kind="all_reduce")
    return trace


def test_unequal_numbers_are_matched_within_the_steps_that_have_equal_ones() -> None:
    early = [(100, 80), (500, 80), (1_100, 80), (2_100, 80), (2_500, 80)]
    late = [(500, 80), (1_110, 70), (2_110, 70), (2_510, 70)]
    recording = with_steps(0, early).recording(with_steps(1, late))
    rows = collectives(recording)
    assert rows[(rows["rank"] == 0) & (rows["ts"] > 1_000)]["wait_for_peer_ns"].tolist() == [10, 10, 10]
    assert set(rows[rows["ts"] < 1_000]["withheld"]) == {UNMATCHED}
    issues = collective_issues(recording)
    assert issues["parts"].sum() == 3
    assert "rank 1 has 1, the others 2" in issues["reason"].iloc[0]


def test_unequal_numbers_without_steps_stay_unmatched() -> None:
    recording = with_steps(0, [(100, 80), (500, 80)], 0).recording(
        with_steps(1, [(100, 80), (500, 80)], 0), with_steps(2, [(100, 80)], 0)
    )
    rows = collectives(recording)
    assert rows["wait_for_peer_ns"].isna().all()
    assert "rank 2 has 1, the others 2" in collective_issues(recording)["reason"].iloc[0]


def test_missing_sequence_numbers_on_one_rank_leave_the_other_ranks_matched() -> None:
    what = job(ranks=3, collectives=10, noise=0)
    recording = seen(what, numbered=True)
    table = recording._tables["collectives"]
    keep = [
        not (rank == 1 and number == 4)
        for rank, number in zip(table["rank"].to_pylist(), table["sequence_number"].to_pylist(), strict=True)
    ]
    recording._tables["collectives"] = table.filter(keep)
    rows = collectives(recording)
    short = rows[rows["ranks_present"] == 2]
    assert short["sequence_number"].unique().tolist() == [4] and short["lower_bound"].all()
    others = rows[(rows["sequence_number"] != 4)].sort_values(["sequence_number", "rank"])
    expected = np.delete(what.waits, 4, axis=0).reshape(-1)
    assert others["wait_for_peer_ns"].tolist() == expected.tolist()


def test_bandwidth_is_that_of_the_transfer_as_nccl_tests_count_it() -> None:
    rows = collectives(seen(THREE))
    assert rows["algorithm_bytes_per_s"].tolist() == [1e10] * 9
    assert rows["bus_bytes_per_s"].to_numpy(dtype=float) == pytest.approx(1e10 * 2 * 2 / 3)
    gathered = collectives(seen(THREE, kind="all_gather"))
    assert gathered["algorithm_bytes_per_s"].isna().all(), "an all-gather's size is what comes out"


def test_an_end_that_the_trace_does_not_hold() -> None:
    traces = [TraceBuilder(rank) for rank in range(2)]
    for trace in traces:
        part = trace.slice(trace.stream(7), "nccl", "collective", 100, None if trace.rank else 50)
        trace.row("collectives", device_slice_id=part, kind="all_reduce")
        trace.row("collectives", device_slice_id=99, slice_id=98, kind="all_reduce")
    rows = collectives(traces[0].recording(traces[1]))
    assert len(rows) == 2 and rows["dur"].isna().tolist() == [False, True]
    assert pd.isna(rows["wait_for_peer_ns"].iloc[1])


def test_a_call_of_which_only_the_beginning_is_known() -> None:
    traces = [TraceBuilder(rank) for rank in range(2)]
    for trace in traces:
        part = trace.slice(trace.thread(), "all_reduce", "collective", 100, 0 if trace.rank else 50)
        trace.row("collectives", slice_id=part, kind="all_reduce")
    rows = collectives(traces[0].recording(traces[1]))
    assert rows["withheld"].tolist() == [UNALIGNED, UNENDED] and rows["dur"].isna().tolist() == [False, True]


def test_a_group_of_one_waits_for_nobody() -> None:
    what = Job(THREE.arrivals[:, :1], THREE.ends[:, :1])
    rows = collectives(seen(what))
    assert rows["wait_for_peer_ns"].tolist() == [0, 0, 0] and rows["transfer_ns"].tolist() == [500, 800, 100]


def test_a_kind_that_the_trace_does_not_name() -> None:
    rows = collectives(one_each("send_recv", [(0, 2_000, 60, None), (1, 2_040, 20, None)]))
    assert set(rows[rows["kind"] == "send_recv"]["withheld"]) == {UNNAMED}


def test_host_calls_on_one_host_are_stamped_by_one_clock() -> None:
    what = job(ranks=2, collectives=6, spread=9_000, noise=90_000)
    recording = seen(what, device=False)
    assert collectives(recording)["wait_for_peer_ns"].fillna(0).sum() == 0
    processes = [{"rank": rank, "attempt": 0, "process_id": rank + 1, "host": "one"} for rank in range(2)]
    recording._tables["processes"] = pa.Table.from_pylist(processes, schema=TABLES["processes"].schema)
    rows = collectives(seen_again(recording))
    assert rows["wait_for_peer_ns"].sum() == what.waits.sum() and (rows["error_ns"] == 0).all()
    processes[1]["host"] = "two"
    recording._tables["processes"] = pa.Table.from_pylist(processes, schema=TABLES["processes"].schema)
    assert collectives(seen_again(recording))["wait_for_peer_ns"].fillna(0).sum() == 0


def seen_again(recording: MemoryRecording) -> MemoryRecording:
    """The same tables in a recording for which nothing has been worked out yet."""
    fresh = MemoryRecording({}, recording.ranks)
    fresh._tables = dict(recording._tables)
    return fresh
