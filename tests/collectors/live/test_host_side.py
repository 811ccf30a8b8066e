"""Collectors of the host's side, one at a time."""

from __future__ import annotations

import gc
import json
import os
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from stallscope.collectors.live.fallback import FallbackCollector
from stallscope.collectors.live.gc import GarbageCollector
from stallscope.collectors.live.host import HostCollector
from stallscope.collectors.live.input import InputCollector
from stallscope.collectors.live.io import FileCollector
from stallscope.collectors.live.looks import Look, Watch
from stallscope.collectors.live.prints import PrintCollector
from stallscope.collectors.live.sampler import SamplerCollector
from stallscope.collectors.live.thread_times import ThreadTimes, state_between
from stallscope.collectors.live.windows import HISTORY, WindowTrigger

from .context import TestContext, counters

KERNEL_COUNTS = Path("/proc/self/schedstat").exists()


def lines_of(written: dict, stack_id: int) -> list[tuple[str, int]]:  # type: ignore[type-arg]
    frames = {row["frame_id"]: row for row in written["frames"]}
    stack = next(row for row in written["stacks"] if row["stack_id"] == stack_id)
    return [(Path(frames[one]["file"]).name, frames[one]["line"]) for one in stack["frame_ids"]]


def test_a_collection_is_a_slice_with_the_line_it_struck_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.collectors.live.gc.SHORTEST_NS", 0)
    context, collector = TestContext(tmp_path), GarbageCollector()
    collector.start(context)
    line = sys._getframe().f_lineno + 1
    gc.collect()
    collector.stop()
    gc.collect()
    written = context.written()
    full = [row for row in written["slices"] if "generation 2" in row["name"]]
    assert len(full) == 1
    assert full[0]["category"] == "gc"
    assert full[0]["dur"] > 0
    assert lines_of(written, full[0]["stack_id"])[-1] == (Path(__file__).name, line)
    assert collector._callback not in gc.callbacks


def test_short_collections_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.collectors.live.gc.SHORTEST_NS", 1 << 60)
    context, collector = TestContext(tmp_path), GarbageCollector()
    collector.start(context)
    for _ in range(5):
        gc.collect(0)
    collector.stop()
    written = context.written()
    assert "slices" not in written
    assert written["losses"][0]["count"] >= 5


def test_files_on_training_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stallscope.collectors.live.io.SHORTEST_OPEN_NS", 0)
    context, collector = TestContext(tmp_path), FileCollector()
    collector.start(context)
    try:
        line = sys._getframe().f_lineno + 1
        torch.save(torch.ones(3), tmp_path / "a.pt")
        assert torch.equal(torch.load(tmp_path / "a.pt"), torch.ones(3))
        with open(tmp_path / "b", "w") as file:  # noqa: PTH123 - it is open() that is watched
            os.fsync(file.fileno())
        with pytest.raises(FileNotFoundError):
            torch.load(tmp_path / "absent.pt")
        other = threading.Thread(target=lambda: torch.save(torch.ones(1), tmp_path / "c.pt"))
        other.start()
        other.join()
    finally:
        collector.stop()
    torch.save(torch.ones(1), tmp_path / "d.pt")
    written = context.written()
    names = [row["name"] for row in written["slices"]]
    assert names.count("torch.save") == 1
    assert names.count("torch.load") == 2
    assert names.count("os.fsync") == 1
    assert "open" in names
    save = next(row for row in written["slices"] if row["name"] == "torch.save")
    assert lines_of(written, save["stack_id"])[-1] == (Path(__file__).name, line)
    # What a save opens lies inside it.
    opens = [row for row in written["slices"] if row["name"] == "open" and row["parent_id"] is not None]
    for row in opens:
        parent = next(one for one in written["slices"] if one["slice_id"] == row["parent_id"])
        assert parent["ts"] <= row["ts"]
        assert row["ts"] + row["dur"] <= parent["ts"] + parent["dur"]
        assert row["depth"] == parent["depth"] + 1
    failed = [json.loads(row["args"]) for row in written["slices"] if row["name"] == "torch.load" and row["args"]]
    assert failed == [{"error": "FileNotFoundError"}]


def test_printing_a_tensor(tmp_path: Path) -> None:
    context, collector = TestContext(tmp_path), PrintCollector()
    collector.start(context)
    try:
        line = sys._getframe().f_lineno + 1
        assert str(torch.ones(1)) == "tensor([1.])"
    finally:
        collector.stop()
    assert repr(torch.ones(1)) == "tensor([1.])"
    written = context.written()
    assert [row["name"] for row in written["slices"]] == ["Tensor.__repr__"]
    assert lines_of(written, written["slices"][0]["stack_id"])[-1] == (Path(__file__).name, line)


class SlowRows(Dataset):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 3

    def __getitem__(self, index: int) -> int:
        time.sleep(0.002)
        return index


def test_waiting_for_a_loader(tmp_path: Path) -> None:
    context, collector = TestContext(tmp_path), InputCollector()
    collector.start(context)
    try:
        line = sys._getframe().f_lineno + 1
        batches = [int(batch) for batch in DataLoader(SlowRows(), batch_size=1)]
    finally:
        collector.stop()
    assert batches == [0, 1, 2]
    written = context.written()
    told = [json.loads(row["args"]) for row in written["slices"]]
    assert told == [{"workers": 0}] * 3 + [{"workers": 0, "end": True}]
    waits = written["slices"][:3]
    assert all(row["dur"] >= 2_000_000 for row in waits)
    assert all((Path(__file__).name, line) in lines_of(written, row["stack_id"]) for row in waits)
    assert written["slices"][3]["stack_id"] is None


def test_samples_name_the_line_that_runs(tmp_path: Path) -> None:
    context, collector = TestContext(tmp_path, sample_hz=200), SamplerCollector()
    collector.start(context)
    until = time.monotonic() + 0.4
    first = sys._getframe().f_lineno + 1
    while time.monotonic() < until:
        sum(range(1000))
    last = sys._getframe().f_lineno
    collector.stop()
    written = context.written()
    samples = written["samples"]
    assert 20 <= len(samples) <= 90
    stamps = [row["ts"] for row in samples]
    assert stamps == sorted(stamps)
    here = [lines_of(written, row["stack_id"])[-1] for row in samples]
    inside = [line for file, line in here if file == Path(__file__).name and first <= line <= last]
    assert len(inside) >= 0.8 * len(samples)
    states = [row["state"] for row in samples if row["state"]]
    if KERNEL_COUNTS:
        assert 1 <= len(states) <= len(samples) // 5
        assert states.count("running") + states.count("runnable") >= 0.6 * len(states)
        assert all(row["run_delay_ns"] is None or row["run_delay_ns"] >= 0 for row in samples)


def test_samples_of_a_thread_beside_the_training_thread_are_of_when_it_ran(tmp_path: Path) -> None:
    context, collector = TestContext(tmp_path, sample_hz=200), SamplerCollector()
    quit_ = threading.Event()
    ids: dict[str, int] = {}

    def work() -> None:
        ids["works"] = threading.get_native_id()
        while not quit_.is_set():
            sum(range(1000))

    def rest() -> None:
        ids["rests"] = threading.get_native_id()
        quit_.wait(10)

    threads = [threading.Thread(target=body) for body in (work, rest)]
    for thread in threads:
        thread.start()
    collector.start(context)
    time.sleep(0.4)
    collector.stop()
    quit_.set()
    for thread in threads:
        thread.join()
    written = context.written()
    thread_of = {row["track_id"]: row["thread_id"] for row in written["tracks"]}
    of_works = [row for row in written["samples"] if thread_of[row["track_id"]] == ids["works"]]
    assert not [row for row in written["samples"] if thread_of[row["track_id"]] == ids["rests"]]
    assert len(of_works) >= 5
    assert {row["state"] for row in of_works} == {"running"}
    inside = [row for row in of_works if lines_of(written, row["stack_id"])[-1][0] == Path(__file__).name]
    assert inside


class DearLooks:
    """Looks that take a millisecond each, of which none has to be waited for."""

    def __init__(self, most: int) -> None:
        self.periods: list[float] = []
        self.collector: SamplerCollector | None = None
        self._most = most

    def take(self, period_s: float, watch: Watch) -> tuple[list[Look], float]:
        self.periods.append(period_s)
        if len(self.periods) == self._most and self.collector:
            self.collector._quit = True
        return [Look(time.time_ns(), {}, time.time_ns(), (0,) * len(watch.clocks), ())], 0.001

    def frames_in(self, _stack: bytes) -> list[tuple[str, int, str]]:
        return []

    def hold(self) -> None: ...
    def release(self) -> None: ...
    def cancel(self) -> None: ...
    def close(self) -> None: ...


@pytest.mark.parametrize(("settings", "detail", "typical"), [
    ({}, "always", 1.0), ({}, "low", 0.2), ({"sample_hz": 200}, "always", 0.005),
])  # fmt: skip
def test_dear_samples_are_rarer_unless_so_many_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], detail: str, typical: float
) -> None:
    looks = DearLooks(100)
    monkeypatch.setattr("stallscope.collectors.live.sampler.looks", lambda: looks)
    context, looks.collector = TestContext(tmp_path, **settings), SamplerCollector()
    context.detail = detail
    looks.collector.start(context)
    thread = looks.collector._thread
    assert thread is not None
    thread.join(10)
    looks.collector.stop()
    assert looks.periods[0] == 1 / (settings.get("sample_hz") or 100)
    # A look costs the millisecond, and what writing it takes.
    assert 0.99 * typical <= looks.periods[-1] <= 2 * typical


def test_what_a_thread_did_most() -> None:
    before = ThreadTimes(100, 10)
    assert state_between(before, ThreadTimes(190, 15), 100) == "running"
    assert state_between(before, ThreadTimes(110, 90), 100) == "runnable"
    assert state_between(before, ThreadTimes(110, 15), 100) == "sleeping"


PROC = {
    "self/statm": "1000 250 5 1 0 0 0\n",
    "self/io": "rchar: 1\nread_bytes: 4096\nwrite_bytes: 8192\n",
    "stat": "cpu  100 0 50 1000 5 1 2 0 0 0\ncpu0 60 0 25 500 2 1 1 0 0 0\ncpu1 40 0 25 500 3 0 1 0 0 0\nintr 5\n",
    "meminfo": "MemTotal: 100 kB\nMemAvailable: 60 kB\nSwapTotal: 10 kB\nSwapFree: 4 kB\n",
    "net/dev": "Inter-| Receive\n face |bytes\n"
    "    lo: 5 0 0 0 0 0 0 0 5 0\n  eth0: 100 1 0 0 0 0 0 0 40 1 0 0 0 0 0 0\n",
}


def test_the_hosts_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    proc = tmp_path / "proc"
    for name, text in PROC.items():
        (proc / name).parent.mkdir(parents=True, exist_ok=True)
        (proc / name).write_text(text)
    clock = iter([float(n) for n in range(1000)])
    now = [0.0]
    monkeypatch.setattr("stallscope.collectors.live.host.time", SimpleNamespace(monotonic=lambda: now[0]))
    del clock
    context, collector = TestContext(tmp_path), HostCollector(proc)
    assert collector.available() is None
    collector.start(context)
    now[0] = 2.0
    (proc / "stat").write_text(PROC["stat"].replace("cpu0 60", f"cpu0 {60 + 2 * os.sysconf('SC_CLK_TCK')}"))
    (proc / "net" / "dev").write_text(PROC["net/dev"].replace("eth0: 100", "eth0: 2100"))
    for _ in range(5):
        collector.on_tick()
    read = counters(context.written())
    page = os.sysconf("SC_PAGE_SIZE")
    assert read["process: resident memory", None, None] == [250.0 * page] * 6
    assert read["host: core 0", None, None] == [1.0]
    assert read["host: core 1", None, None] == [0.0]
    assert read["host: memory available", None, None] == [60 * 1024.0] * 2
    assert read["host: swap in use", None, None] == [6 * 1024.0] * 2
    assert read["host: network received", None, None] == [1000.0]
    assert HostCollector(tmp_path / "absent").available() is not None


def test_a_vendors_list_of_fallbacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fell_back = ["aten::old"]
    monkeypatch.setitem(sys.modules, "fake_vendor", SimpleNamespace(listed=lambda: fell_back))  # type: ignore[arg-type]
    context, collector = TestContext(tmp_path), FallbackCollector({"fake_vendor": "listed", "not_imported": "x"})
    collector.start(context)
    fell_back.append("aten::cummax")
    collector.on_tick()
    collector.on_tick()
    collector.stop()
    rows = context.written()["slices"]
    assert [(row["name"], row["kind"], row["category"]) for row in rows] == [("aten::cummax", "instant", "fallback")]


def test_windows_of_always() -> None:
    now = [0.0]
    trigger = WindowTrigger(factor=2.0, every_s=600.0, clock=lambda: now[0])
    for _ in range(HISTORY):
        now[0] += 0.01
        assert trigger.reason(10_000_000) is None
    assert trigger.reason(19_000_000) is None
    assert "median is 10.0 ms" in str(trigger.reason(21_000_000))
    assert trigger.reason(50_000_000) is None  # rests
    now[0] += 61
    assert trigger.reason(50_000_000) is not None
    now[0] += 601
    assert "since the last window" in str(trigger.reason(10_000_000))
    trigger.install_signal()
    os.kill(os.getpid(), 12)
    time.sleep(0.01)
    assert "SIGUSR2" in str(trigger.reason(10_000_000))
    trigger.remove_signal()


def test_a_run_that_becomes_slower_has_another_median() -> None:
    trigger = WindowTrigger(factor=2.0, every_s=600.0, clock=lambda: 1000.0)
    for _ in range(HISTORY):
        trigger.reason(10_000_000)
    for _ in range(HISTORY):
        trigger.reason(19_000_000)
    assert trigger.reason(21_000_000) is None  # was an outlier before
    assert "median is 19.0 ms" in str(trigger.reason(40_000_000))


def test_an_early_slow_step_is_no_outlier() -> None:
    trigger = WindowTrigger(factor=2.0, every_s=600.0, clock=lambda: 0.0)
    assert [trigger.reason(dur) for dur in (9_000_000_000, 10, 10)] == [None] * 3
