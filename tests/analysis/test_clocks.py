from __future__ import annotations

import numpy as np
import pytest

from stallscope.analysis.clocks import clock_alignment
from stallscope.analysis.collective_totals import clock_errors, collective_totals
from stallscope.analysis.collectives import collectives
from tests.analysis.jobs import START, Job, job, seen
from tests.builders import TraceBuilder


def drifting(rank: int, ts: np.ndarray) -> np.ndarray:
    """Rank 2 is 3 ms and 50 ppm ahead."""
    return ts + 3_000_000 + (ts - START) // 20_000 if rank == 2 else ts


def bending(rank: int, ts: np.ndarray) -> np.ndarray:
    """Rank 1 runs fast, then slow, as a clock does that is being steered."""
    since = (ts - START).astype(np.float64)
    return ts + np.rint(np.abs(since - since.mean()) * 80e-6).astype(np.int64) if rank == 1 else ts


def test_clocks_that_agree_are_left_alone() -> None:
    alignment = clock_alignment(seen(job()))
    assert {a.form for a in alignment.values()} == {"none"}
    assert all(0 < a.error_ns <= 2_000 for a in alignment.values() if a.error_ns is not None)
    assert alignment[1].aligned([5, 7]).tolist() == [5, 7]


def test_an_offset_is_found_within_the_error_that_is_stated() -> None:
    what = job()
    alignment = clock_alignment(seen(what, lambda rank, ts: ts + 7_654_321 * rank))
    for rank, one in alignment.items():
        assert one.error_ns is not None and one.error_ns <= 3_000
        assert one.form == ("offset" if rank else "none")
        assert abs(int(one.aligned(what.ends[0, rank] + 7_654_321 * rank)) - what.ends[0, rank]) <= one.error_ns


def test_three_milliseconds_and_fifty_ppm_leave_the_answer_as_it_was() -> None:
    what = job(collectives=2_000)
    recording = seen(what, drifting)
    clock = clock_alignment(recording)[2]
    assert clock.form == "drift" and clock.drift_frac == pytest.approx(-50e-6, rel=0.02)
    assert clock.error_ns is not None and clock.error_ns < 3_000
    # Four seconds at 50 ppm: without the correction the clocks are up to 3.2 ms apart.
    assert clock.error_before_ns is not None and clock.error_before_ns > 3_000_000
    totals = collective_totals(recording).set_index("rank")
    for rank in range(4):
        true = int(what.waits[:, rank].sum())
        assert abs(int(totals.loc[rank, "wait_for_peer_ns"]) - true) <= totals.loc[rank, "error_ns"]
        assert totals.loc[rank, "error_ns"] < true // 4
    for number in (0, 1_000, 1_999):
        rows = collectives(recording)
        rows = rows[rows["collective"] == number].sort_values("rank")
        found = rows["wait_for_peer_ns"].to_numpy(dtype=float, na_value=np.nan)
        told = ~np.isnan(found)
        assert np.abs(found[told] - what.waits[number][told]).max() <= rows["error_ns"].max()


def test_a_clock_that_is_steered_is_followed() -> None:
    what = job(collectives=1_500)
    clock = clock_alignment(seen(what, bending))[1]
    assert clock.form == "bends" and clock.error_ns is not None and clock.error_ns < 6_000
    assert clock.error_before_ns is not None and clock.error_before_ns > 50_000
    shown = bending(1, what.ends[:, 1])
    assert np.abs(clock.aligned(shown) - what.ends[:, 1]).max() < 12_000


def test_a_few_ends_that_do_not_belong_cannot_pull_the_fit_away() -> None:
    what = job(collectives=200)
    what.ends[:8, 2] += 40_000_000
    clock = clock_alignment(seen(what, drifting))[2]
    assert clock.error_ns is not None and clock.error_ns < 6_000


def test_two_ends_are_too_few_to_correct_a_clock_but_enough_to_see_that_it_is_wrong() -> None:
    what = job(collectives=2)
    recording = seen(what, lambda rank, ts: ts + 3_000_000 * (rank == 2))
    clock = clock_alignment(recording)[2]
    assert clock.form == "none" and clock.error_ns is not None and clock.error_ns > 2_990_000
    assert collective_totals(recording, by="all")["wait_for_peer_ns"].isna().all()


def test_noise_greater_than_a_quarter_of_the_waiting_withholds_it() -> None:
    what = job(collectives=40, spread=40_000, noise=60_000)
    recording = seen(what, drifting)
    rows = collectives(recording)
    assert (rows.loc[rows["wait_for_peer_ns"].notna(), "wait_for_peer_ns"] == 0).all()
    assert rows["withheld"].notna().mean() > 0.9
    totals = collective_totals(recording)
    assert totals["wait_for_peer_ns"].isna().all() and (totals["reason"] != "").all()
    assert (totals["total_ns"] > 0).all() and (totals["error_ns"] > 0).all()


def test_a_chain_of_groups_reaches_the_first_clock() -> None:
    """Ranks 0-1 and 1-2 share groups; ranks 0 and 2 never meet."""
    rng = np.random.default_rng(5)
    traces = [TraceBuilder(rank) for rank in range(3)]
    offset = [0, 2_000_000, -5_000_000]
    tracks = [trace.stream(7) for trace in traces]
    for number in range(30):
        for pair in ((0, 1), (1, 2)):
            end = START + number * 1_000_000 + pair[0] * 300_000
            for rank in pair:
                ts, jitter = end - int(rng.integers(20_000, 90_000)), int(rng.integers(0, 500))
                part = traces[rank].slice(tracks[rank], "nccl", "collective", ts + offset[rank], end - ts + jitter)
                traces[rank].row("collectives", device_slice_id=part, kind="all_reduce", group_id=rank << 40 | pair[0])
    for trace in traces:
        for pair in ((0, 1), (1, 2)):
            trace.row("groups", group_id=trace.rank << 40 | pair[0], name=f"g{pair[0]}", ranks=list(pair))
    recording = traces[0].recording(*traces[1:])
    frame = clock_errors(recording).set_index("rank")
    assert (frame["error_ns"] < 1_500).all()
    reference = int(frame["reference_rank"].iloc[0])
    for rank in range(3):
        assert abs(frame.loc[rank, "offset_ns"] - (offset[reference] - offset[rank])) < 2_000


def test_ranks_that_never_meet_have_a_clock_each() -> None:
    what = job(ranks=1, collectives=5)
    for recording in (seen(what), TraceBuilder().recording(TraceBuilder(1))):
        for rank, clock in clock_alignment(recording).items():
            assert (clock.reference_rank, clock.error_ns, clock.collectives) == (rank, None, 0)


def test_stamps_before_and_after_the_fit_follow_its_line() -> None:
    what = job(collectives=200)
    clock = clock_alignment(seen(what, drifting))[2]
    for at in (START - 10_000_000_000, START + 10_000_000_000):
        assert abs(int(clock.aligned(drifting(2, np.array([at])))[0]) - at) < 100_000


def test_one_collective_of_a_job_with_one_end() -> None:
    what = Job(np.array([[START, START + 5_000]]), np.array([[START + 9_000, START + 9_000]]))
    rows = collectives(seen(what))
    assert rows["wait_for_peer_ns"].tolist() == [5_000, 0] and rows["transfer_ns"].tolist() == [4_000, 4_000]
