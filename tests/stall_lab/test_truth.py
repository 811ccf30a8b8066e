"""The truth of a run: sums over a log that can be checked by hand, and a run on the device."""

from __future__ import annotations

import numpy as np
import pytest

import stallscope
from stallscope.analysis.causes import CAUSE_NAMES
from stallscope.analysis.device_activity import rank_activity
from stallscope.analysis.exposed_communication import communication_pieces, peer_reasons
from stallscope.analysis.stalls import stalls
from stallscope.samples.simulated_accelerator import unavailable_reason
from stallscope.samples.simulated_accelerator.engine_log import _PLAIN, EngineLog, from_columns
from stallscope.samples.stall_lab.server import RunError, runner
from stallscope.samples.stall_lab.truth import truth


def log_of(*operations: tuple[int, int, int, int], dropped: int = 0) -> EngineLog:
    """From (kind, launch, start, end); kind 0 is a kernel, 1 a copy."""
    columns = {name: np.zeros(len(operations), dtype=np.int64) for name in _PLAIN}
    for number, name in enumerate(("kind", "launch_ns", "start_ns", "end_ns")):
        columns[name] = np.array([operation[number] for operation in operations], dtype=np.int64)
    return from_columns({**columns, "names": ["work"]}, dropped=dropped)


def test_idle_is_the_window_less_kernels_and_copies_count_as_idle() -> None:
    # Launched before the first step; two kernels of which one overlaps a copy; the first operation after the steps.
    log = log_of((0, 0, 5, 20), (0, 10, 30, 40), (1, 11, 38, 60), (0, 12, 70, 75), (0, 50, 90, 99))
    found = truth(log, first_ns=10, after_ns=50, steps=2)
    assert (found.start_ns, found.end_ns, found.window_ns) == (30, 90, 60)
    assert found.idle_ns == 60 - 10 - 5
    assert found.operations == 3


def test_kernels_that_overlap_count_once_and_are_cut_at_the_window() -> None:
    log = log_of((0, 0, 0, 35), (0, 10, 30, 50), (0, 10, 40, 95), (0, 60, 80, 120))
    found = truth(log, first_ns=10, after_ns=60, steps=1)
    assert (found.start_ns, found.end_ns, found.idle_ns) == (30, 80, 0)


def test_a_log_that_lost_operations_is_no_truth() -> None:
    with pytest.raises(ValueError, match="lost 3"):
        truth(log_of((0, 0, 0, 1), dropped=3), 0, 0, 1)


def test_steps_that_nothing_follows_are_no_window() -> None:
    with pytest.raises(ValueError, match="nothing to do"):
        truth(log_of((0, 0, 0, 1)), 0, 5, 1)


def test_communication_alone_is_no_work() -> None:
    # A kernel, and a collective that goes on after it; the first kernel after the steps.
    log = log_of((0, 10, 20, 30), (3, 11, 25, 60), (0, 50, 70, 80))
    assert truth(log, first_ns=10, after_ns=50, steps=1).idle_ns == 40


@pytest.mark.slow
@pytest.mark.skipif(unavailable_reason() is not None, reason=str(unavailable_reason()))
def test_a_run_of_two_ranks_of_which_one_is_slow(tmp_path) -> None:
    """Stalls and exposed communication of rank 0 add up to the time without a kernel; what it waits for is named."""
    with runner() as lab:
        run = lab.run(["slow_rank", "--regime", "ahead", "--seed", "3"], tmp_path)
    start, end = run["truth"]["start_ns"], run["truth"]["end_ns"]
    recording = stallscope.open_recording(tmp_path / "recording")
    assert recording.ranks == (0, 1)
    [device] = rank_activity(recording, 0).devices
    pieces = communication_pieces(recording, device, np.array([[start, end]]))
    rows = stalls(recording, ranks=(0,), window=(start, end))
    assert rows.dur.sum() + pieces.dur.sum() == run["truth"]["idle_ns"]
    [(file, line)] = run["lines"]["slow"]
    named = {
        (CAUSE_NAMES[reason[0]], reason[1][0].file.rsplit("/", 1)[-1], reason[1][0].line)
        for reason in peer_reasons(recording, 0, pieces)
        if reason is not None and reason[1] is not None
    }
    assert ("input", file, line) in named


@pytest.mark.slow
@pytest.mark.skipif(unavailable_reason() is not None, reason=str(unavailable_reason()))
def test_a_run_with_a_slow_loader(tmp_path) -> None:
    """The rows of the analysis add up to the idle time of the engine log, and the loader is seen where it is."""
    with runner() as lab:
        on = lab.run(["slow_loader", "--regime", "balanced", "--seed", "3"], tmp_path / "on")
        off = lab.run(["slow_loader", "--regime", "balanced", "--seed", "3", "--off"], tmp_path / "off")
        with pytest.raises(RunError, match="has loader"):
            lab.run(["slow_loader", "--on", "nothing"], tmp_path / "bad")
    for name, run in (("on", on), ("off", off)):
        start, end = run["truth"]["start_ns"], run["truth"]["end_ns"]
        rows = stalls(stallscope.open_recording(tmp_path / name / "recording"), window=(start, end))
        assert run["fallbacks"] == {}
        assert rows.dur.sum() == run["truth"]["idle_ns"]
        loading = rows.dur[rows.root_cause == "input"].sum() / run["truth"]["steps"]
        # The sleep is 3.6 ms or more, and the device hides less than one of it. A busy machine only adds to that.
        assert loading > 2_000_000 if name == "on" else loading < 2_000_000
