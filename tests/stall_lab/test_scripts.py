"""The scripts of the stall lab: what the seed draws, what a switch changes, where the lines to blame are."""

from __future__ import annotations

import ast
import random
from pathlib import Path

import pytest

from stallscope.samples.stall_lab import REGIMES, WORKLOADS, write_script
from stallscope.samples.stall_lab.script import drawn_values

EVERY = sorted(WORKLOADS)
JOBS = [(name, regime) for name in EVERY for regime in WORKLOADS[name].regimes]


def everything(name: str) -> frozenset[str]:
    return frozenset(injection.name for injection in WORKLOADS[name].injections)


def written(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in folder.glob("*.py")}


@pytest.mark.parametrize(("name", "regime"), JOBS)
def test_every_script_parses_with_and_without_its_mistakes(tmp_path: Path, name: str, regime: str) -> None:
    for on in {frozenset(), everything(name)}:
        folder = tmp_path / str(len(on))
        folder.mkdir()
        write_script(WORKLOADS[name], REGIMES[regime], 5, on, folder)
        for text in written(folder).values():
            ast.parse(text)
            assert "$" not in text
            assert "#!" not in text


@pytest.mark.parametrize("name", EVERY)
def test_the_lines_to_blame_are_there_only_with_the_mistake(tmp_path: Path, name: str) -> None:
    workload = WORKLOADS[name]
    (tmp_path / "on").mkdir()
    script = write_script(workload, REGIMES[workload.regimes[0]], 5, everything(name), tmp_path / "on")
    assert set(script.lines) == everything(name)
    for injection in workload.injections:
        without = tmp_path / injection.name
        without.mkdir()
        others = write_script(
            workload, REGIMES[workload.regimes[0]], 5, everything(name) - {injection.name}, without
        ).lines
        assert injection.name not in others
        with_it, without_it = written(tmp_path / "on"), written(without)
        for file, number in script.lines[injection.name]:
            # The line does something, and the code is another one without the mistake.
            assert with_it[file].splitlines()[number - 1].strip() not in ("", "pass")
            assert with_it[file] != without_it[file]


def test_seeds_draw_other_names_and_the_same_seed_the_same() -> None:
    workload, regime = WORKLOADS["slow_loader"], REGIMES["ahead"]
    draws = [drawn_values(workload, regime, seed) for seed in (1, 1, 2, 3)]
    assert draws[0] == draws[1]
    assert len({values["train_module"] for values in draws[1:]} | {values["dataset"] for values in draws[1:]}) > 3
    assert len({values["read_ms"] for values in draws[1:]}) == 3


def test_a_switch_changes_nothing_but_its_own_code(tmp_path: Path) -> None:
    for number, on in enumerate((frozenset[str](), frozenset({"loader"}))):
        (tmp_path / str(number)).mkdir()
        write_script(WORKLOADS["slow_loader"], REGIMES["ahead"], 7, on, tmp_path / str(number))
    off, on_files = written(tmp_path / "0"), written(tmp_path / "1")
    assert set(off) == set(on_files)
    added = [
        line.strip() for name in on_files for line in on_files[name].splitlines() if line not in off[name].splitlines()
    ]
    assert len(added) == 1
    assert added[0].startswith("time.sleep(")


def test_only_the_synchronizing_regime_waits_in_every_step(tmp_path: Path) -> None:
    for name in ("ahead", "sync"):
        (tmp_path / name).mkdir()
        script = write_script(WORKLOADS["slow_loader"], REGIMES[name], 1, frozenset(), tmp_path / name)
        waits = [text for text in written(tmp_path / name).values() if "synchronize()" in text]
        assert bool(waits) == (name == "sync") == (script.synchronizing is not None)


def test_what_mistakes_draw_does_not_overwrite_what_others_of_the_same_script_do() -> None:
    rng, regime = random.Random(1), REGIMES["balanced"]
    for workload in WORKLOADS.values():
        drawn = [*workload.draw(rng, regime), *(name for one in workload.injections for name in one.draw(rng, regime))]
        assert len(drawn) == len(set(drawn)), workload.name


def test_every_cause_that_a_workload_names_exists() -> None:
    from stallscope.analysis.causes import CAUSES

    for workload in WORKLOADS.values():
        for injection in workload.injections:
            # Communication that nothing hides is a state of its own, and no stall.
            assert set(injection.causes) <= {*CAUSES, "communication"}
