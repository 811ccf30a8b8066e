"""Comparisons: parts add up exactly, verdicts follow the runs, and what a reader must know is said."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stallscope.analysis.compare import compare
from stallscope.analysis.compare_parts import mean_over_runs, mean_parts, mean_step, nearest
from stallscope.analysis.run_facts import CompilationMeasures, FallbackMeasure, PlacedCount, RunMeasures
from stallscope.analysis.run_work import OTHERS
from stallscope.profiler.recording.errors import UsageError
from tests.analysis.measured_runs import MS, kernel, lane, run, runs

SIDES = st.lists(runs(), min_size=1, max_size=4)
INPUT = ("stall", "input", "train.py", 3, "loop")


@given(st.dictionaries(st.integers(0, 30), st.integers(0, 2**55), min_size=1), st.integers(1, 10**6))
def test_parts_of_a_mean_add_up_to_it_and_are_off_by_less_than_one(sums: dict[int, int], count: int) -> None:
    means = mean_parts(sums, count)
    assert sum(means.values()) == nearest(sum(sums.values()), count)
    assert abs(Fraction(sum(sums.values()), count) - sum(means.values())) <= Fraction(1, 2)
    assert all(abs(Fraction(sums[key], count) - means[key]) < 1 for key in sums)


def test_a_part_that_a_run_lacks_is_nothing_there() -> None:
    assert mean_over_runs([{"a": 4, "b": 4}, {"a": 8}]) == {"a": 6, "b": 2}
    with pytest.raises(ValueError, match="no meaning"):
        mean_over_runs([])


@settings(max_examples=25, deadline=None)
@given(SIDES, SIDES)
def test_every_part_of_the_difference_is_in_the_sum(base: list[RunMeasures], new: list[RunMeasures]) -> None:
    found = compare(base, new)
    for side, runs_ in (("base_ns", base), ("new_ns", new)):
        whole = nearest(sum(one.mean_step_ns or 0 for one in runs_), len(runs_))
        assert sum(getattr(part, side) for part in found.parts) == whole
        assert sum(getattr(part, side) for part in found.states) == whole
        waiting = [part for part in found.states if part.state in ("stall", "data_movement")]
        assert sum(getattr(place, side) for place in found.places) == sum(getattr(part, side) for part in waiting)
    assert found.mean.difference == sum(part.difference_ns for part in found.parts)
    assert found.mean.difference == sum(part.difference_ns for part in found.states)
    for rows in (found.parts, found.states, found.places, found.ranks):
        assert all(row.difference_ns == (row.new_ns or 0) - (row.base_ns or 0) for row in rows)


@settings(max_examples=25, deadline=None)
@given(SIDES, SIDES)
def test_kernels_ops_and_lines_add_up_to_all_that_a_side_ran(base: list[RunMeasures], new: list[RunMeasures]) -> None:
    found = compare(base, new)
    known = [[one for one in runs_ if one.has_tables] for runs_ in (base, new)]
    for table in ("kernels", "ops", "lines"):
        rows = getattr(found, table)
        assert all(known) or not rows
        for side, runs_ in zip(("base", "new"), known, strict=True) if all(known) else ():
            for what in ("device_ns", "host_ns"):
                each = [
                    nearest(sum(getattr(row, what) for row in getattr(one, table)), one.device_steps) for one in runs_
                ]
                assert sum(getattr(row, f"{side}_{what}") for row in rows) == nearest(sum(each), len(each))
        assert all(row.device_difference_ns == row.new_device_ns - row.base_device_ns for row in rows)
        assert all(row.host_difference_ns == row.new_host_ns - row.base_host_ns for row in rows)


@settings(max_examples=25, deadline=None)
@given(SIDES, SIDES)
def test_the_other_way_round_is_the_opposite(base: list[RunMeasures], new: list[RunMeasures]) -> None:
    there, back = compare(base, new), compare(new, base)
    forth = {(part.state, part.cause): part.difference_ns for part in there.parts}
    assert forth == {(part.state, part.cause): -part.difference_ns for part in back.parts}
    opposite = {"new": "gone", "gone": "new"}
    changes = {(row.name, row.detail): opposite.get(row.change, row.change) for row in there.kernels}
    same_or_time = {"same": "time"}  # what is the same is a share of the base side's time
    assert {name: same_or_time.get(change, change) for name, change in changes.items()} == {
        (row.name, row.detail): same_or_time.get(row.change, row.change) for row in back.kernels
    }


@settings(max_examples=25, deadline=None)
@given(SIDES)
def test_a_side_does_not_differ_from_itself(side: list[RunMeasures]) -> None:
    found = compare(side, side)
    assert found.mean.difference == found.median.difference == 0
    assert not any(part.difference_ns for part in (*found.parts, *found.places))
    assert {row.change for row in (*found.kernels, *found.ops, *found.lines)} <= {"same"}
    assert not found.environment
    assert found.verdict in ("no verdict", "cannot tell", "no difference beyond the margin")


def test_the_mean_of_a_side_counts_every_run_once_however_many_steps_it_has() -> None:
    long, short = run([10 * MS] * 100), run([20 * MS])
    assert mean_step([long, short]) == {("compute", ""): 15 * MS}


def test_one_run_a_side_is_a_difference_and_no_verdict() -> None:
    found = compare([run([10 * MS] * 30)], [run([12 * MS] * 30)])
    assert found.verdict == "no verdict"
    assert found.headline.startswith("These two runs differ by +20.0%")
    assert "5 runs a side" in found.headline
    assert found.median.comparison is not None
    assert found.median.comparison.low is None


def test_one_run_a_side_with_a_known_spread_has_a_verdict() -> None:
    found = compare([run([10 * MS] * 30)], [run([12 * MS] * 30)], run_sd_frac=0.01)
    assert found.verdict == "slower"
    assert "as supplied" in found.headline


@pytest.mark.parametrize(
    ("factor", "verdict"), [(1.2, "slower"), (0.8, "faster"), (1.0, "no difference beyond the margin")]
)
def test_five_runs_a_side_have_a_verdict(factor: float, verdict: str) -> None:
    base = [run([round(10 * MS * (1 + spread / 1000))] * 20) for spread in (-2, -1, 0, 1, 2)]
    new = [run([round(10 * MS * factor * (1 + spread / 1000))] * 20) for spread in (-2, -1, 0, 1, 2)]
    found = compare(base, new)
    assert found.verdict == verdict
    assert found.headline.lower().startswith(verdict)
    assert "5 and 5 runs" in found.headline


def test_runs_that_differ_too_much_cannot_tell_and_say_how_many_would() -> None:
    base = [run([ms * MS] * 20) for ms in (10, 11, 9, 10, 11)]
    new = [run([ms * MS] * 20) for ms in (10, 12, 10, 11, 11)]
    found = compare(base, new)
    assert found.verdict == "cannot tell"
    assert found.median.comparison is not None
    assert found.median.comparison.runs_needed is not None
    assert f"about {found.median.comparison.runs_needed} runs" in found.headline


def test_the_verdict_is_about_the_statistic_that_was_asked_for() -> None:
    base = [run([10 * MS] * 20 + [10 * MS])] * 1
    new = [run([10 * MS] * 20 + [100 * MS])] * 1
    by_median = compare(base, new, run_sd_frac=0.001)
    by_mean = compare(base, new, run_sd_frac=0.001, statistic="mean")
    assert (by_median.verdict, by_mean.verdict) == ("no difference beyond the margin", "slower")


def test_medians_of_several_runs_are_averaged_as_the_ratio_is() -> None:
    found = compare([run([1 * MS] * 5), run([100 * MS] * 5)], [run([20 * MS] * 5), run([20 * MS] * 5)])
    assert found.median.base == 10 * MS
    assert found.median.comparison is not None
    assert found.median.comparison.ratio == pytest.approx(2.0)


def test_why_names_the_largest_parts_and_the_rest() -> None:
    base = run([100 * MS] * 4, places={INPUT: 4 * 40 * MS, ("stall", "dispatch", None, None, None): 4 * MS})
    new = run([70 * MS] * 4, places={("stall", "dispatch", None, None, None): 4 * 9 * MS})
    found = compare([base], [new])
    assert found.why == (
        "The mean step is 30.0 ms shorter: -40.0 ms stall by input (waiting for the next batch), +8.00 ms stall by "
        "dispatch (the framework between two launches), +2.00 ms all else."
    )
    assert [(place.cause, place.file, place.line, place.difference_ns) for place in found.places] == [
        ("input", "train.py", 3, -40 * MS),
        ("dispatch", None, None, 8 * MS),
    ]


def test_a_kernel_is_new_gone_or_changed() -> None:
    base = (kernel("a", count=4, device_ns=800), kernel("b", count=2, device_ns=100))
    base += (kernel("c", count=2, device_ns=200), kernel("e", device_ns=50, detail="[1, 1, 1]"))
    new = (kernel("a", count=2, device_ns=800), kernel("b", count=2, device_ns=300))
    new += (kernel("d", count=2, device_ns=400), kernel("e", device_ns=50, detail="[2, 1, 1]"))
    found = compare([run([MS] * 2, kernels=base)], [run([MS] * 2, kernels=new)])
    rows = {(row.name, row.detail): row for row in found.kernels}
    assert {key: row.change for key, row in rows.items()} == {
        ("a", ""): "count", ("b", ""): "time", ("c", ""): "gone", ("d", ""): "new",
        ("e", "[1, 1, 1]"): "gone", ("e", "[2, 1, 1]"): "new",
    }  # fmt: skip
    assert (rows["a", ""].base_count, rows["a", ""].new_count) == (2, 1)
    assert rows["b", ""].device_difference_ns == 100


def test_a_kernel_that_the_other_side_may_have_among_the_others_is_not_called_gone() -> None:
    base = run([MS], kernels=(kernel("a", device_ns=500),))
    new = run([MS], kernels=(kernel("b", device_ns=900), kernel(OTHERS, device_ns=500)))
    changes = {row.name: row.change for row in compare([base], [new]).kernels}
    assert changes == {"a": "not listed", "b": "new", OTHERS: "new"}


def test_fallbacks_are_matched_by_op_and_place() -> None:
    one = FallbackMeasure("aten::nan_to_num", "aten::nan_to_num", 4, 400, "train.py", 9, "loop")
    found = compare([run([MS])], [run([MS], fallbacks=(one,)), run([MS])])
    assert [(row.op, row.line, row.base_count, row.new_count, row.new_ns) for row in found.fallbacks] == [
        ("aten::nan_to_num", 9, 0, 2, 200)
    ]
    assert {row.key: row.new for row in found.metrics}["fallback_count"] == 2


def test_a_fallback_whose_line_moved_is_one_row() -> None:
    old, now = (FallbackMeasure("aten::i0", "aten::i0", 4, 400, "train.py", line, "loop") for line in (9, 11))
    found = compare([run([MS], fallbacks=(old,))], [run([MS], fallbacks=(now,))])
    assert [(row.line, row.base_count, row.new_count) for row in found.fallbacks] == [(11, 4, 4)]


def test_what_is_new_is_told_first_whatever_the_time_says() -> None:
    op = FallbackMeasure("aten::nan_to_num", "aten::nan_to_num", 4, 400, "train.py", 9, "loop")
    again = (PlacedCount("forward", 2, "net.py", 5, "size mismatch"),)
    base = run([MS] * 9, compilation=CompilationMeasures(0, 0, 0, 0, (), ()))
    new = run([MS] * 9, fallbacks=(op,), compilation=CompilationMeasures(2, 9, 2, 9, again, ()))
    found = compare([base], [new])
    assert found.notes[:2] == (
        "New: aten::nan_to_num falls back to the CPU, 4 times a run (train.py:9).",
        "New: forward is compiled again, 2 times a run (net.py:5): size mismatch.",
    )
    assert [(row.name, row.base_count, row.new_count) for row in found.compilations] == [("forward", 0, 2)]
    assert not any(note.startswith("New") for note in compare([new], [new]).notes)


def test_a_rank_is_compared_whatever_its_device_is_called() -> None:
    steps = [10 * MS, 30 * MS]
    base = run(steps, lanes=[lane(steps, {}, rank=0), lane([10 * MS], {}, rank=1)])
    new = run(steps, lanes=[lane(steps, {}, rank=0, device="hip")])
    rows = compare([base], [new]).ranks
    assert [(row.rank, row.base_device, row.new_device, row.difference_ns) for row in rows] == [
        (0, "cuda 0", "hip 0", 0),
        (1, "cuda 0", "", None),
    ]


def test_what_makes_the_sides_unlike_comes_first_and_is_flagged() -> None:
    base = run([MS] * 9, environment={"device": "1 x A", "python": "3.11", "versions.torch": "2.6"})
    new = run([MS] * 9, environment={"device": "1 x B", "python": "3.11", "versions.torch": "2.7"})
    found = compare([base], [new])
    assert [(row.name, row.unlike) for row in found.environment] == [("device", True), ("versions.torch", False)]
    assert found.notes[0].startswith("Apples and pears: the sides differ in device.")


def test_runs_of_one_side_that_differ_among_themselves_are_told() -> None:
    base = [run([MS] * 9, environment={"versions.torch": version}) for version in ("2.6", "2.7")]
    found = compare(base, [run([MS] * 9, environment={"versions.torch": "2.7"})])
    assert [(row.base, row.new) for row in found.environment] == [("2.6 | 2.7", "2.7")]


def test_steps_are_not_held_against_a_whole_recording_unsaid() -> None:
    found = compare([run([MS] * 9)], [replace(run([9 * MS]), unit="recording")])
    assert [(row.name, row.unlike) for row in found.environment] == [("unit", True)]
    assert found.unit == "recording"


def test_outliers_are_named_and_counted() -> None:
    steps = [10 * MS, 11 * MS, 10 * MS, 90 * MS, 10 * MS, 11 * MS, 10 * MS, 2 * MS]
    found = compare([run(steps)], [run([10 * MS] * 8)])
    assert [(one.side, one.step, one.ns) for one in found.outliers] == [("base", 3, 90 * MS), ("base", 7, 2 * MS)]
    assert "last step ends with its last operation" in found.outliers[1].note
    assert found.mean.base == nearest(sum(steps), len(steps))
    assert any("nothing was dropped" in note for note in found.notes)


def test_a_run_far_from_the_other_runs_of_its_side_is_named() -> None:
    base = [run([ms * MS] * 9, name=f"run{ms}") for ms in (10, 10, 10, 10, 30)]
    found = compare(base, [run([10 * MS] * 9)])
    assert [(one.run, one.step, one.typical_ns) for one in found.outliers] == [("run30", None, 10 * MS)]


def test_a_run_that_did_not_complete_and_other_steps_are_told() -> None:
    failed = replace(run([MS] * 9, name="bad"), status="failed", step_numbers=tuple(range(5, 14)))
    notes = compare([run([MS] * 9)], [failed]).notes
    assert "new bad did not complete: failed." in notes
    assert "Steady steps are 0-8 on the base side and 5-13 on the new side." in notes


def test_median_and_mean_that_disagree_are_told() -> None:
    base, new = [10 * MS] * 9, [9 * MS] * 8 + [90 * MS]
    assert any("a few steps decide the mean" in note for note in compare([run(base)], [run(new)]).notes)


@pytest.mark.parametrize("empty", [[], [run()]])
def test_a_side_with_nothing_to_compare_is_an_error(empty: list[RunMeasures]) -> None:
    with pytest.raises(UsageError, match="new side"):
        compare([run([MS])], empty)
