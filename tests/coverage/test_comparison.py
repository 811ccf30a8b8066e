"""Two coverage runs: newly supported, newly broken, changed."""

from __future__ import annotations

import copy
import random
from typing import Any

from stallscope.analysis.coverage_comparison import Change, compare_coverage
from tests.coverage.folders import AGREES, BREAK, DIFFERS, RECOMPILE


def run(**facts: Any) -> dict[str, Any]:
    return {
        "outcome": "completed", "stage": "done", "reason": "", "step_ns": 100, "step_low_ns": 98, "step_high_ns": 102,
        "compile_ns": 1000, "graph_breaks": [], "recompiles": [], "fallbacks": [], "agreement": AGREES, **facts,
    }  # fmt: skip


def crashed() -> dict[str, Any]:
    return {"outcome": "crashed", "stage": "first step", "reason": "SIGSEGV"}


def document(**models: dict[str, Any]) -> dict[str, Any]:
    rows = [{"name": name, "eager": None, "compiled": None, "warm": None, **runs} for name, runs in models.items()]
    return {"device": "cpu", "device_name": None, "backend": "b", "versions": {"torch": "2.13"}, "rows": rows}


def test_the_same_twice_is_no_difference() -> None:
    base = document(a={"eager": run(), "compiled": run(), "warm": run()}, b={"eager": crashed()})
    found = compare_coverage(base, copy.deepcopy(base))
    assert (found.newly_supported, found.newly_broken, found.changed, found.environment) == ((), (), (), ())
    assert found.unchanged == ("a", "b")


def test_what_runs_now_and_what_no_longer_does() -> None:
    base = document(a={"eager": run(), "compiled": crashed()}, b={"eager": run()})
    new = document(a={"eager": run(), "compiled": run()}, b={"eager": crashed()})
    found = compare_coverage(base, new)
    assert found.newly_supported == (
        Change("a", "compiled", "crashed in first step: SIGSEGV", "completed", direction="better"),
    )
    assert found.newly_broken == (
        Change("b", "eager", "completed", "crashed in first step: SIGSEGV", direction="worse"),
    )
    assert found.changed == ()


def test_another_way_to_fail_is_a_change() -> None:
    hung = {"outcome": "hung", "stage": "warm-up", "reason": "no end after 3 s"}
    found = compare_coverage(document(a={"eager": crashed()}), document(a={"eager": hung}))
    (change,) = found.changed
    assert (change.what, change.direction) == ("eager", "")
    assert not found.newly_broken


def test_results_that_no_longer_agree_are_broken() -> None:
    found = compare_coverage(document(a={"eager": run()}), document(a={"eager": run(agreement=DIFFERS)}))
    (change,) = found.newly_broken
    assert (change.base, change.new) == ("agrees (error 2.0e-06)", "differs (error 5.0e-01)")


def test_fallbacks_breaks_and_recompilations_are_counted_exactly() -> None:
    gelu = {"op": "aten::gelu", "count": 12, "file": "a.py", "line": 1}
    base = document(a={"compiled": run(fallbacks=[gelu, {"op": "aten::old", "count": 1}])})
    new = document(
        a={"compiled": run(fallbacks=[gelu, {**gelu, "line": 2}], graph_breaks=[BREAK], recompiles=[RECOMPILE])}
    )
    found = compare_coverage(base, new)
    assert [(one.what, one.base, one.new, one.direction) for one in found.changed] == [
        ("compiled, fallback: aten::gelu", "12 times", "24 times", "worse"),
        ("compiled, fallback: aten::old", "1 times", "0 times", "better"),
        ("graph break: Dynamic shape operator in model.py", "0 times", "3 times", "worse"),
        (
            "recompilation: tensor 'tokens' size mismatch at index 0. expected 24, actual 32 in model.py",
            "0 times", "2 times", "worse",
        ),
    ]  # fmt: skip


def test_what_was_not_recorded_is_not_compared() -> None:
    base = document(a={"eager": run(fallbacks=None)})
    new = document(a={"eager": run(fallbacks=[{"op": "aten::gelu", "count": 1}])})
    assert compare_coverage(base, new).changed == ()


def test_a_step_is_told_only_beyond_the_margin_and_apart() -> None:
    base = document(a={"eager": run()})

    def told(**facts: int) -> list[tuple[object, object]]:
        return [(one.base, one.new) for one in compare_coverage(base, document(a={"eager": run(**facts)})).changed]

    assert told(step_ns=109, step_low_ns=108, step_high_ns=110) == [], "within 10 %"
    assert told(step_ns=150, step_low_ns=101, step_high_ns=160) == [], "the ranges overlap"
    assert told(step_ns=150, step_low_ns=140, step_high_ns=160) == [(100, 150)]
    assert told(step_ns=50, step_low_ns=49, step_high_ns=51) == [(100, 50)]


def test_compile_times_have_a_wider_margin() -> None:
    base = document(a={"compiled": run(), "warm": run()})
    new = document(a={"compiled": run(compile_ns=1290), "warm": run(compile_ns=1310)})
    (change,) = compare_coverage(base, new).changed
    assert (change.what, change.base, change.new, change.unit) == ("warm compile time", 1000, 1310, "ns")


def test_models_and_environments_that_only_one_has() -> None:
    base, new = document(a={"eager": run()}, b={"eager": run()}), document(b={"eager": run()}, c={"eager": run()})
    new["versions"] = {"torch": "2.14", "triton": "3"}
    found = compare_coverage(base, new)
    assert (found.added, found.removed, found.unchanged) == (("c",), ("a",), ("b",))
    assert found.environment == (("version of torch", "2.13", "2.14"), ("version of triton", None, "3"))


def test_swapping_the_sides_swaps_the_verdict() -> None:
    draw = random.Random(7)
    for _ in range(50):
        sides = [
            document(**{
                name: {"eager": draw.choice([run(), crashed(), run(agreement=DIFFERS)]), "compiled": draw.choice(
                    [run(), run(graph_breaks=[BREAK]), run(step_ns=200, step_low_ns=190, step_high_ns=210)])}
                for name in "abc"
            })
            for _ in range(2)
        ]  # fmt: skip
        there, back = compare_coverage(*sides), compare_coverage(*reversed(sides))
        assert [(one.model, one.what) for one in there.newly_supported] == [
            (one.model, one.what) for one in back.newly_broken
        ]
        swapped = {"better": "worse", "worse": "better", "": ""}
        graph_changes = {(c.model, c.what, swapped[c.direction]) for c in there.changed if "graph" in c.what}
        assert graph_changes == {(c.model, c.what, c.direction) for c in back.changed if "graph" in c.what}
