"""Which steady steps of a run count, and which those of several runs have in common."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from stallscope.analysis.kernels import kernels
from stallscope.analysis.run_measures import run_measures
from stallscope.analysis.same_steps import LEAST_STEPS, SteadySteps, of_steps, shared_steps, steady_steps
from stallscope.analysis.steps import LEFT_OUT, host_steps
from stallscope.profiler.recording.reader import Recording, open_recording
from tests.cli.recordings import training, written


def steps(*numbers: int, fixed: bool = False) -> SteadySteps:
    return SteadySteps(frozenset(numbers), fixed=fixed)


def test_the_same_steps_need_no_choice() -> None:
    assert shared_steps([steps(1, 2, 3), steps(1, 2, 3)]) is None


def test_a_longer_run_gives_up_what_the_other_lacks() -> None:
    assert shared_steps([steps(1, 2, 3, 4), steps(2, 3, 4, 5)]) == {2, 3, 4}


def test_too_few_in_common_are_not_worth_it() -> None:
    assert shared_steps([steps(1, 2, 3, 4), steps(3, 4, 5, 6)]) is None


def test_a_summary_is_taken_as_it_is() -> None:
    assert shared_steps([steps(1, 2, 3, fixed=True), steps(1, 2, 3, 4)]) == {1, 2, 3}
    assert shared_steps([steps(1, 2, 3, 4, fixed=True), steps(1, 2, 3)]) is None


numbers = st.frozensets(st.integers(0, 8), max_size=9)


@given(st.lists(numbers, min_size=1, max_size=4))
def test_what_is_chosen_is_in_every_run(runs: list[frozenset[int]]) -> None:
    chosen = shared_steps([SteadySteps(one) for one in runs])
    if chosen is not None:
        assert len(chosen) >= LEAST_STEPS
        assert all(chosen <= one for one in runs)


def recorded(folder: Path, count: int) -> Recording:
    return open_recording(written(folder / str(count), training(steps=count)))


def test_the_last_step_is_left_out_where_three_others_remain(tmp_path: Path) -> None:
    four, three = recorded(tmp_path, 4), recorded(tmp_path, 3)
    assert steady_steps(four, (0,)) == SteadySteps(frozenset({0, 1, 2}), left_out=frozenset({3}))
    assert steady_steps(three, (0,)) == SteadySteps(frozenset({0, 1, 2}))
    assert run_measures(four).left_out == (3,)
    assert run_measures(four).steps_ns == (10_000_000,) * 3
    assert run_measures(three).steps_ns != (10_000_000,) * 3  # its last one is shorter


def test_a_view_counts_its_steps_only_and_leaves_the_recording_as_it_is(tmp_path: Path) -> None:
    recording = recorded(tmp_path, 6)
    view = of_steps(recording, frozenset({1, 3}))
    assert [phase == LEFT_OUT for phase in host_steps(view, 0).phases] == [True, False, True, False, True, True]
    per_kernel = dict(zip(kernels(view, rank=0)["name"], kernels(view, rank=0)["count"], strict=True))
    assert per_kernel["gemm_kernel"] == 2
    assert LEFT_OUT not in host_steps(recording, 0).phases
    assert run_measures(view, steps=frozenset({1, 3})).step_numbers == (1, 3)
