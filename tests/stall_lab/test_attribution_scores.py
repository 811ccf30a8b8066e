"""The scores of the attribution benchmark, on numbers that can be checked by hand."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from tests.conftest import REPOSITORY


@pytest.fixture
def scores(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(REPOSITORY / "benchmarks"))
    import attribution_scores

    yield attribution_scores
    sys.modules.pop("attribution_scores")


def run(scores, idle, said, window=None, delay=0, promises=None):
    named = {key if len(key) == 4 else (*key, None): value for key, value in said.items()}
    promises = promises or {("input", *LINE): idle}
    return scores.Evaluation(idle, window or 100e6 + idle, {"ours": named}, 0, promises, [], delay)


LINE = ("data.py", 7)


def cell(scores, on, off):
    return scores.cell_of(("w", "i", "ahead", 1), ("input",), ("input",), {LINE}, on, off)


def test_shares_of_a_cell(scores) -> None:
    """10 ms are true; 8 are said to be input, 6 of them at the line; 1 went to python, and gc fell."""
    off = [run(scores, 1e6, {("gc", None, None): 1e6}) for _ in range(2)]
    said = {("input", *LINE): 6e6, ("input", "data.py", 9): 2e6, ("python", None, None): 1e6}
    on = [run(scores, idle, said) for idle in (11e6, 11e6)]
    found = cell(scores, on, off)
    assert found.scored
    assert found.truth_ns == found.gain_ns == found.predicted_ns == 10e6
    one = found.scores["ours"]
    assert (one.right_ns, one.line_ns, one.wrong_ns, one.over_ns) == (8e6, 6e6, 1e6, 0)
    assert one.rises["gc"] == -1e6
    total = scores.totals([found], "ours")
    assert total["right_cause_frac"] == 0.8
    assert total["right_line_frac"] == 0.6
    assert total["precision_frac"] == pytest.approx(8 / 9, abs=1e-4)


def test_what_is_beyond_the_truth_is_wrong_and_not_right(scores) -> None:
    off = [run(scores, 0, {}) for _ in range(2)]
    found = cell(scores, [run(scores, 4e6, {("input", *LINE): 6e6}) for _ in range(2)], off)
    one = found.scores["ours"]
    assert (one.right_ns, one.line_ns, one.over_ns) == (4e6, 4e6, 2e6)
    assert scores.totals([found], "ours")["wrong_frac"] == 0.5


def test_a_gain_is_judged_where_it_stands_out_of_its_own_noise(scores) -> None:
    """2 ms are true in each pair; once the device is slower without the mistake, and what a step gains is less."""
    on = [run(scores, 2e6, {("input", *LINE): 2e6}, window=50e6) for _ in range(3)]
    steady = cell(scores, on, [run(scores, 0, {}, window=48e6) for _ in range(3)])
    assert (steady.gain_ns, steady.gain_scored, steady.gain_is_right) == (2e6, True, True)
    noisy = cell(scores, on, [run(scores, 0, {}, window=window) for window in (48e6, 48e6, 49e6)])
    assert noisy.scored
    assert noisy.gain_noise_ns == pytest.approx(1e6 / 3**0.5)
    assert not noisy.gain_scored
    far = cell(scores, on, [run(scores, 0, {}, window=48.5e6) for _ in range(3)])
    assert (far.gain_scored, far.gain_is_right) == (True, False)
    total = scores.totals([steady, noisy, far], "ours")
    assert (total["cells"], total["gain_cells"], total["gain_right"]) == (3, 2, 1)


def test_a_promise_counts_at_the_lines_of_the_mistake_or_at_none(scores) -> None:
    """Of 10 ms that are true, 6 are promised at the line and 3 at none; 9 at another line help nobody."""
    promises = {("input", *LINE): 6e6, ("input", None, None): 3e6, ("input", "data.py", 9): 9e6, ("gc", *LINE): 5e6}
    on = [run(scores, 10e6, {}, promises=promises)] * 2
    assert cell(scores, on, [run(scores, 0, {})] * 2).predicted_ns == 9e6
    # 1 of it is promised without the mistake as well.
    assert cell(scores, on, [run(scores, 0, {}, promises={("input", None, None): 1e6})] * 2).predicted_ns == 8e6


def test_a_truth_within_the_noise_is_not_scored(scores) -> None:
    off = [run(scores, 0, {}) for _ in range(3)]
    found = cell(scores, [run(scores, idle, {}) for idle in (1e6, 2e6, 3e6)], off)
    assert found.noise_ns == 1e6
    assert not found.scored
    assert not cell(scores, [run(scores, 5e6, {})], [run(scores, 0, {})]).scored
    assert scores.totals([found], "ours") | {"cells": 0, "unscored": 1} == scores.totals([found], "ours")


def test_device_work_that_is_gone_is_taken_off(scores) -> None:
    """With the mistake the device waits 5 ms more and works 2 ms less: it costs 3."""
    off = [run(scores, 1e6, {}, window=51e6) for _ in range(2)]
    found = cell(scores, [run(scores, 6e6, {}, window=54e6) for _ in range(2)], off)
    assert (found.moved_ns, found.truth_ns, found.gain_ns) == (2e6, 3e6, 3e6)


def test_work_that_the_device_does_for_the_mistake_is_no_gain_of_waiting_less(scores) -> None:
    """With the mistake the device waits 5 ms more and works 3 ms more: no finding about waiting gives back the 3."""
    off = [run(scores, 1e6, {}, window=51e6) for _ in range(2)]
    found = cell(scores, [run(scores, 6e6, {}, window=59e6) for _ in range(2)], off)
    assert (found.truth_ns, found.gain_ns) == (5e6, 5e6)


def test_a_run_without_a_core_for_a_quarter_of_the_time_is_disturbed(scores) -> None:
    assert [scores.is_disturbed(run(scores, 0, {}, window=10e6, delay=delay), 12) for delay in (29e6, 31e6)] == [0, 1]


def test_a_second_cause_counts_beside_the_root(scores) -> None:
    """10 ms are true: 4 have the right root, 5 more name it second and at its line, 1 does not at all."""
    second = ("input", *LINE)
    said = {(*second, None): 4e6, ("python", "a.py", 1, second): 5e6, ("python", "a.py", 1, None): 1e6}
    found = cell(scores, [run(scores, 10e6, said)] * 2, [run(scores, 0, {})] * 2)
    one = found.scores["ours"]
    assert (one.right_ns, one.either_ns, one.either_line_ns) == (4e6, 9e6, 9e6)
    assert (one.wrong_ns, one.either_wrong_ns) == (6e6, 1e6)
    total = scores.totals([found], "ours")
    assert (total["right_or_second_cause_frac"], total["precision_with_second_frac"]) == (0.9, 0.9)


def test_several_waits_count_where_they_are_all_of_the_mistake(scores) -> None:
    """6 ms are gone without all of the waits: right where all of them are the mistake, and not where one is."""
    other = (scores.SEVERAL_WAITS, *LINE)
    on = [run(scores, 6e6, {("input", "a.py", 1, other): 6e6}, promises={(scores.SEVERAL_WAITS, None, None): 6e6})] * 2
    for kinds, right in ((("synchronization", scores.SEVERAL_WAITS), 6e6), (("synchronization",), 0)):
        names, off = ("w", "i", "ahead", 1), [run(scores, 0, {}, promises={("gc", None, None): 0})] * 2
        found = scores.cell_of(names, ("synchronization",), kinds, {LINE}, on, off)
        one = found.scores["ours"]
        assert (one.right_ns, one.either_ns, one.either_line_ns, found.predicted_ns) == (0, right, right, right)


def test_a_second_cause_at_another_line_is_about_another_mistake(scores) -> None:
    """Without the mistake another line's second cause has more: that is no fall of this one's."""
    elsewhere = {("python", "a.py", 1, ("input", "data.py", 9)): 8e6}
    on = [run(scores, 10e6, {("input", *LINE, None): 2e6})] * 2
    one = cell(scores, on, [run(scores, 8e6, elsewhere)] * 2).scores["ours"]
    assert (one.right_ns, one.either_ns, one.either_line_ns) == (2e6, 2e6, 2e6)


def test_lines_of_a_script_without_the_mistake_are_those_of_the_same_text_with_it(scores) -> None:
    without, with_it = {"a.py": "one\ntwo\nsync()\n"}, {"a.py": "one\nmistake()\ntwo\nsync()\n"}
    lines = scores.line_map(without, with_it)
    assert lines == {("a.py", 1): 1, ("a.py", 2): 3, ("a.py", 3): 4}
    assert scores.line_map(with_it, without)["a.py", 2] == -2
    second = ("input", "a.py", 2)
    said = {("gc", "a.py", 3, second): 5.0, ("gc", "other.py", 3, None): 1.0, ("gc", None, None, None): 2.0}
    promises = {("input", "a.py", 2): 4.0, ("gc", None, None): 3.0}
    moved = scores.at_lines(scores.Evaluation(0, 0, {"ours": said}, 0, promises, []), lines)
    assert moved.promises == {("input", "a.py", 3): 4.0, ("gc", None, None): 3.0}
    assert moved.methods["ours"] == {
        ("gc", "a.py", 4, ("input", "a.py", 3)): 5.0, ("gc", "other.py", 3, None): 1.0, ("gc", None, None, None): 2.0,
    }  # fmt: skip
