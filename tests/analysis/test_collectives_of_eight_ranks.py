"""One step of a recommendation model on eight V100s, worked out by hand: almost all of the communication is waiting."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from stallscope.analysis.clocks import clock_alignment
from stallscope.analysis.collective_parts import collective_parts
from stallscope.analysis.collective_totals import clock_errors, collective_issues, collective_summary, collective_totals
from stallscope.analysis.collectives import collectives
from stallscope.profiler.recording.reader import Recording, open_recording

TOTAL_NS, WAIT_NS = 48_542_000, 46_843_000
WAIT_FOR = {7: 35_552_000, 5: 6_282_000, 4: 5_009_000}


def waited_for(recording: Recording) -> dict[int, int]:
    frame = collective_totals(recording, by="peer")
    return dict(zip(frame["peer"].tolist(), frame["wait_for_peer_ns"].tolist(), strict=True))


def test_the_split_worked_out_by_hand(traces: Path) -> None:
    recording = open_recording(traces / "kineto" / "dlrm_v100x8")
    found = collective_summary(recording)
    assert (found.parts, found.total_ns, found.wait_for_peer_ns) == (64, TOTAL_NS, WAIT_NS)
    assert (found.transfer_ns, found.unknown_ns, found.reason) == (TOTAL_NS - WAIT_NS, 0, "")
    assert (found.peer, found.lower_bound) == (7, False) and found.error_ns < found.wait_for_peer_ns // 100
    assert waited_for(recording) == WAIT_FOR
    assert collective_totals(recording)["wait_for_peer_ns"].sum() == WAIT_NS
    assert len(collective_issues(recording)) == 0


def test_ends_agree_within_seven_microseconds_so_no_clock_is_touched(traces: Path) -> None:
    recording = open_recording(traces / "kineto" / "dlrm_v100x8")
    parts = collective_parts(recording)
    ends = pd.Series(parts.end).groupby(parts.match)
    assert len(ends) == 8 and (ends.size() == 8).all() and (ends.max() - ends.min()).max() == 7_000
    clocks = clock_errors(recording)
    assert (clocks["form"] == "none").all() and (clocks["error_ns"] <= 7_000).all()


def shifted(traces: Path, folder: Path, rank: int) -> Recording:
    """The same eight files with one rank's clock 3 ms and 50 ppm ahead."""
    shutil.copytree(traces / "kineto" / "dlrm_v100x8", folder)
    path = folder / f"rank{rank}.pt.trace.json.gz"
    path.chmod(0o644)
    trace: dict[str, Any] = json.loads(gzip.decompress(path.read_bytes()))
    begin = min(event["ts"] for event in trace["traceEvents"] if event.get("ph") == "X")
    for event in trace["traceEvents"]:
        if "ts" in event:
            event["ts"] += 3_000 + round((event["ts"] - begin) * 50e-6)
    path.write_bytes(gzip.compress(json.dumps(trace).encode()))
    return open_recording(folder)


@pytest.mark.parametrize("rank", [0, 3, 7])
def test_a_shifted_clock_changes_the_answer_by_less_than_its_error(traces: Path, tmp_path: Path, rank: int) -> None:
    recording = shifted(traces, tmp_path / "shifted", rank)
    offsets = {clock.rank: int(clock.add[0]) for clock in clock_alignment(recording).values()}
    others = sorted(offset for one, offset in offsets.items() if one != rank)
    assert abs(others[3] - offsets[rank] - 3_000_000) < 10_000
    found = collective_summary(recording)
    assert found.wait_for_peer_ns is not None and 0 < found.error_ns < WAIT_NS // 100
    assert abs(found.wait_for_peer_ns - WAIT_NS) <= found.error_ns
    assert abs(found.wait_for_peer_ns - WAIT_NS) < WAIT_NS // 1_000
    by_peer = waited_for(recording)
    for peer, expected in WAIT_FOR.items():
        assert by_peer[peer] == pytest.approx(expected, rel=0.005)
    # Without the correction rank 7 alone would seem to hold everyone for 3 ms more at every collective.
    assert clock_errors(recording)["error_before_ns"].max() > 2_990_000


def test_some_of_the_ranks_give_a_lower_bound_and_one_gives_none(traces: Path, tmp_path: Path) -> None:
    files = sorted((traces / "kineto" / "dlrm_v100x8").iterdir())
    for name, chosen in (("three", files[:3]), ("one", files[7:])):
        (tmp_path / name).mkdir()
        for file in chosen:
            shutil.copy(file, tmp_path / name)
    three = open_recording(tmp_path / "three")
    found = collective_summary(three)
    assert found.lower_bound and found.wait_for_peer_ns is not None and found.wait_for_peer_ns < WAIT_NS
    assert collectives(three)["ranks_expected"].eq(8).all()
    alone = collective_summary(open_recording(tmp_path / "one"))
    assert (alone.wait_for_peer_ns, alone.unknown_ns) == (None, 1_746_000)
    assert "one rank is in the recording" in alone.reason
