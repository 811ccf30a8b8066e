"""Communication that nothing hides: the pieces tile it, and waiting names the rank and what held that rank up."""

from __future__ import annotations

import numpy as np

from stallscope.analysis.arrivals import arrivals
from stallscope.analysis.causes import CAUSE_NAMES
from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.exposed_communication import communication_lines, communication_pieces, peer_reasons
from stallscope.analysis.findings import findings
from tests.builders import TraceBuilder

MS = 1_000_000
STEPS, STEP = 4, 20 * MS


def rank(number: int, late_ms: int) -> TraceBuilder:
    """Steps of 2 ms of computation and an all-reduce until 12 ms, which begins ``late_ms`` later: a batch is loaded."""
    trace = TraceBuilder(number)
    main, gpu, wire = trace.thread("MainThread"), trace.stream(7), trace.stream(9)
    trace.row("processes", process_id=1, host="one", role="trainer")
    trace.row("groups", group_id=trace.new_id(), name="0", ranks=[0, 1])
    group = trace.rows["groups"][0]["group_id"]
    for step in range(STEPS):
        at = step * STEP
        trace.step(step, at, STEP)
        if late_ms:
            trace.slice(main, "DataLoader.__next__", "input", at + MS, late_ms * MS, stack_id=1)
        begin = at + (1 + late_ms) * MS
        trace.launched(main, gpu, call=(begin, 1000), work=(begin + 2000, 2 * MS))
        start = begin + 2 * MS + 2000
        call, work = trace.launched(
            main, wire, call=(begin + 5000, 1000), work=(start, at + 12 * MS - start), name="nccl_allreduce",
            category="collective",
        )  # fmt: skip
        trace.row(
            "collectives", slice_id=call, device_slice_id=work, kind="all_reduce", group_id=group, sequence_number=step
        )
        # Whoever waits for a device that computes and then hides the communication behind it.
        trace.launched(main, gpu, call=(begin + 7000, 1000), work=(at + 11 * MS, 4 * MS), name="beside")
    trace.row("frames", frame_id=number + 1, file="/home/me/data.py", line=7, function="read", origin="user")
    trace.row("stacks", stack_id=1, frame_ids=[number + 1])
    return trace


def test_pieces_tile_exposed_communication_and_name_the_rank_and_its_reason() -> None:
    recording = rank(0, 0).recording(rank(1, 6))
    device = rank_activity(recording, 0).devices[0]
    pieces = communication_pieces(recording, device, np.array([device.window]))
    assert pieces.dur.sum() == (device.exposed_communication[:, 1] - device.exposed_communication[:, 0]).sum()
    assert (pieces.ts[1:] >= pieces.end[:-1]).all()
    waiting = pieces.take(pieces.peer == 1)
    # Rank 1 arrives 6 ms after rank 0 in each step, and rank 0 has nothing to compute until 11 ms.
    assert waiting.dur.tolist() == [6 * MS] * STEPS
    assert pieces.take(pieces.peer < 0).dur.tolist() == [2 * MS - 2000] * STEPS
    first, *others = peer_reasons(recording, 0, waiting)
    assert first is None  # nothing tells when the two were level before
    assert len(others) == STEPS - 1
    for reason in others:
        assert reason is not None and reason[1] is not None
        assert (CAUSE_NAMES[reason[0]], reason[1][0].file, reason[1][0].line) == ("input", "/home/me/data.py", 7)
    assert len(communication_lines(recording, device, pieces)) == len(pieces)


def test_the_finding_names_the_line_in_the_program_of_the_rank_that_is_waited_for() -> None:
    found = {f.kind: f for f in findings(rank(0, 0).recording(rank(1, 6))).findings}
    waiting = found["wait_for_peer"]
    assert (waiting.rank, waiting.file, waiting.line) == (0, "/home/me/data.py", 7)
    assert "late because of input" in waiting.evidence
    assert "rank 1" in waiting.title
    assert waiting.peer == 1


def test_a_rank_that_computes_longer_is_named_without_a_line() -> None:
    slow = rank(1, 6)
    for row in slow.rows["slices"]:
        if row["name"] == "gemm":  # it computes for all of the time that it is late
            row["ts"], row["dur"] = row["ts"] - 6 * MS, row["dur"] + 6 * MS
    found = {f.kind: f for f in findings(rank(0, 0).recording(slow)).findings}
    assert found["wait_for_peer"].file is None
    assert "late because" not in found["wait_for_peer"].evidence


def test_a_call_without_a_group_beside_device_parts_is_no_collective_of_its_own() -> None:
    from stallscope.analysis.collective_parts import collective_parts

    one = rank(0, 0)
    call = one.slice(one.rows["tracks"][0]["track_id"], "allreduce", "collective", MS, 0)
    one.row("collectives", slice_id=call, kind="all_reduce")
    assert len(collective_parts(one.recording(rank(1, 6)))) == 2 * STEPS


def test_a_rank_that_was_late_when_the_recording_began_is_told_apart() -> None:
    slow = rank(1, 6)
    for name in ("slices", "steps", "collectives"):
        slow.rows[name] = [
            row for row in slow.rows[name] if row.get("ts", 0) < STEP and row.get("sequence_number", 0) == 0
        ]
    for row in slow.rows["steps"]:
        row["ts"], row["dur"] = row["ts"] + 6 * MS, row["dur"] - 6 * MS
    quick = rank(0, 0)
    for name in ("slices", "steps", "collectives"):
        quick.rows[name] = [
            row for row in quick.rows[name] if row.get("ts", 0) < STEP and row.get("sequence_number", 0) == 0
        ]
    waiting = {f.kind: f for f in findings(quick.recording(slow)).findings}["wait_for_peer"]
    assert "rank 1 began its first recorded step 6.00 ms after rank 0 did" in waiting.evidence


def test_the_ranks_of_a_collective_with_how_long_each_waited() -> None:
    recording = rank(0, 0).recording(rank(1, 6))
    parts = recording.table("collectives").to_pylist()
    for row in parts[:2]:
        ids = {one["device_slice_id"] for one in parts if one["sequence_number"] == row["sequence_number"]}
        for slice_id in (row["slice_id"], row["device_slice_id"]):
            first, last = arrivals(recording, slice_id)
            assert (first.rank, first.wait_ns, first.is_last) == (0, 6 * MS, False)
            assert (last.rank, last.wait_ns, last.is_last) == (1, 0, True)
            assert {first.slice_id, last.slice_id} == ids
    assert arrivals(recording, 10**15) == ()
