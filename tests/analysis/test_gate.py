"""Verdicts of a gate: against closed forms, by simulation, and in what is said of each."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from stallscope.analysis.budgets import Budget, parse_budgets
from stallscope.analysis.gate import GateReport, gate
from stallscope.analysis.gate_intervals import exact_interval, timed_interval
from stallscope.analysis.gate_places import Place
from stallscope.analysis.gate_verdicts import judged
from stallscope.analysis.gate_why import Side
from stallscope.analysis.run_facts import (
    CommunicationMeasures,
    CompilationMeasures,
    CopyMeasure,
    FallbackMeasure,
    MemoryMeasure,
    PlacedCount,
    RunMeasures,
)
from tests.analysis.measured_runs import MS, run

INPUT = ("stall", "input", "data.py", 12, "load")


def of_ms(*values: float, **other: Any) -> tuple[RunMeasures, ...]:
    """One run a value, of six equal steps."""
    return tuple(run([round(value * MS)] * 6, **other) for value in values)


def timed(new: list[float], base: list[float], **choice: Any) -> Any:
    return timed_interval(new, base, **{"ratio": True, "relative": True, "factor": 1.0, "run_sd_frac": None} | choice)


def asked(entries: dict[str, object], new: Any, base: Any = (), **choice: Any) -> GateReport:
    return gate(parse_budgets(entries, **choice), tuple(new), tuple(base))


def only(entries: dict[str, object], new: Any, base: Any = (), **choice: Any) -> tuple[str, str]:
    [outcome] = asked(entries, new, base, **choice).outcomes
    return outcome.judgement.verdict, outcome.judgement.reason


BASE, NEW = [10.0, 10.1, 9.9, 10.05, 9.95], [10.6, 10.9, 10.4, 10.75, 10.5]


def test_with_enough_runs_a_side_the_interval_is_welchs() -> None:
    found = timed(NEW, BASE)
    welch = stats.ttest_ind(np.log(NEW), np.log(BASE), equal_var=False).confidence_interval(0.95)
    assert found.basis == "runs of both sides"
    assert found.low / found.base == pytest.approx(math.exp(welch.low))
    assert found.high / found.base == pytest.approx(math.exp(welch.high))


def test_one_run_is_judged_by_students_interval_for_a_single_further_value() -> None:
    found = timed([11.0], BASE)
    logs = np.log(BASE)
    half = stats.t.ppf(0.975, 4) * logs.std(ddof=1) * math.sqrt(1 + 1 / 5)
    assert found.basis == "baseline runs"
    assert (found.low, found.high) == pytest.approx((11 * math.exp(-half), 11 * math.exp(half)))


def test_one_run_against_one_needs_a_supplied_spread() -> None:
    assert timed([11.0], [10.0]).basis == "none"
    found = timed([11.0], [10.0], run_sd_frac=0.01)
    half = stats.norm.ppf(0.975) * 0.01 * math.sqrt(2)
    assert found.low == pytest.approx(11 * math.exp(-half))


def test_a_limit_without_a_baseline_is_held_against_the_mean_of_the_runs() -> None:
    found = timed(NEW, [], relative=False)
    interval = stats.t.interval(0.95, 4, np.mean(np.log(NEW)), stats.sem(np.log(NEW)))
    assert (found.low, found.high) == pytest.approx(tuple(np.exp(interval)))


def test_shares_are_compared_by_their_difference_and_may_be_nothing() -> None:
    new, base = [0.1, 0.12, 0.11, 0.1, 0.13], [0.0, 0.01, 0.0, 0.01, 0.0]
    found = timed(new, base, ratio=False)
    welch = stats.ttest_ind(new, base, equal_var=False).confidence_interval(0.95)
    assert (found.low - found.base, found.high - found.base) == pytest.approx((welch.low, welch.high))


@given(
    st.lists(st.integers(0, 10**12), min_size=1, max_size=8), st.lists(st.integers(0, 10**12), min_size=1, max_size=8)
)
def test_exact_figures_break_only_where_every_run_is_over(new: list[int], base: list[int]) -> None:
    found = exact_interval(new, base)
    assert found.low is not None
    assert found.high is not None
    assert found.base is not None
    assert (found.low > found.base) == all(value > max(base) for value in new)
    assert (found.high <= found.base) == all(value <= max(base) for value in new)


@pytest.mark.parametrize(("new_runs", "margin"), [(5, "+0%"), (1, "+0%"), (5, "+2%"), (1, "+2%")])
def test_the_same_code_breaks_a_budget_no_more_often_than_stated(new_runs: int, margin: str) -> None:
    """1,000 gates without a change; a two-sided 95 % interval lies over the limit in at most 2.5 % of them."""
    rng = np.random.default_rng(5)
    budget = parse_budgets({"step_time": margin}).budgets[0]
    values = np.exp(rng.normal(0, 0.01, size=(1000, 5 + new_runs))) * 20
    broken = 0
    for row in values.tolist():
        found = timed(row[5:], row[:5], factor=1 + budget.margin_frac)
        broken += found.low > budget.limit(found.base)
    assert broken <= 25 + 2.5 * math.sqrt(25 * 0.975)
    assert broken >= 10 or margin != "+0%", "the interval is far wider than it says"


def test_a_slower_step_is_found() -> None:
    rng = np.random.default_rng(6)
    found = 0
    for _ in range(200):
        base, new = (np.exp(rng.normal(0, 0.01, 5)) * scale for scale in (20, 21.6))
        verdict, _ = only({"step_time": "+2%"}, of_ms(*new), of_ms(*base))
        found += verdict == "broken"
    assert found >= 180


def test_each_verdict_of_the_step_time() -> None:
    base = of_ms(*BASE)
    assert only({"step_time": "+5%"}, of_ms(*BASE), base)[0] == "kept"
    assert only({"step_time": "+2%"}, of_ms(*NEW), base)[0] == "broken"
    assert only({"step_time": "+6%"}, of_ms(*NEW), base) == (
        "cannot_tell",
        "The limit lies inside the 95 % interval: more runs would narrow it.",
    )
    verdict, reason = only({"step_time": "+5%"}, of_ms(12), of_ms(10))
    assert verdict == "cannot_tell"
    assert reason.startswith("This is a single run against another")
    verdict, reason = only({"step_time": "+5%"}, of_ms(12), of_ms(10), run_sd_frac=0.01)
    assert verdict == "broken"
    assert reason.startswith("A single run was judged by the spread of the same code that was supplied (1.0%")


def test_what_to_do_where_it_cannot_be_told() -> None:
    new, base = of_ms(12), of_ms(10)
    assert asked({"step_time": "+5%"}, new, base).exit_code == 3
    warned = asked({"step_time": "+5%"}, new, base, on_unknown="warn")
    assert (warned.exit_code, warned.outcomes[0].matter) == (0, "warns")
    assert any("One run against one" in note for note in warned.notes)


@pytest.mark.parametrize("status", ["failed", "killed", "running", "unknown"])
def test_a_run_that_did_not_complete_never_passes(status: str) -> None:
    report = asked({"recompiles": 0}, of_ms(10, status=status))
    assert report.outcomes[0].judgement.verdict == "kept"
    assert (report.verdict, report.exit_code) == ("broken", 1)
    assert report.incomplete == (f"run did not complete ({status}): such a run never passes.",)


def test_a_rank_that_wrote_nothing_is_missing_unless_the_baseline_lacks_it_too() -> None:
    facts = {"missing_ranks": 1, "world_size": 2, "environment": {"recorded_by": "stallscope"}}
    assert asked({"recompiles": 0}, of_ms(10, **facts)).exit_code == 1
    assert asked({"recompiles": "+0"}, of_ms(10, **facts), of_ms(10, **facts)).exit_code == 0
    assert (
        asked({"recompiles": 0}, of_ms(10, **facts | {"environment": {"recorded_by": "torch_profiler"}})).exit_code == 0
    )


def test_times_of_another_device_are_not_held_against_each_other_and_counts_are() -> None:
    new, base = of_ms(*NEW, environment={"device": "1 x A"}), of_ms(*BASE, environment={"device": "1 x B"})
    report = asked({"step_time": "+2%", "recompiles": "+0"}, new, base)
    verdicts = {outcome.judgement.budget.name: outcome.judgement for outcome in report.outcomes}
    assert verdicts["step_time"].verdict == "cannot_tell"
    assert "device is 1 x A, 1 x B in the baseline" in verdicts["step_time"].reason
    assert verdicts["recompiles"].verdict == "kept"
    assert only({"step_time": "1ms"}, new, base)[0] == "broken"


def test_what_is_not_known_cannot_be_told() -> None:
    assert "no allocation" in only({"peak_memory": "+5%"}, of_ms(10), of_ms(10))[1]
    assert "no baseline" in only({"step_time": "+5%"}, of_ms(10))[1]
    waits = CommunicationMeasures(2, 9, None, None, 0, 9, None, "the clocks differ by more than the waits")
    found = only({"communication_waiting": "1ms"}, of_ms(10, communication=waits), run_sd_frac=0.01)
    assert found == ("cannot_tell", "A new run does not say: the clocks differ by more than the waits.")
    assert only({"recompiles": 0}, of_ms(10, unit="recording"))[0] == "cannot_tell"


def fallback(op: str = "aten::nan_to_num", root: str = "aten::nan_to_num", ns: int = 5 * MS) -> FallbackMeasure:
    return FallbackMeasure(op, root, 6, ns, "model.py", 30, "forward")


def test_fallbacks() -> None:
    new = of_ms(10, fallbacks=(fallback(), fallback("aten::eig", "aten::linalg_eig", 9 * MS)))
    report = asked({"fallbacks": "none"}, new)
    [outcome] = report.outcomes
    assert [one.op for one in outcome.judgement.fallbacks] == ["aten::eig", "aten::nan_to_num"]
    assert outcome.blame is not None
    assert outcome.blame.text == (
        "aten::eig (inside aten::linalg_eig) ran on the CPU 6 times in the run, 9.00 ms in all, and 1 other op"
    )
    assert (outcome.blame.file, outcome.blame.line) == ("model.py", 30)
    allowed = [{"op": "aten::linalg_eig", "reason": "once"}, {"op": "aten::nan_to_num", "reason": "no kernel"}]
    assert only({"fallbacks": allowed}, new)[0] == "kept"
    assert only({"fallbacks": allowed[:1]}, new)[0] == "broken"
    assert only({"fallbacks": "baseline"}, new, of_ms(10, fallbacks=(fallback(),)))[0] == "broken"
    assert only({"fallbacks": "baseline"}, new, new)[0] == "kept"


def blamed(entries: dict[str, object], new: Side, base: Side, **choice: Any) -> Any:
    report = gate(parse_budgets(entries, **choice), new.runs, base.runs, sides=lambda: (new, base))
    return report.outcomes[0].blame


def test_a_slower_loader_is_blamed_on_the_line_that_grew() -> None:
    other = ("stall", "input", "data.py", 40, "collate")
    base = of_ms(*BASE, places={INPUT: 6 * MS, other: 30 * MS})
    new = of_ms(*[14 + value / 100 for value in BASE], places={INPUT: 30 * MS, other: 30 * MS})
    found = blamed({"step_time": "+5%"}, Side(new, ()), Side(base, ()))
    assert found.text == "stall by input (waiting for the next batch): +4.00 ms in the mean step, 6.00 ms -> 10.0 ms"
    assert (found.file, found.line, found.function) == ("data.py", 12, "load")
    share = blamed({"stall_share.input": "+1%"}, Side(new, ()), Side(base, ()))
    assert share.text.startswith("waiting for the next batch: 10.0 ms")
    assert share.line == 12


def memory(peak: int) -> tuple[MemoryMeasure, ...]:
    return (MemoryMeasure(0, "cuda", 0, "allocator", peak, None), MemoryMeasure(0, "cpu", None, "seen", 1 << 40, None))


def test_memory_is_blamed_on_what_holds_more_than_it_did_though_its_line_moved() -> None:
    before = (Place("memory", "aten::mm", "/a/net.py", 10, "forward", 80 << 20),)
    after = (
        Place("memory", "aten::mm", "/b/net.py", 12, "forward", 80 << 20),
        Place("memory", "aten::cat", "/b/net.py", 13, "forward", 30 << 20),
    )
    base, new = of_ms(10, memory=memory(100 << 20)), of_ms(10, memory=memory(130 << 20))
    found = blamed({"peak_memory": "+20%"}, Side(new, after), Side(base, before))
    assert found.text == "aten::cat holds 30.0 MiB of the peak, 0 B in the baseline"
    assert (found.file, found.line) == ("/b/net.py", 13)
    assert only({"peak_memory": "+30%"}, new, base)[0] == "kept"


def test_a_recompilation_is_blamed_with_its_reason() -> None:
    again = PlacedCount("forward", 3, "net.py", 7, "tensor 'x' size mismatch at index 0")
    known = PlacedCount("loss", 1, "net.py", 90, "")
    compiled = [CompilationMeasures(9, 9, 0, 0, found, ()) for found in ((known,), (again, known))]
    base, new = (of_ms(10, compilation=one) for one in compiled)
    found = blamed({"recompiles": "+0"}, Side(new, ()), Side(base, ()))
    assert found.text == "forward was compiled again 3 times: tensor 'x' size mismatch at index 0"
    assert (found.file, found.line) == ("net.py", 7)
    silent = of_ms(10, compilation=CompilationMeasures(9, 90, 4, 40, None, None))
    assert only({"recompiles": 3}, silent)[0] == "broken"


def test_bytes_moved_leave_memsets_out_and_say_where_they_are_a_lower_bound() -> None:
    copies = (CopyMeasure("host_to_device", 12, 600, 2, 9), CopyMeasure("set", 6, 6000, 0, 9))
    report = asked({"bytes_moved": "100B"}, of_ms(10, copies=copies))
    assert report.outcomes[0].judgement.value == 100
    assert report.exit_code == 0
    assert any("lower bound" in note for note in report.notes)


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=7), st.lists(st.floats(1, 1e6), min_size=1, max_size=7))
def test_the_verdict_follows_from_the_interval_alone(new: list[float], base: list[float]) -> None:
    one = judged(Budget("step_time", margin_frac=0.05), of_ms(*new), of_ms(*base), run_sd_frac=0.02)
    assert one.low is not None
    assert one.high is not None
    assert one.limit is not None
    assert (one.verdict == "broken") == (one.low > one.limit)
    assert (one.verdict == "kept") == (one.high <= one.limit)
    assert one.low <= (one.value or 0) <= one.high
