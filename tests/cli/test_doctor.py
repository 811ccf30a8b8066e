"""doctor: says what works; fails only where stallscope cannot work."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from stallscope.cli import machine
from stallscope.cli.check import Check
from stallscope.cli.device_plugins import device_plugins
from stallscope.cli.machine import compiled_part, dependency
from tests.cli.conftest import Run


def test_a_dependency_that_is_missing_or_too_old_fails() -> None:
    assert dependency("click", "8").state == "ok"
    assert dependency("click", "999").state == "failed"
    missing = dependency("no-such-distribution", "1.2")
    assert missing.state == "failed"
    assert "pip install 'no-such-distribution>=1.2'" in missing.hint


def test_without_a_compiled_part_the_way_out_depends_on_the_compiler() -> None:
    built, missing, at_hand = (
        compiled_part("reading", "native scanner", *found, "slower")
        for found in ((True, None), (False, None), (False, "/c++"))
    )
    assert (built.state, missing.state, missing.found) == ("ok", "note", "not built: slower")
    assert "Install a C++17 compiler" in missing.hint
    assert "/c++" in at_hand.hint


def test_it_prints_every_section(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "ask_torch", lambda: (None, "not installed"))
    text = run("doctor").stdout
    for word in ("System", "Dependencies", "Reading", "Recording", "Cache", "reads torch_profiler", "not installed"):
        assert word in text
    document = json.loads(run("doctor", "--json").stdout)
    assert document["ok"] is True
    assert {check["section"] for check in document["checks"]} == {
        "system", "dependencies", "reading", "recording", "cache",
    }  # fmt: skip


def test_a_failed_check_is_exit_code_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "checks", lambda: iter([Check("system", "x", "failed", "gone", "get it")]))
    text = run("doctor", exit_code=1).stdout
    assert "FAILED" in text
    assert "get it" in text


def test_a_torch_that_crashes_is_reported(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_ASK_TORCH", "raise SystemExit('driver on fire')")
    monkeypatch.setattr(machine, "_module_found", lambda _: True)
    assert machine.ask_torch() == (None, "does not import: driver on fire")


def test_it_says_which_collectors_can_record_and_why_not(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = [
        {"name": "gc", "origin": "stallscope", "loads": True, "reason": None},
        {"name": "sampler", "origin": "stallscope", "loads": True, "reason": "no frames here"},
        {"name": "theirs", "origin": "other", "loads": False, "reason": "ImportError: gone"},
    ]
    monkeypatch.setattr(machine, "_ASK_COLLECTORS", f"print({json.dumps(json.dumps(answers))})")
    can, cannot, broken = machine._collectors()
    assert (can.state, can.found) == ("ok", "can record (from stallscope)")
    assert (cannot.state, cannot.found) == ("note", "cannot record here: no frames here")
    assert broken.found == "does not load: ImportError: gone"
    assert broken.hint == "Repair or remove the package other."


def test_every_registered_collector_is_asked() -> None:
    from stallscope.profiler.session.registry import collector_names

    assert [check.name for check in machine._collectors()] == collector_names()


def test_a_collector_process_that_dies_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "_ASK_COLLECTORS", "import os; os._exit(9)")
    [check] = machine._collectors()
    assert check.found == "does not import: no message, exit status 9"


def test_torch_is_asked_in_a_process_of_its_own() -> None:
    pytest.importorskip("torch")
    found, why_not = machine.ask_torch()
    assert why_not == ""
    assert found is not None
    assert "CPU" in found["activities"]


class Entry:
    """What importlib.metadata gives for a plug-in's entry point."""

    def __init__(self, name: str, package: str) -> None:
        self.name = name
        self.dist = SimpleNamespace(name=package, version="1.2")


def test_device_plugins_are_told_with_whether_torch_has_their_device(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [Entry("device_backend", "torch_tpu"), Entry("other", "torch-other")]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: entries)
    other, tpu = device_plugins("tpu")
    assert (tpu.name, tpu.state) == ("plug-in tpu", "ok")
    assert tpu.found.startswith("torch_tpu 1.2: ")
    assert ".xplane.pb" in tpu.found
    assert (other.name, other.state) == ("plug-in other", "note")
    assert "torch has no device 'other'" in other.found
    assert other.hint
    assert [check.state for check in device_plugins(None)] == ["note", "note"]


def test_without_device_plugins_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [])
    assert list(device_plugins("privateuseone")) == []
